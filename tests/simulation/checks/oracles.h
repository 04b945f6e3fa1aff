// What must be true of a simulated run. Pure functions: each returns what is wrong, or nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "transport/transport.h"

namespace tombolo::simulation {

/// What one process did, as its owner saw it.
struct Account {
  std::size_t to_send = 0, to_receive = 0, done_sends = 0, done_receives = 0;
  bool made = false;                             ///< it had a connection
  bool killed = false;                           ///< by a fault
  std::string error;                             ///< why the connection failed, or could not be made
  TimePoint connecting_since{}, connected_at{};  ///< of an attempt that was made, or failed
  std::optional<TimePoint> failed_at;            ///< when the owner first saw the error
  std::optional<TimePoint> closing_since, closed_at;
  bool shared_memory = false;  ///< what carried its messages when it closed
  bool closed_alone = false;   ///< no stream was live when it closed

  bool all_done() const noexcept { return done_sends == to_send && done_receives == to_receive; }
};

/// What is known of a run once both processes have ended.
struct Facts {
  Account ends[2];
  bool may_be_refused = false;        ///< system calls were made to fail that set-up cannot do without
  std::optional<TimePoint> terminal;  ///< when a fault struck after which the connection cannot go on
  bool shares_memory = false;         ///< no stream carries the messages
  TimePoint last_cut{};               ///< when a fault last cut a stream, or silence last ended
  std::size_t descriptors_left = 0;   ///< that were not closed
  std::string which_descriptors;
};

/// A request is over. `buffer` is the receive's, or what was sent; `expected` the message.
std::string check_send(unsigned host, std::size_t index, std::size_t bytes,
                       std::span<const std::byte> buffer);
std::string check_receive(unsigned host, std::size_t index, std::size_t bytes,
                          std::span<const std::byte> buffer, std::span<const std::byte> expected);
/// A request may fail only where its connection says why, and names the peer's host.
std::string check_failed(unsigned host, std::size_t index, const Error* error, const std::string& peer);
/// Nothing writes to a buffer whose request is over.
std::string check_over(unsigned host, std::span<const std::byte> buffer);
/// What both ends did.
std::string describe_ends(const Facts& facts);
/// All that is known at the end, but for buffers.
std::string check_end(const Facts& facts);

/// Counts how often an owner is about to sleep although its process has moved nothing since the time before.
class SpinWatch {
 public:
  static constexpr Duration kWindow = std::chrono::milliseconds(100);
  // A connection looks for streams that come once in a millisecond, some hundred turns, and a call of the
  // kernel's may be made to fail three times in a row.
  static constexpr int kMost = 1000;
  /// `moved` is PretendedKernel::moved(). True where the owner was woken in vain too often within kWindow.
  bool woken_for_nothing(TimePoint now, std::uint64_t moved) noexcept {
    if (now - since_ > kWindow || moved != moved_) {
      since_ = now;
      count_ = 0;
    }
    moved_ = moved;
    return ++count_ > kMost;
  }

 private:
  TimePoint since_{};
  std::uint64_t moved_ = 0;
  int count_ = 0;
};

}  // namespace tombolo::simulation
