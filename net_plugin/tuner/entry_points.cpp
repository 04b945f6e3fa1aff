#include "net_plugin/tuner/entry_points.h"

#include <cstdlib>

#include "net_plugin/nccl_log.h"
#include "net_plugin/result.h"
#include "net_plugin/tuner/settings.h"

namespace tombolo::net_plugin::tuner_entry {
namespace {

void describe(const Log& log, const Knowledge& knowledge, const TunerSettings& settings, std::size_t ranks) {
  if (settings.mode == TunerMode::kOff || !settings.file) return;
  if (!knowledge.span) {
    log.info("tuner: algorithms are left to NCCL: {}", knowledge.reason);
    return;
  }
  log.info(
      "tuner: chooses the algorithms of {} ranks: {} (content {:016x}, which must be the same on all ranks)",
      ranks, knowledge.reason, settings.file->content_hash);
}

}  // namespace

abi::ncclResult_t init(std::size_t ranks, std::size_t nodes, abi::ncclDebugLogger_t logger,
                       void** context) noexcept {
  *context = nullptr;
  guarded(nccl_log(logger, LogLevel::kWarning), "tuner init", [&] {
    const Log log = nccl_log(logger, LogLevel::kWarning);
    TunerSettings& settings = tuner_settings_of_process(log);
    const Knowledge knowledge = knowledge_of(settings.mode, settings.file ? &*settings.file : nullptr, nodes);
    describe(log, knowledge, settings, ranks);
    if (!knowledge.span) return;
    *context = new Tuner(knowledge, ranks, nodes, settings.choices);
    settings.active.store(true, std::memory_order_relaxed);
  });
  return abi::ncclSuccess;
}

abi::ncclResult_t finalize(void* context) noexcept {
  delete static_cast<Tuner*>(context);
  return abi::ncclSuccess;
}

abi::ncclResult_t get_costs(void* context, abi::ncclFunc_t function, std::size_t bytes, int operations,
                            CostTable table, int* channels) noexcept {
  if (context == nullptr) return abi::ncclSuccess;
  guarded(Log::to_stderr(LogLevel::kWarning), "tuner getCollInfo", [&] {
    const auto& tuner = *static_cast<const Tuner*>(context);
    if (!tuner.tune(function, bytes, operations, table)) return;
    if (const int filling = tuner.channels(function, bytes); filling > 0) *channels = filling;
  });
  return abi::ncclSuccess;
}

abi::ncclResult_t get_choice(void* context, abi::ncclFunc_t function, std::size_t bytes, int operations,
                             int* algorithm, int* protocol) noexcept {
  if (context == nullptr || std::getenv("NCCL_ALGO") != nullptr || std::getenv("NCCL_PROTO") != nullptr)
    return abi::ncclSuccess;
  guarded(Log::to_stderr(LogLevel::kWarning), "tuner getCollInfo", [&] {
    const Choice choice = static_cast<const Tuner*>(context)->choose(function, bytes, operations);
    if (choice == Choice{}) return;
    *algorithm = choice.algorithm;
    *protocol = choice.protocol;
  });
  return abi::ncclSuccess;
}

abi::ncclResult_t get_chunk_size(void* context, int channels, std::size_t* size) noexcept {
  if (context == nullptr) return abi::ncclSuccess;
  guarded(Log::to_stderr(LogLevel::kWarning), "tuner getChunkSize",
          [&] { *size = static_cast<const Tuner*>(context)->chunk_size(channels, *size); });
  return abi::ncclSuccess;
}

}  // namespace tombolo::net_plugin::tuner_entry
