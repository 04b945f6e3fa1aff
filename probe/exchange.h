// Measuring one connection: the two ends play the same steps at the same time.
#pragma once

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "probe/arrival_rate.h"
#include "probe/company.h"
#include "transport/transport.h"

namespace tombolo::probe {

struct ExchangeOptions {
  bool leads = false;     ///< exactly one end does: it decides sizes
  std::size_t bytes = 0;  ///< per direction; 0 = as many as take about `seconds`
  double seconds = 0.3;
  Duration deadline = std::chrono::seconds(30);  ///< for any step
};

struct Measured {
  double latency_seconds = 0;            ///< half of the median round trip of 8 bytes
  double received_bytes_per_second = 0;  ///< the peer's direction, both loaded at once
  Arrivals arrivals;  ///< what that was told from, and what came after it until the company was through
};

/// One end of a measured connection, which it borrows. Both ends call prepare(), then count(). These block;
/// they throw kRemote or kTimeout naming the connection's route.
class Exchange {
 public:
  Exchange(transport::Connection& connection, const ExchangeOptions& options);

  /// Round trips, then bursts that double until one would last long enough to tell the rate, which also uses
  /// up what a token bucket gives away, and opens the congestion windows.
  void prepare();
  /// A short burst, and the one that counts, or more until the rate is certain. Exchanges that are to be
  /// measured under each other's load are a `company`; the following end needs none.
  Measured count(Company& company);

 private:
  // What the leading end says next. Sent as it lies in memory: both ends run the same build, and the
  // transport has authenticated the peer; the values are checked all the same.
  struct Burst {
    std::uint64_t message_bytes = 0;
    std::uint64_t messages = 0;  // 0: that was all
    std::uint64_t more = 0;      // 1: of the same round, since others of the company are not through
    std::uint64_t bytes() const { return message_bytes * messages; }
  };
  static Burst of_bytes(double bytes);

  double latency();
  void transfer(const Burst& burst);
  Burst next_warm_up(const Burst& done) const;
  Burst first_count() const;
  Burst next_count() const;
  bool certain() const;
  Burst load_more() const;
  void follow();
  Burst agree(const Burst& mine);
  bool done(transport::Request* request);
  void send(std::span<const std::byte> data);
  void receive(std::span<std::byte> data);
  template <typename Post>
  void finish(Post post);
  void pause(int& idle, const Deadline& deadline);
  std::string where() const;

  transport::Connection& connection_;
  ExchangeOptions options_;
  Measured measured_;
  Burst last_;  // of the last transfer
  std::vector<std::byte> out_, in_;
  std::vector<pollfd> handles_;
};

/// Both, one after the other.
Measured measure(transport::Connection& connection, const ExchangeOptions& options);

}  // namespace tombolo::probe
