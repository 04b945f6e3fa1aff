#include "net_plugin/profiler/entry_points.h"

#include <unistd.h>

#include <memory>
#include <mutex>
#include <string>

#include "base/format.h"
#include "base/json.h"
#include "net_plugin/host_name.h"
#include "net_plugin/nccl_log.h"
#include "net_plugin/profiler/parameters.h"
#include "net_plugin/result.h"
#include "transport/observe/report/chrome_trace.h"

namespace tombolo::net_plugin::profiler_entry {
namespace {

using Mode = ProfilerSettings::Mode;

/// Events that a trace keeps, of 64 bytes each; later ones are counted.
constexpr std::size_t kTraceEvents = 1 << 19;

/// What all communicators of the process share.
struct Process final : transport::SeriesSource {
  explicit Process(ProfilerSettings chosen)
      : settings(std::move(chosen)),
        tracer(settings.mode == Mode::kTrace ? std::make_unique<transport::Tracer>(kTraceEvents) : nullptr),
        profile(tracer.get()) {}

  std::vector<transport::SeriesFamily> read() const override { return series_of(profile.sums()); }

  ProfilerSettings settings;
  std::unique_ptr<transport::Tracer> tracer;
  Profile profile;
};

/// Null where nothing is to be recorded. What TOMBOLO_PROFILER says is read once.
Process* process(const Log& log) {
  static const std::shared_ptr<Process> one = [&]() -> std::shared_ptr<Process> {
    ProfilerSettings settings;
    guarded(log, "profiler init", [&] { settings = ProfilerSettings::from_environment(); });
    if (settings.mode == Mode::kOff) return nullptr;
    auto made = std::make_shared<Process>(std::move(settings));
    // The meters keep it, because they are reported when the library is unloaded.
    if (made->settings.mode == Mode::kMeters) transport::Meters::of_process()->add_source(made);
    return made;
  }();
  return one.get();
}

/// NCCL's context.
struct Communicator {
  Process& process;
  Log log;
  std::uint64_t number;
};

std::string shown_name(const CommunicatorInfo& info) {
  if (info.name != nullptr && *info.name != '\0') return fmt::format("{} ", info.name);
  return info.id != 0 ? fmt::format("{:016x} ", info.id) : std::string{};
}

void write_trace(const Process& process, const Log& log) {
  const transport::report::Reporter reporter{own_host_name(), ::getpid()};
  write_text_file(process.settings.path, transport::report::to_chrome_trace(*process.tracer, reporter));
  log.info("profiler: wrote {} messages and waits to {}{}", process.tracer->events().size(),
           process.settings.path,
           process.tracer->dropped() > 0 ? fmt::format(", {} more came", process.tracer->dropped()) : "");
}

}  // namespace

abi::ncclResult_t init(void** context, int* mask, const CommunicatorInfo& info,
                       bool network_events) noexcept {
  *context = nullptr;
  *mask = 0;
  guarded(nccl_log(info.logger, LogLevel::kWarning), "profiler init", [&] {
    const Log log = nccl_log(info.logger, LogLevel::kInfo);
    Process* shared = process(log);
    if (shared == nullptr) return;
    auto made =
        std::make_unique<Communicator>(Communicator{*shared, log, shared->profile.open(shown_name(info))});
    *mask = abi::ncclProfileColl | abi::ncclProfileP2p | abi::ncclProfileProxyOp | abi::ncclProfileProxyStep |
            (network_events ? abi::ncclProfileNetPlugin : 0);
    if (network_events) own_profiler_listens = true;
    *context = made.release();
  });
  return abi::ncclSuccess;
}

abi::ncclResult_t finalize(void* context) noexcept {
  if (context == nullptr) return abi::ncclSuccess;
  const std::unique_ptr<Communicator> communicator(static_cast<Communicator*>(context));
  guarded(communicator->log, "profiler finalize", [&] {
    Process& shared = communicator->process;
    const Profile::Rows rows = shared.profile.close(communicator->number);
    if (shared.settings.mode == Mode::kMeters) {
      for (const auto& [key, row] : rows) communicator->log.info("profiler: {}", describe(key, row));
      for (const std::string& line : describe_collectives(rows)) communicator->log.info("profiler: {}", line);
    }
    if (shared.profile.communicators() > 0) return;
    own_profiler_listens = false;
    if (shared.tracer) write_trace(shared, communicator->log);
  });
  return abi::ncclSuccess;
}

abi::ncclResult_t start_collective(void* context, void** event, const char* name) noexcept {
  *event = nullptr;
  if (context == nullptr) return abi::ncclSuccess;
  auto& communicator = *static_cast<Communicator*>(context);
  guarded(communicator.log, "profiler startEvent",
          [&] { *event = communicator.process.profile.start_collective(name); });
  return abi::ncclSuccess;
}

abi::ncclResult_t start(void* context, void** event, std::uint64_t type, void* parent, int rank,
                        const abi::ncclProfilerEventDetail& detail) noexcept {
  *event = nullptr;
  if (context == nullptr) return abi::ncclSuccess;
  auto& communicator = *static_cast<Communicator*>(context);
  Profile& profile = communicator.process.profile;
  auto* const around = static_cast<ProfileEvent*>(parent);
  guarded(communicator.log, "profiler startEvent", [&] {
    if (type == abi::ncclProfileProxyOp) {
      const auto& operation = detail.proxyOp;
      *event = profile.start_operation(
          communicator.number, {rank, operation.peer, operation.channelId, operation.isSend != 0}, parent);
    } else if (type == abi::ncclProfileProxyStep) {
      *event = profile.start_step(around);
    } else if (type == abi::ncclProfileNetPlugin && detail.netPlugin.id == kOwnEventId) {
      *event = profile.start_message(around, *static_cast<const NetEvent*>(detail.netPlugin.data));
    }
  });
  return abi::ncclSuccess;
}

abi::ncclResult_t stop(void* event) noexcept {
  if (event == nullptr) return abi::ncclSuccess;
  guarded(Log(), "profiler stopEvent", [&] {
    if (Process* shared = process(Log())) shared->profile.stop(static_cast<ProfileEvent*>(event));
  });
  return abi::ncclSuccess;
}

abi::ncclResult_t record(void* event, abi::ncclProfilerEventState_t state, void* update) noexcept {
  if (event == nullptr) return abi::ncclSuccess;
  guarded(Log(), "profiler recordEventState", [&] {
    Process* shared = process(Log());
    if (shared == nullptr) return;
    auto* const recorded = static_cast<ProfileEvent*>(event);
    if (update != nullptr)
      shared->profile.update(recorded, *static_cast<const NetEvent*>(update));
    else
      shared->profile.waits(recorded, wait_of(state));
  });
  return abi::ncclSuccess;
}

}  // namespace tombolo::net_plugin::profiler_entry
