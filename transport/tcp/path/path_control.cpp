#include "transport/tcp/path/path_control.h"

#include <algorithm>
#include <cmath>
#include <fstream>

#include "transport/tcp/path/congestion.h"
#include "transport/tcp/path/long_path.h"

namespace tombolo::transport::tcp {
namespace {

// How many times the bytes under way on the path the windows should hold: a stream's share varies, and so
// does its window.
constexpr double kWindows = 2;
// The most streams to begin with. The NICs' rates say nothing of the links behind them, which may be slower,
// and there 16 streams of bbr gave less than 8. More are added while the connection is in use.
constexpr int kMostToBegin = 8;
// How long a number of streams is measured: long compared with the round trip, in which congestion control
// adapts, and with the pauses of a program.
constexpr Duration kPeriod = std::chrono::seconds(1);
constexpr int kRoundTrips = 10;
// Windows limit the rate where they hold the streams back for this share of a period.
constexpr double kHeldTimeShare = 0.5;
// TCP's payload is 95 % of a wire's rate; above this share nothing can be gained by more streams.
constexpr double kNearlyAll = 0.92;
// By how much an addition must raise the rate to be worth its memory and processor time.
constexpr double kWorthIt = 1.05;

std::size_t last_number(const char* path) {
  std::ifstream file(path);
  std::size_t least = 0, usual = 0, most = 0;
  return file >> least >> usual >> most ? most : 0;
}

}  // namespace

int streams_to_begin(const PathFigures& path) noexcept {
  const double under_way = path.bytes_per_second * to_seconds(path.length);
  const double needed = path.window == 0 ? 1 : kWindows * under_way / static_cast<double>(path.window);
  return std::clamp(static_cast<int>(std::ceil(std::min(needed, 1e6))),
                    path.length >= kLongPath ? kStreamsOnLongPaths : 1, kMostToBegin);
}

std::size_t window_of(std::size_t send_limit, std::size_t receive_limit) noexcept {
  return std::min(send_limit, receive_limit / 2);
}

std::size_t window_of_this_host() noexcept {
  return window_of(last_number("/proc/sys/net/ipv4/tcp_wmem"), last_number("/proc/sys/net/ipv4/tcp_rmem"));
}

void PathControl::begin_period() noexcept {
  time_ = held_time_ = round_trips_ = Duration::zero();
  bytes_ = sent_ = repeated_ = 0;
}

std::size_t PathControl::decide(const PathLook& look) noexcept {
  if (converged() || look.streams == 0) return 0;
  // A measurement is valid only for a fixed number of streams that are all there.
  if (look.missing != 0 || look.streams != streams_) {
    streams_ = look.streams;
    skip_ = true;
    begin_period();
    return 0;
  }
  // The program had nothing to send, so this says nothing about the path.
  if (2 * look.busy < look.streams) return 0;
  time_ += look.time;
  bytes_ += look.bytes;
  sent_ += look.sent;
  repeated_ += look.repeated;
  if (2 * look.held_back >= look.streams) held_time_ += look.time;
  round_trips_ += Duration(
      static_cast<std::int64_t>(to_seconds(look.time) * static_cast<double>(look.round_trip.count())));
  if (time_ < std::max<Duration>(kPeriod, kRoundTrips * look.length)) return 0;
  const double rate = static_cast<double>(bytes_) / to_seconds(time_);
  const Duration round_trip = from_seconds(to_seconds(round_trips_) / to_seconds(time_));
  const bool held = to_seconds(held_time_) >= kHeldTimeShare * to_seconds(time_) ||
                    loses_without_queue({sent_, repeated_, round_trip, look.length});
  begin_period();
  if (skip_) {
    skip_ = false;
    return 0;
  }
  if (before_ > 0) {
    futile_ = rate >= kWorthIt * before_ ? 0 : futile_ + 1;
    before_ = 0;
    if (converged()) return 0;
  }
  const bool all = look.bytes_per_second > 0 && rate >= kNearlyAll * look.bytes_per_second;
  if (!held || all || look.streams >= most_) return 0;
  before_ = rate;
  return std::min(most_ - look.streams, std::max<std::size_t>(1, look.streams / 2));
}

}  // namespace tombolo::transport::tcp
