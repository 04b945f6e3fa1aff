#include "probe/exchange.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "base/error.h"
#include "probe/arrival_rate.h"

namespace tombolo::probe {
namespace {

using transport::Connection;
using transport::Outcome;
using transport::Request;

constexpr std::size_t kRoundTrips = 41, kFewRoundTrips = 5;  // the latter where they take long
constexpr int kWarmRoundTrips = 5;
constexpr std::size_t kSmallest = 32 * 1024;  // the first warm-up exchange
constexpr std::size_t kLargestMessage = kSmallest * 16;
constexpr std::size_t kLargestTotal = std::size_t{8} << 30;
constexpr int kInFlight = 4;        // messages per direction: the line never runs dry
constexpr double kMinMessages = 8;  // so that leaving out the first costs no precision
constexpr int kAttempts = 4;        // of the step that counts
constexpr int kSpins = 200;         // looks before sleeping: a few microseconds

// What the leading end says next. Sent as it lies in memory: both ends run the same build, and the transport
// has authenticated the peer; the values are checked all the same.
struct Burst {
  std::uint64_t message_bytes = 0;
  std::uint64_t messages = 0;  // 0: that was all
};
constexpr Burst kFirstStep{kSmallest, 2};

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
    // Sizes double until a step would last long enough to tell the rate, which also uses up what a token
    // bucket gives away, and opens the congestion windows. Then one of the size asked for counts; it is tried
    // again where it turned out short.
    Burst step = kFirstStep;
    int attempts = 0;
    while (step.messages > 0) {
      double rate = transfer(step);
      result.received_bytes_per_second = rate;
      if (options_.leads) {
        step = next_step(step, rate, attempts);
        send(bytes_of(step));
      } else {
        step = receive_step();
      }
    }
    return result;
  }

 private:
  static std::size_t total(const Burst& step) { return step.message_bytes * step.messages; }

  static Burst of_total(std::size_t bytes) {
    Burst step;
    double piece = static_cast<double>(bytes) / kMinMessages;
    step.message_bytes = std::clamp<std::size_t>(static_cast<std::size_t>(piece), 1, kLargestMessage);
    step.messages = std::max<std::size_t>(2, (bytes + step.message_bytes - 1) / step.message_bytes);
    return step;
  }
  /// Judges by the rate, not by how long the step lasted: a process that was held up has not measured
  /// anything.
  Burst next_step(const Burst& done, double bytes_per_second, int& attempts) const {
    double seconds = static_cast<double>(total(done)) / bytes_per_second;
    bool largest = total(done) >= kLargestTotal / 2;
    if (attempts == 0 && seconds < std::min(0.05, options_.seconds / 4) && !largest)
      return of_total(total(done) * 2);
    bool counts = attempts > 0 && (options_.bytes > 0 || seconds > options_.seconds / 2 || largest);
    if (counts || ++attempts > kAttempts) return {};
    if (options_.bytes > 0) return of_total(options_.bytes);
    double most = std::min(8.0 * static_cast<double>(total(done)), double{kLargestTotal});
    double bytes = std::clamp(bytes_per_second * options_.seconds, 2.0 * kSmallest, most);
    return of_total(static_cast<std::size_t>(bytes));
  }

  double latency() {
    std::vector<double> seconds;
    double all = 0;
    std::uint64_t last = 0;  // the leader's word: so many are enough
    for (int i = 0; last == 0; ++i) {
      TimePoint begin = Clock::steady().now();
      if (options_.leads) {
        last = seconds.size() + 1 >= (all > options_.seconds / 2 ? kFewRoundTrips : kRoundTrips) ? 1 : 0;
        send(bytes_of(last));
        receive(writable_bytes_of(last));
      } else {
        receive(writable_bytes_of(last));
        send(bytes_of(last));
      }
      if (i < kWarmRoundTrips) continue;
      seconds.push_back(to_seconds(Clock::steady().now() - begin));
      all += seconds.back();
    }
    const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
    std::nth_element(seconds.begin(), middle, seconds.end());
    double mine = *middle / 2;
    // The leader's clock saw whole round trips; the other end's also contain waiting for the leader to start.
    double lead = mine;
    if (options_.leads) {
      send(bytes_of(mine));
    } else {
      receive(writable_bytes_of(lead));
    }
    return lead;
  }

  Burst receive_step() {
    Burst step;
    receive(writable_bytes_of(step));
    if (step.messages == 0) return step;
    if (step.message_bytes == 0 || step.message_bytes > kLargestMessage ||
        step.messages > kLargestTotal / step.message_bytes + 1) {
      fail(Cause::kRemote, "probe of {}: the peer asked for {} messages of {} bytes", where(), step.messages,
           step.message_bytes);
    }
    return step;
  }

  /// Both directions at once; returns the rate at which the peer's bytes came.
  double transfer(const Burst& step) {
    std::size_t size = step.message_bytes;
    out_.resize(std::max(out_.size(), size));
    in_.resize(kInFlight * kLargestMessage);
    std::deque<Request*> sending;
    std::deque<Request*> receiving;
    std::uint64_t sent = 0, asked = 0, arrived = 0;
    TimePoint begin = Clock::steady().now();
    arrivals_.clear();
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
        arrivals_.push_back(to_seconds(Clock::steady().now() - begin));
        ++arrived;
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
    return static_cast<double>(size) * arrival_rate(arrivals_);
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
  std::vector<std::byte> out_, in_;
  std::vector<double> arrivals_;  // of each message, in seconds after the step began
  std::vector<pollfd> handles_;
};

}  // namespace

Measured measure(transport::Connection& connection, const ExchangeOptions& options) {
  return Exchange(connection, options).run();
}

}  // namespace tombolo::probe
