#include "probe/exchange.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "base/error.h"

namespace tombolo::probe {
namespace {

using transport::Connection;
using transport::Outcome;
using transport::Request;

constexpr int kRoundTrips = 41;
constexpr int kWarmRoundTrips = 5;
constexpr std::size_t kSmallest = 32 * 1024;  // the first warm-up exchange
constexpr std::size_t kLargestMessage = kSmallest * 16;
constexpr std::size_t kLargestTotal = std::size_t{8} << 30;
constexpr int kInFlight = 4;        // messages per direction: the line never runs dry
constexpr double kMinMessages = 8;  // so that leaving out the first costs no precision
constexpr int kSpins = 200;         // looks before sleeping: a few microseconds

// What the leading end says next. Sent as it lies in memory: both ends run the same build, and the transport
// has authenticated the peer; the values are checked all the same.
struct Step {
  std::uint64_t message_bytes = 0;
  std::uint64_t messages = 0;
  std::uint64_t last = 0;
};

template <typename T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span<const T, 1>(&value, 1));
}
template <typename T>
std::span<std::byte> writable_bytes_of(T& value) {
  return std::as_writable_bytes(std::span<T, 1>(&value, 1));
}

class Exchange {
 public:
  Exchange(Connection& connection, const ExchangeOptions& options)
      : connection_(connection), options_(options) {}

  Measured run() {
    Measured result;
    result.latency_seconds = latency();
    // Warm-up: sizes double until one lasts long enough to tell the rate. This also uses up what a token
    // bucket gives away, and opens the congestion windows.
    Step step{kSmallest, 1, 0};
    double enough = std::min(0.05, options_.seconds / 4);
    for (;;) {
      if (!options_.leads) step = receive_step();
      double seconds = 0;
      double rate = transfer(step, seconds);
      if (step.last != 0) {
        result.received_bytes_per_second = rate;
        return result;
      }
      if (!options_.leads) continue;
      step = seconds < enough && total(step) < kLargestTotal / 2
                 ? doubled(step)
                 : final_step(static_cast<double>(total(step)) / seconds);
      send(bytes_of(step));
    }
  }

 private:
  static std::size_t total(const Step& step) { return step.message_bytes * step.messages; }

  static Step of_total(std::size_t bytes, bool last) {
    Step step;
    step.last = last ? 1 : 0;
    double piece = static_cast<double>(bytes) / kMinMessages;
    step.message_bytes = std::clamp<std::size_t>(static_cast<std::size_t>(piece), 1, kLargestMessage);
    step.messages = std::max<std::size_t>(2, (bytes + step.message_bytes - 1) / step.message_bytes);
    return step;
  }
  static Step doubled(const Step& step) { return of_total(total(step) * 2, false); }
  Step final_step(double bytes_per_second) const {
    if (options_.bytes > 0) return of_total(options_.bytes, true);
    double bytes = std::clamp(bytes_per_second * options_.seconds, 2.0 * kSmallest, double{kLargestTotal});
    return of_total(static_cast<std::size_t>(bytes), true);
  }

  double latency() {
    std::vector<double> seconds;
    std::uint64_t word = 0;
    for (int i = 0; i < kWarmRoundTrips + kRoundTrips; ++i) {
      TimePoint begin = Clock::steady().now();
      if (options_.leads) {
        send(bytes_of(word));
        receive(writable_bytes_of(word));
      } else {
        receive(writable_bytes_of(word));
        send(bytes_of(word));
      }
      if (i >= kWarmRoundTrips) seconds.push_back(to_seconds(Clock::steady().now() - begin));
    }
    std::nth_element(seconds.begin(), seconds.begin() + kRoundTrips / 2, seconds.end());
    double mine = seconds[kRoundTrips / 2] / 2;
    // The leader's clock saw whole round trips; the other end's also contain waiting for the leader to start.
    double lead = mine;
    if (options_.leads) {
      send(bytes_of(mine));
    } else {
      receive(writable_bytes_of(lead));
    }
    return lead;
  }

  Step receive_step() {
    if (first_) {  // both know it
      first_ = false;
      return {kSmallest, 1, 0};
    }
    Step step;
    receive(writable_bytes_of(step));
    if (step.message_bytes == 0 || step.message_bytes > kLargestMessage || step.messages == 0 ||
        step.messages > kLargestTotal / step.message_bytes + 1) {
      fail(Cause::kRemote, "probe of {}: the peer asked for {} messages of {} bytes", where(), step.messages,
           step.message_bytes);
    }
    return step;
  }

