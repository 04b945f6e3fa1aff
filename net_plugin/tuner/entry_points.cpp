#include "net_plugin/tuner/entry_points.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <mutex>
#include <optional>
#include <string>

#include "base/descriptor.h"
#include "base/error.h"
#include "net_plugin/host_name.h"
#include "net_plugin/nccl_log.h"
#include "net_plugin/result.h"
#include "net_plugin/tuner/parameters.h"
#include "topology/files/cluster_file.h"
#include "transport/observe/report/reporting.h"

namespace tombolo::net_plugin::tuner_entry {
namespace {

TunerMode mode_from_environment() {
  const std::string text = kTunerParameter.choice();
  return text == "off" ? TunerMode::kOff : text == "spanning" ? TunerMode::kSpanning : TunerMode::kAuto;
}

std::string read_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) fail_errno(errno, fmt::format("{}: cannot read the cluster file", path));
  return {std::istreambuf_iterator<char>(file), {}};
}

/// One line, one write, so that lines of several processes do not mix.
void append(int file, std::string_view text) {
  const std::string line = fmt::format("{}\n", text);
  [[maybe_unused]] const ssize_t written = ::write(file, line.data(), line.size());
}

ChoiceSink choice_sink() {
  const std::string where = kTunerLogParameter.text();
  if (where.empty()) return nullptr;
  auto file = std::make_shared<Descriptor>();
  if (where != "stderr") {
    const std::string path =
        transport::report::expand_pattern(where, own_host_name(), kTunerLogParameter.name);
    file->reset(::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644));
    if (!*file) fail_errno(errno, fmt::format("{}: cannot write {}", kTunerLogParameter.name, path));
  }
  return std::make_shared<const Log>(LogLevel::kInfo, [file](LogLevel, std::string_view text) {
    append(*file ? file->get() : STDERR_FILENO, text);
  });
}

/// What all tuners of the process share. It is read once, so that a file which is rewritten while the job
/// runs does not part communicators made before from ones made after.
struct Settings {
  TunerMode mode = TunerMode::kOff;
  std::optional<TunerFile> file;
  ChoiceSink choices;
};

Settings read_settings(const Log& log) {
  Settings settings;
  guarded(log, "tuner init", [&] {
    const TunerMode mode = mode_from_environment();
    if (const std::string path = topology::kClusterParameter.text(); !path.empty())
      settings.file = TunerFile::parse(path, read_bytes(path));
    settings.mode = mode;
  });
  guarded(log, "tuner init", [&] { settings.choices = choice_sink(); });
  return settings;
}

const Settings& settings_of_process(const Log& log) {
  static const Settings settings = read_settings(log);
  return settings;
}

void describe(const Log& log, const Knowledge& knowledge, const Settings& settings, std::size_t ranks) {
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
    const Settings& settings = settings_of_process(log);
    const Knowledge knowledge = knowledge_of(settings.mode, settings.file ? &*settings.file : nullptr, nodes);
    describe(log, knowledge, settings, ranks);
    if (knowledge.span) *context = new Tuner(knowledge, ranks, nodes, settings.choices);
  });
  return abi::ncclSuccess;
}

abi::ncclResult_t finalize(void* context) noexcept {
  delete static_cast<Tuner*>(context);
  return abi::ncclSuccess;
}

abi::ncclResult_t get_costs(void* context, abi::ncclFunc_t function, std::size_t bytes, int operations,
                            CostTable table) noexcept {
  if (context == nullptr) return abi::ncclSuccess;
  guarded(Log::to_stderr(LogLevel::kWarning), "tuner getCollInfo",
          [&] { static_cast<const Tuner*>(context)->tune(function, bytes, operations, table); });
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
  if (context != nullptr) *size = static_cast<const Tuner*>(context)->chunk_size(channels, *size);
  return abi::ncclSuccess;
}

}  // namespace tombolo::net_plugin::tuner_entry
