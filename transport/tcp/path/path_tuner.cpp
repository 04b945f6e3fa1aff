#include "transport/tcp/path/path_tuner.h"

#include <algorithm>

#include "base/units.h"
#include "transport/tcp/path/long_path.h"

namespace tombolo::transport::tcp {
namespace {

// The rate in bytes per second that is assumed for a path where no NIC tells its rate.
constexpr double kUnknownRate = 10e9 / 8;
constexpr double kRoomForRequests = 16.0 * static_cast<double>(kMiB);
// The shortest round trip for which streams are added. On shorter paths one window is enough for 24 Gbit/s
// and more, so a stream that lacks window waits for a slow reader.
constexpr Duration kGrowFrom = std::chrono::milliseconds(1);
// Shares of the time since the last look: with something under way, and held back for want of window or
// buffer.
constexpr double kBusyShare = 0.5, kHeldShare = 0.5;

}  // namespace

PathTreatment treatment_of(Duration round_trip, double bytes_per_second, std::size_t most_copies) noexcept {
  if (round_trip < kLongPath) return {true, 0};
  // Twice what is under way on the path, with room for a request that is being copied.
  const double rate = bytes_per_second > 0 ? bytes_per_second : kUnknownRate;
  const double under_way = 2 * rate * to_seconds(round_trip) + kRoomForRequests;
  return {false, static_cast<std::size_t>(std::min(under_way, static_cast<double>(most_copies)))};
}

void PathTuner::begin_look(std::size_t paths, TimePoint now) {
  if (controls_.size() < paths) controls_.resize(paths);
  looks_.assign(paths, {});
  for (PathLook& look : looks_) {
    look.time = now - last_look_;
    look.length = Duration::max();
  }
  last_look_ = now;
}

void PathTuner::note_stream(std::size_t path, std::size_t stream, const std::optional<TcpCounters>& now) {
  PathLook& look = looks_[path];
  ++look.streams;
  if (!now) return;
  TcpCounters& last = of(stream).last;
  if (now->bytes < last.bytes) last = {};  // the stream has a new socket
  const double busy = static_cast<double>(now->busy_us - last.busy_us);
  const double held = static_cast<double>(now->held_us - last.held_us);
  look.bytes += now->bytes - last.bytes;
  look.sent += now->sent - last.sent;
  look.repeated += now->repeated - last.repeated;
  look.round_trip += now->round_trip;
  look.length = std::min(look.length, now->shortest);
  if (busy >= kBusyShare * 1e6 * to_seconds(look.time)) {
    ++look.busy;
    if (held >= kHeldShare * busy) ++look.held_back;
  }
  last = *now;
}

std::size_t PathTuner::more_streams(std::size_t path, double bytes_per_second, std::size_t room) noexcept {
  PathLook& look = looks_[path];
  if (look.streams == 0 || look.length < kGrowFrom) return 0;
  look.bytes_per_second = bytes_per_second;
  look.round_trip /= static_cast<std::int64_t>(look.streams);
  return std::min(room, controls_[path].decide(look));
}

std::optional<std::uint64_t> PathTuner::new_pace(std::size_t stream, const std::shared_ptr<NicPacing>& nic) {
  Stream& tuned = of(stream);
  if (!tuned.paced) tuned.paced = std::make_unique<PacedStream>(nic);
  const std::uint64_t rate = tuned.paced->bytes_per_second();
  return rate == tuned.pace ? std::nullopt : std::optional(rate);
}

}  // namespace tombolo::transport::tcp
