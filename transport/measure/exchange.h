// The folder measure/ owns how fast a connection is found to be, and which pairs of hosts measure at the same
// time. This file measures the latency and the attained bandwidth of a connection, whose two ends run the
// same steps at the same time.
#pragma once

#include <poll.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "transport/measure/arrival_rate.h"
#include "transport/measure/round_barrier.h"
#include "transport/transport.h"

namespace tombolo::transport::measure {

struct ExchangeOptions {
  bool leads = false;     ///< whether this end decides sizes; exactly one end does
  std::size_t bytes = 0;  ///< per direction; 0 = as many as take about `seconds`
  double seconds = 0.3;
  Duration deadline = std::chrono::seconds(30);  ///< for any step
};

struct Measured {
  double latency_seconds = 0;            ///< half of the median round trip of 8 bytes
  double received_bytes_per_second = 0;  ///< the peer's direction, both loaded at once
  Arrivals arrivals;  ///< those that gave the rate, and those that followed until the round ended
};

/// One end of a measured connection, which it borrows. Both ends call prepare(), then count(); or glance()
/// alone. These block; they throw kRemote or kTimeout naming the connection's route. They may leave requests
/// on this object's buffers then, so that it must outlive the connection.
class Exchange {
 public:
  Exchange(transport::Connection& connection, const ExchangeOptions& options);

  /// Measures round trips, then transfers bursts that double until one is long enough to tell the rate. The
  /// bursts also drain token buckets and open the congestion windows.
  void prepare();
  /// Transfers a short burst, then the burst that counts, or several until the rate is certain. `barrier`
  /// joins exchanges that are to be measured under each other's load; the following end does not use it.
  Measured count(RoundBarrier& barrier);
  /// Tells the rate in little time, and no latency: bursts that double until one takes `seconds`. That one is
  /// sent several times, fewer where it takes much longer, and the median counts: on a busy machine a sender
  /// that is held up makes a burst look slow, and a reader that is held up makes it look fast. Where they
  /// differ much, longer ones follow. The leading end begins no more of them after `until`; the result is
  /// then of what was sent, and 0 where nothing was. `arrival`: how long the other end may take to begin.
  double glance(const Deadline& until, Duration arrival);

 private:
  // The leading end's next step. It is sent as it lies in memory, because both ends run the same build and
  // the transport has authenticated the peer; the values are checked all the same.
  struct Burst {
    std::uint64_t message_bytes = 0;
    std::uint64_t messages = 0;  // 0: the exchange is over
    std::uint64_t more = 0;      // 1: load for other exchanges that still measure in this round
    std::uint64_t bytes() const { return message_bytes * messages; }
  };
  static Burst of_bytes(double bytes);

  double latency();
  void meet(Duration arrival);
  void transfer(const Burst& burst);
  Burst next_warm_up(const Burst& done) const;
  Burst first_count() const;
  Burst next_count() const;
  bool certain() const;
  Burst load_more() const;
  void follow();
  Burst agree(const Burst& mine);
  bool done(transport::Request* request);
  template <typename Value>
  void tell(const Value& value);
  template <typename Value>
  Value hear();
  template <typename Post>
  void finish(Post post);
  void pause(int& idle, const Deadline& deadline);
  std::string where() const;

  transport::Connection& connection_;
  ExchangeOptions options_;
  Measured measured_;
  Burst last_;  // the last transfer that counted
  // Of messages; of what the ends tell each other. Not on the stack, which an error leaves before the
  // requests end.
  std::vector<std::byte> out_, in_;
  std::array<std::byte, sizeof(Burst)> told_{}, heard_{};
  std::vector<pollfd> handles_;
};

}  // namespace tombolo::transport::measure