  /// Both directions at once; returns the rate at which the peer's bytes came, and the time of the whole.
  double transfer(const Step& step, double& seconds) {
    std::size_t size = step.message_bytes;
    out_.resize(std::max(out_.size(), size));
    in_.resize(kInFlight * kLargestMessage);
    std::deque<Request*> sending;
    std::deque<Request*> receiving;
    std::uint64_t sent = 0, asked = 0, arrived = 0;
    TimePoint begin = Clock::steady().now();
    TimePoint first = begin;
    TimePoint last = begin;
    Deadline deadline = Deadline::after(options_.deadline);
    int idle = 0;
    while (arrived < step.messages || sent < step.messages || !sending.empty()) {
      bool moved = false;
      while (asked < step.messages && receiving.size() < kInFlight) {
        std::span<std::byte> into(in_.data() + (asked % kInFlight) * kLargestMessage, size);
        Request* request = connection_.post_receive(into);
        if (request == nullptr) break;
        receiving.push_back(request);
        ++asked;
        moved = true;
      }
      while (sent < step.messages && sending.size() < kInFlight) {
        Request* request = connection_.post_send(std::span<const std::byte>(out_.data(), size));
        if (request == nullptr) break;
        sending.push_back(request);
        ++sent;
        moved = true;
      }
      while (!receiving.empty() && done(receiving.front())) {
        receiving.pop_front();
        last = Clock::steady().now();
        if (arrived++ == 0) first = last;
        moved = true;
      }
      while (!sending.empty() && done(sending.front())) {
        sending.pop_front();
        moved = true;
      }
      if (moved) {
        deadline = Deadline::after(options_.deadline);
        idle = 0;
      } else {
        pause(idle, deadline);
      }
    }
    seconds = std::max(to_seconds(last - begin), 1e-9);
    // From the first message's arrival on: before it lie the latency and the bucket's gift.
    double counted = static_cast<double>(size) * static_cast<double>(step.messages - 1);
    return step.messages > 1 ? counted / std::max(to_seconds(last - first), 1e-9) : 0;
  }

  bool done(Request* request) {
    std::size_t bytes = 0;
    Outcome outcome = connection_.test(request, bytes);
    if (outcome == Outcome::kFailed) {
      const Error* error = connection_.error();
      throw Error(error != nullptr ? error->cause() : Cause::kRemote,
                  fmt::format("probe of {}: {}", where(),
                              error != nullptr ? error->what() : "the connection failed"));
    }
    return outcome == Outcome::kDone;
  }

  void send(std::span<const std::byte> data) {
    finish([&] { return connection_.post_send(data); });
  }
  void receive(std::span<std::byte> data) {
    finish([&] { return connection_.post_receive(data); });
  }
  template <typename Post>
  void finish(Post post) {
    Deadline deadline = Deadline::after(options_.deadline);
    int idle = 0;
    Request* request = post();
    while (request == nullptr) {
      connection_.progress();
      pause(idle, deadline);
      request = post();
    }
    idle = 0;
    while (!done(request)) pause(idle, deadline);
  }

  void pause(int& idle, const Deadline& deadline) {
    if (deadline.passed()) {
      fail(Cause::kTimeout, "probe of {}: nothing moved for {:.3g} s", where(),
           to_seconds(deadline.allowed()));
    }
    if (connection_.error() != nullptr) {
      throw Error(connection_.error()->cause(),
                  fmt::format("probe of {}: {}", where(), connection_.error()->what()));
    }
    if (++idle < kSpins) return;
    handles_.clear();
    connection_.append_wait_handles(handles_);
    // At most 1 ms: a backend may also wait for a clock (rate limits) that no descriptor tells of.
    if (::poll(handles_.data(), handles_.size(), 1) < 0 && errno != EINTR) fail_errno(errno, "poll");
  }

  std::string where() const {
    const transport::Route& route = connection_.route();
    return fmt::format("{} to {} {} ({})", route.local_nic, route.peer_host, route.peer_nic,
                       route.peer_address);
  }

  Connection& connection_;
  const ExchangeOptions& options_;
  bool first_ = true;
  std::vector<std::byte> out_, in_;
  std::vector<pollfd> handles_;
};

}  // namespace

Measured measure(transport::Connection& connection, const ExchangeOptions& options) {
  return Exchange(connection, options).run();
}

}  // namespace tombolo::probe
