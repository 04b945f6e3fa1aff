#include "transport/measure/exchange.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <deque>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "transport/measure/arrival_rate.h"

namespace tombolo::transport::measure {
namespace {

using transport::Connection;
using transport::Outcome;
using transport::Request;

constexpr std::size_t kRoundTrips = 41, kFewRoundTrips = 5;  // few where each takes long
constexpr int kWarmRoundTrips = 5;
constexpr std::size_t kSmallest = 32 * 1024;  // the first warm-up exchange
constexpr std::size_t kLargestMessage = kSmallest * 16;
constexpr std::size_t kLargestTotal = std::size_t{8} << 30;
constexpr int kInFlight = 4;         // messages per direction: the line never runs dry
constexpr double kMinMessages = 16;  // so that leaving out the first costs no precision
constexpr std::size_t kGlances = 5;  // bursts of one size, whose median counts
// So many do where each takes over kLong times `seconds`, as where a token bucket lets all smaller ones pass
// at once: a host that is held up is so for less.
constexpr std::size_t kFewGlances = 3;
constexpr double kLong = 5;
// Where these differ by more than the factor the ends are held up; twice as long ones tell more, so often.
// (Where pairs share a link they differ as well.)
constexpr double kDoubtful = 2;
constexpr int kMostDoubts = 1;
constexpr int kMostBursts = 200;  // of the leading end; it makes no more than 5 of each of some 20 sizes
constexpr int kAttempts = 4;      // at the burst that counts
constexpr int kSpins = 200;       // tests before sleeping: a few microseconds

}  // namespace

Exchange::Exchange(Connection& connection, const ExchangeOptions& options)
    : connection_(connection), options_(options) {}

void Exchange::prepare() {
  measured_.latency_seconds = latency();
  for (Burst burst{kSmallest, 2}; burst.messages > 0; burst = agree(next_warm_up(last_))) transfer(burst);
}

double Exchange::glance(const Deadline& until, Duration arrival) {
  meet(arrival);
  std::array<double, kGlances> rates{};  // of bursts of this size
  std::size_t seen = 0;
  std::uint64_t size = 0;
  double median = 0;
  int bursts = 0, doubts = 0;
  const auto next = [&]() -> Burst {
    const Burst longer = of_bytes(2 * static_cast<double>(size));
    if (until.passed() || size >= kLargestTotal / 2) return {};
    if (static_cast<double>(size) < median * options_.seconds) return longer;
    const bool take_long = static_cast<double>(size) > median * options_.seconds * kLong;
    if (seen < (take_long ? kFewGlances : kGlances)) return last_;
    const auto [least, most] = std::ranges::minmax(std::span(rates).first(seen));
    return most > kDoubtful * least && ++doubts <= kMostDoubts ? longer : Burst{};
  };
  for (Burst burst = agree(until.passed() ? Burst{} : Burst{kSmallest, 2}); burst.messages > 0;
       burst = agree(next())) {
    if (++bursts > kMostBursts)
      fail(Cause::kRemote, "probe of {}: the peer asked for more than {} bursts", where(), kMostBursts);
    transfer(burst);
    if (burst.bytes() != size || seen == kGlances) seen = 0;
    size = burst.bytes();
    rates[seen++] = measured_.received_bytes_per_second;
    const auto end = rates.begin() + static_cast<std::ptrdiff_t>(seen),
               middle = rates.begin() + (end - rates.begin()) / 2;
    std::nth_element(rates.begin(), middle, end);
    median = *middle;
  }
  return median;
}

/// Waits for the other end, which may be busy with another exchange.
void Exchange::meet(Duration arrival) {
  const Duration usual = std::exchange(options_.deadline, arrival);
  if (options_.leads) {
    tell(std::uint64_t{1});
    hear<std::uint64_t>();
  } else {
    hear<std::uint64_t>();
    tell(std::uint64_t{1});
  }
  options_.deadline = usual;
}

Measured Exchange::count(RoundBarrier& barrier) {
  if (!options_.leads) {
    follow();
    return measured_;
  }
  RoundBarrier::Member member(barrier);
  member.arrive_and_wait(true);
  transfer(agree(first_count()));
  for (int counted = 0;; ++counted) {
    member.finish();
    while (!member.all_finished()) transfer(agree(load_more()));
    if (!member.arrive_and_wait(counted == 0 || (counted < kAttempts && !certain()))) break;
    transfer(agree(next_count()));
  }
  agree({});
  return measured_;
}

/// Takes part in the transfers that the leading end announces.
void Exchange::follow() {
  for (Burst burst = agree({}); burst.messages > 0; burst = agree({})) transfer(burst);
}

Exchange::Burst Exchange::of_bytes(double bytes) {
  bytes = std::min(bytes, double{kLargestTotal});
  Burst burst;
  burst.message_bytes =
      std::clamp<std::uint64_t>(static_cast<std::uint64_t>(bytes / kMinMessages), 1, kLargestMessage);
  const double messages = std::ceil(bytes / static_cast<double>(burst.message_bytes));
  burst.messages = std::max<std::uint64_t>(2, static_cast<std::uint64_t>(messages));
  return burst;
}

Exchange::Burst Exchange::next_warm_up(const Burst& done) const {
  const double bytes = static_cast<double>(done.bytes());
  const double seconds = bytes / measured_.received_bytes_per_second;
  const bool enough = seconds >= std::min(0.05, options_.seconds / 4) || done.bytes() >= kLargestTotal / 2;
  return enough ? Burst{} : of_bytes(2 * bytes);
}

/// A short burst, which finds the rate now that other exchanges run too.
Exchange::Burst Exchange::first_count() const {
  const double bytes = options_.bytes > 0 ? static_cast<double>(options_.bytes)
                                          : measured_.received_bytes_per_second * options_.seconds;
  return of_bytes(std::min(bytes / 4, 8.0 * static_cast<double>(last_.bytes())));
}

Exchange::Burst Exchange::next_count() const {
  if (options_.bytes > 0) return of_bytes(static_cast<double>(options_.bytes));
  const double most = 8.0 * static_cast<double>(last_.bytes());
  return of_bytes(
      std::max(std::min(measured_.received_bytes_per_second * options_.seconds, most), 2.0 * kSmallest));
}

/// Whether the last burst was long enough. Its length is judged by the rate, not by the time it took: in a
/// process that was held up it took long without telling more.
bool Exchange::certain() const {
  const double seconds = static_cast<double>(last_.bytes()) / measured_.received_bytes_per_second;
  return options_.bytes > 0 || seconds > options_.seconds / 2 || last_.bytes() >= kLargestTotal / 2;
}

/// Messages like those of the burst that counted, so that all these arrivals give one rate.
Exchange::Burst Exchange::load_more() const {
  const double bytes = measured_.received_bytes_per_second * options_.seconds / 8;
  const double messages = std::clamp(bytes / static_cast<double>(last_.message_bytes), 2.0, kMinMessages);
  return {last_.message_bytes, static_cast<std::uint64_t>(messages), 1};
}

/// Makes both ends agree on the leader's burst.
Exchange::Burst Exchange::agree(const Burst& mine) {
  if (options_.leads) {
    tell(mine);
    return mine;
  }
  const auto burst = hear<Burst>();
  if (burst.messages == 0) return burst;
  if (burst.message_bytes == 0 || burst.message_bytes > kLargestMessage ||
      burst.messages > kLargestTotal / burst.message_bytes + 1) {
    fail(Cause::kRemote, "probe of {}: the peer asked for {} messages of {} bytes", where(), burst.messages,
         burst.message_bytes);
  }
  return burst;
}

double Exchange::latency() {
  std::vector<double> seconds;
  double all = 0;
  std::uint64_t last = 0;  // 1: the leader has enough round trips
  for (int i = 0; last == 0; ++i) {
    TimePoint begin = Clock::steady().now();
    if (options_.leads) {
      last = seconds.size() + 1 >= (all > options_.seconds / 2 ? kFewRoundTrips : kRoundTrips) ? 1 : 0;
      tell(last);
      hear<std::uint64_t>();
    } else {
      last = hear<std::uint64_t>();
      const std::size_t done = seconds.size() + 1;
      if (last != 0 ? done < kFewRoundTrips : done >= kRoundTrips)
        fail(Cause::kRemote, "probe of {}: the peer wants {} round trips", where(),
             last != 0 ? "too few" : "too many");
      tell(last);
    }
    if (i < kWarmRoundTrips) continue;
    seconds.push_back(to_seconds(Clock::steady().now() - begin));
    all += seconds.back();
  }
  const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
  std::nth_element(seconds.begin(), middle, seconds.end());
  // The leader's clock saw whole round trips. The other end's also contain waiting for the leader to start.
  if (options_.leads) {
    tell(*middle / 2);
    return *middle / 2;
  }
  const auto lead = hear<double>();
  if (!std::isfinite(lead) || lead < 0)
    fail(Cause::kRemote, "probe of {}: the peer measured a latency of {} s", where(), lead);
  return lead;
}

/// Moves a burst in both directions at once.
void Exchange::transfer(const Burst& burst) {
  std::size_t size = burst.message_bytes;
  out_.resize(std::max(out_.size(), size));
  in_.resize(kInFlight * kLargestMessage);
  std::deque<Request*> sending;
  std::deque<Request*> receiving;
  std::uint64_t sent = 0, asked = 0, arrived = 0;
  std::vector<double> arrivals;
  Deadline deadline = Deadline::after(options_.deadline);
  int idle = 0;
  while (arrived < burst.messages || sent < burst.messages || !sending.empty()) {
    bool moved = false;
    while (asked < burst.messages && receiving.size() < kInFlight) {
      std::span<std::byte> into(in_.data() + (asked % kInFlight) * kLargestMessage, size);
      Request* request = connection_.post_receive(into);
      if (request == nullptr) break;
      receiving.push_back(request);
      ++asked;
      moved = true;
    }
    while (sent < burst.messages && sending.size() < kInFlight) {
      Request* request = connection_.post_send(std::span<const std::byte>(out_.data(), size));
      if (request == nullptr) break;
      sending.push_back(request);
      ++sent;
      moved = true;
    }
    while (!receiving.empty() && done(receiving.front())) {
      receiving.pop_front();
      arrivals.push_back(to_seconds(Clock::steady().now().time_since_epoch()));
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
  if (burst.more != 0) {
    auto& seconds = measured_.arrivals.seconds;
    seconds.insert(seconds.end(), arrivals.begin(), arrivals.end());
    return;
  }
  measured_.received_bytes_per_second = static_cast<double>(size) * arrival_rate(arrivals);
  measured_.arrivals = {static_cast<double>(size), std::move(arrivals)};
  last_ = burst;
}

bool Exchange::done(Request* request) {
  std::size_t bytes = 0;
  Outcome outcome = connection_.test(request, bytes);
  if (outcome == Outcome::kFailed) {
    const Error* error = connection_.error();
    throw Error(
        error != nullptr ? error->cause() : Cause::kRemote,
        fmt::format("probe of {}: {}", where(), error != nullptr ? error->what() : "the connection failed"));
  }
  return outcome == Outcome::kDone;
}

template <typename Value>
void Exchange::tell(const Value& value) {
  static_assert(sizeof value <= sizeof told_);
  std::memcpy(told_.data(), &value, sizeof value);
  const std::span<const std::byte> data(told_.data(), sizeof value);
  finish([&] { return connection_.post_send(data); });
}
template <typename Value>
Value Exchange::hear() {
  static_assert(sizeof(Value) <= sizeof heard_);
  const std::span<std::byte> into(heard_.data(), sizeof(Value));
  finish([&] { return connection_.post_receive(into); });
  Value value;
  std::memcpy(&value, heard_.data(), sizeof value);
  return value;
}
template <typename Post>
void Exchange::finish(Post post) {
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

void Exchange::pause(int& idle, const Deadline& deadline) {
  if (deadline.passed()) {
    fail(Cause::kTimeout, "probe of {}: nothing moved for {:.3g} s", where(), to_seconds(deadline.allowed()));
  }
  if (connection_.error() != nullptr) {
    throw Error(connection_.error()->cause(),
                fmt::format("probe of {}: {}", where(), connection_.error()->what()));
  }
  if (++idle < kSpins) return;
  handles_.clear();
  connection_.append_wait_handles(handles_);
  // The sleep is at most 1 ms, because a backend may also wait for a clock (rate limits), which no descriptor
  // shows.
  if (::poll(handles_.data(), handles_.size(), 1) < 0 && errno != EINTR) fail_errno(errno, "poll");
}

std::string Exchange::where() const {
  const transport::Route& route = connection_.route();
  return fmt::format("{} to {} {} ({})", route.local_nic, route.peer_host, route.peer_nic,
                     route.peer_address);
}

}  // namespace tombolo::transport::measure
