// bench/ owns the benchmark programs: of transports and plugins (this folder), of collectives (perf/), of
// single parts (micro/), of the planner (planner_eval/), and the page of all results (report/).
//
// This header measures two transports between two processes in turns, in one run, because on a shared machine
// only their ratio is meaningful.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "base/units.h"

namespace tombolo::bench {

/// Messages in flight while throughput is measured; NCCL has as many slots.
inline constexpr std::size_t kOutstanding = 8;

/// A way to move bytes that is measured. The leading process sends first and takes the time.
class Way {
 public:
  virtual ~Way() = default;
  virtual void send(std::span<const std::byte> data) = 0;
  virtual void receive(std::span<std::byte> buffer) = 0;
  /// Moves `count` messages one way, in kOutstanding slots of `size` bytes that are used in turn.
  virtual void stream(bool sending, std::span<std::byte> slots, std::size_t size, std::size_t count) = 0;
};

/// One TCP stream, driven by polling. Does not own the socket.
class PlainTcp final : public Way {
 public:
  explicit PlainTcp(int socket) : socket_(socket) {}
  void send(std::span<const std::byte> data) override;
  void receive(std::span<std::byte> buffer) override;
  void stream(bool sending, std::span<std::byte> slots, std::size_t size, std::size_t count) override;

 private:
  int socket_;
};

/// A connected pair of sockets over loopback, without delay of small messages.
std::pair<int, int> plain_pair();

/// Results, with one entry per repetition: seconds, bytes per second, and processor seconds of this process
/// per 10^9 bytes.
struct Figure {
  std::vector<double> half_round_trips, rates, processor;
};

/// Processor time that this process has used so far, in user and kernel mode.
double used_processor_seconds();

/// The upper one of the two middle values; 0 for no values.
double median(std::vector<double> values);

/// Both processes make the same call except for `leading`. `slots` has room for kOutstanding messages of
/// `size`; one measurement of throughput moves about `bytes_per_run` bytes (16 to 50000 messages).
void measure(Way& way, bool leading, double bytes_per_run, std::size_t size, std::span<std::byte> slots,
             Figure& into);

}  // namespace tombolo::bench
