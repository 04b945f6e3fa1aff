#include "net_plugin/comms/stall.h"

#include <cstdlib>

#include "base/format.h"
#include "base/units.h"
#include "net_plugin/parameters.h"

namespace tombolo::net_plugin {
namespace {

constexpr int kLaterTimes = 10;  // the second line comes after so many times the limit

std::string_view meaning_of(const StallFacts& facts) {
  if (facts.waits == StallWaits::kLane)
    return "the connection of its tag is not there yet: the peer may not have got so far";
  if (facts.waits == StallWaits::kGpuCopy) {
    return "this host's GPU has not done the copy of a staged piece: work of the job's may lie before it "
           "(CUDA_DEVICE_MAX_CONNECTIONS=1, CUDA_LAUNCH_BLOCKING=1 and full launch queues do that: "
           "docs/net-plugin.md, "
           "GPU memory)";
  }
  if (facts.waits == StallWaits::kStaged) {
    return facts.sends
               ? "the peer may not have posted the receive, its GPU may not have done a copy of a staged "
                 "piece, its process may be stopped, or the path may be dead"
               : "the peer may compute still, its GPU may not have done a copy of a staged piece, its "
                 "process may be stopped, or the path may be dead";
  }
  if (facts.sends)
    return "the peer may not have posted the receive, its process may be stopped, or the path may be dead";
  return "the peer may compute still, its process may be stopped, or the path may be dead";
}

std::string place_of(const std::string& rank, const std::string& host) {
  return (rank.empty() ? "" : fmt::format("rank {} on ", rank)) + "host " + host;
}

}  // namespace

std::string stall_hint() {
  return fmt::format("{} sets after how long this is told", kNetStallParameter.name);
}

std::string StallReports::place() const {
  return place_of(rank_, host_);
}

std::string stall_text(const StallFacts& facts) {
  const transport::Route& route = facts.route;
  return fmt::format(
      "{}: nothing has moved for {:.0f} s in a {} of {} bytes, tag {}, {} {} over {} ({} -> {}{}) "
      "after {} "
      "messages and {}; {}. The peer's log says what it waits for. {}",
      place_of(facts.rank, facts.host), to_seconds(facts.stalled), facts.sends ? "send" : "receive",
      facts.bytes, facts.tag, facts.sends ? "to" : "from",
      route.peer_host.empty() ? "a peer" : "host " + route.peer_host, route.transport, route.local_nic,
      route.peer_nic.empty() ? "?" : route.peer_nic,
      route.peer_address.empty() ? "" : " " + route.peer_address, facts.messages_done,
      format_size(facts.bytes_done), meaning_of(facts), stall_hint());
}

std::string rank_from_environment() {
  for (const char* name : {"RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK"}) {
    const char* value = std::getenv(name);
    if (value != nullptr && *value != '\0') return value;
  }
  return {};
}

bool StallReports::may_tell(TimePoint now) noexcept {
  // Two threads that both begin a new period tell a few lines more, which does no harm.
  const Duration::rep at = now.time_since_epoch().count();
  const Duration::rep since = since_.load(std::memory_order_relaxed);
  if (told_.load(std::memory_order_relaxed) == 0 || at - since >= limit_.count()) {
    since_.store(at, std::memory_order_relaxed);
    told_.store(0, std::memory_order_relaxed);
  }
  return told_.fetch_add(1, std::memory_order_relaxed) < kMost;
}

std::optional<Duration> StallWatch::look(std::uint64_t moved, TimePoint now, Duration limit) noexcept {
  if (fresh_ || moved != moved_) {
    fresh_ = false;
    told_ = 0;
    moved_ = moved;
    since_ = now;
    return std::nullopt;
  }
  const Duration stalled = now - since_;
  if (told_ > 1 || stalled < limit * (told_ == 0 ? 1 : kLaterTimes)) return std::nullopt;
  ++told_;
  return stalled;
}

}  // namespace tombolo::net_plugin
