#include "tests/simulation/runs/plugin_process.h"

#include <algorithm>
#include <utility>

#include "base/format.h"
#include "base/units.h"
#include "tests/simulation/runs/simulated_host.h"

namespace tombolo::simulation {

using std::chrono::milliseconds;
using transport::bootstrap::ProcessHelpers;
using namespace net_plugin;

PluginProcess::PluginProcess(unsigned host, const PluginPlan& plan, const RunOptions& options, World& world,
                             std::function<void(const std::string&)> wrong)
    : host_(host), plan_(plan), options_(options), world_(world), wrong_(std::move(wrong)) {}

void PluginProcess::load(std::vector<PluginEnd>& ends) {
  helpers_ = std::make_shared<ProcessHelpers>(ProcessHelpers::Simulated{}, world_.clock());
  Node node;
  node.router = router_options(plan_.network, host_, world_, helpers_, {});
  meters_ = node.router.meters;
  node.devices = std::make_unique<DeviceList>(
      make_devices(node.router.host, plan_.devices_per_nic ? DeviceMode::kPerNic : DeviceMode::kMerged));
  node.deadline = 4 * kIdleTimeout;
  node_ = std::make_shared<const Node>(std::move(node));
  for (PluginEnd& end : ends) {
    if (end.host != host_) continue;
    if (contexts_.empty() || !plan_.shared_context)
      contexts_.push_back(new Context(node_, log_with_errors()));
    end.context = contexts_.back();
  }
}

/// The log that NCCL gave. It remembers errors, since every failure must be explained there.
Log PluginProcess::log_with_errors() {
  return Log(LogLevel::kTrace,
             [this, print = log_of(options_, world_, host_)](LogLevel level, std::string_view text) {
               if (level == LogLevel::kError) {
                 ++errors_logged_;
                 last_error_ = text;
               }
               print.trace("{}", text);
             });
}

abi::ncclResult_t PluginProcess::call(PluginEnd& end, const char* function, Duration most,
                                      const std::function<abi::ncclResult_t()>& make) {
  const TimePoint before = world_.clock().now();
  const std::size_t errors = errors_logged_;
  const abi::ncclResult_t result = make();
  // Over shared memory others take turns in the middle of a call, and faults strike there.
  const Duration of_others =
      plan_.network.over == Over::kShm ? Duration(kMostTaken + std::chrono::seconds(1)) : Duration::zero();
  if (const Duration took = world_.clock().now() - before; took > most + of_others && !dead())
    wrong_(fmt::format("{}: {} took {}", end.name(), function, format_seconds(to_seconds(took))));
  if (result != abi::ncclSuccess && end.failed.empty()) {
    end.failed = fmt::format("{} gave {}", function, static_cast<int>(result));
    end.failed_at = world_.clock().now();
    if (dead()) return result;
    // A failure that another thread's call has caused may have been logged by that.
    if (errors_logged_ == errors && !end.aborted)
      wrong_(fmt::format("{}: {} failed without a word", end.name(), function));
    end.failed += ": " + last_error_;
    const bool fitting = result == abi::ncclRemoteError || result == abi::ncclSystemError ||
                         (result == abi::ncclInvalidUsage && plan_.network.may_lack_a_way());
    if (!fitting) wrong_(fmt::format("{}: {}", end.name(), end.failed));
  }
  return result;
}

void PluginProcess::live(const std::vector<PluginEnd>& ends) {
  using State = PluginEnd::State;
  const auto all_have = [&](State least, bool elsewhere_too) {
    return std::ranges::all_of(ends, [&](const PluginEnd& end) {
      return (end.host != host_ && !elsewhere_too) || end.over_by(least);
    });
  };
  for (;;) {
    if (plan_.finalized_early && all_have(State::kOpen, false)) finalize_all();
    if (all_have(State::kClosed, true)) break;
    if (!dead()) helpers_->background_progress().round();
    world_.sleep({}, world_.clock().now() + milliseconds(1 + world_.random()() % 20));
  }
  finalize_all();
  if (node_.use_count() != 1) wrong_(fmt::format("h{}: something still holds the node", host_));
  node_.reset();
  if (helpers_.use_count() != 1)
    wrong_(fmt::format("h{}: something still holds the process's helpers", host_));
  const TimePoint before = world_.clock().now();
  helpers_.reset();
  if (const Duration took = world_.clock().now() - before; took > kLongestPluginClose && !dead())
    wrong_(fmt::format("h{}: unloading took {}", host_, format_seconds(to_seconds(took))));
}

void PluginProcess::finalize_all() {
  for (void* context : std::exchange(contexts_, {}))
    if (entry::finalize(context) != abi::ncclSuccess) wrong_("finalize failed");
}

void PluginProcess::finalize(PluginEnd& end) {
  std::erase(contexts_, end.context);
  call(end, "finalize", kLongestPluginClose, [&] { return entry::finalize(end.context); });
}

void PluginProcess::abandon() {
  // Within reach for good, so that a leak checker takes none of it for lost.
  static auto* const all = new std::vector<std::unique_ptr<PluginProcess>>;
  all->push_back(std::make_unique<PluginProcess>(std::move(*this)));
}

}  // namespace tombolo::simulation
