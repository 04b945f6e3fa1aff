#include "net_plugin/tuner/settings.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <iterator>
#include <memory>
#include <string_view>

#include "base/descriptor.h"
#include "base/error.h"
#include "net_plugin/host_name.h"
#include "net_plugin/result.h"
#include "net_plugin/tuner/parameters.h"
#include "topology/files/cluster_file.h"
#include "transport/observe/report/reporting.h"

namespace tombolo::net_plugin {
namespace {

TunerMode mode_from_environment() {
  const std::string text = kTunerParameter.choice();
  return text == "off" ? TunerMode::kOff : text == "spanning" ? TunerMode::kSpanning : TunerMode::kAuto;
}

std::string_view mode_name(TunerMode mode) {
  return mode == TunerMode::kOff ? "off" : mode == TunerMode::kSpanning ? "spanning" : "auto";
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

std::unique_ptr<TunerSettings> read_settings(const Log& log) {
  auto settings = std::make_unique<TunerSettings>();
  guarded(log, "tuner init", [&] {
    const TunerMode mode = mode_from_environment();
    if (const std::string link = kTunerLinkParameter.text(); !link.empty())
      settings->file = TunerFile::parse_link(std::string(kTunerLinkParameter.name), link);
    else if (const std::string path = topology::kClusterParameter.text(); !path.empty())
      settings->file = TunerFile::parse(path, read_bytes(path));
    settings->mode = mode;
  });
  guarded(log, "tuner init", [&] { settings->choices = choice_sink(); });
  return settings;
}

/// What a rank's tuner goes by, in the words of an error.
std::string words_of(const TunerMark& mark, const std::string& file) {
  if (mark.mode == TunerMode::kOff)
    return "no tuner (TOMBOLO_TUNER=off, or neither TOMBOLO_CLUSTER nor TOMBOLO_TUNER_LINK)";
  return fmt::format("{}{:02x} and TOMBOLO_TUNER={}", file, mark.hash, mode_name(mark.mode));
}

}  // namespace

TunerMark TunerSettings::mark() const noexcept {
  if (mode == TunerMode::kOff || !file) return {};
  return {mode, static_cast<std::uint8_t>(file->content_hash), active.load(std::memory_order_relaxed)};
}

std::string TunerSettings::describe() const {
  if (mode == TunerMode::kOff || !file) return {};
  return fmt::format("tuner: {}, by {}, content {:016x}, which must be the same on all ranks",
                     mode_name(mode), file->path, file->content_hash);
}

TunerSettings& tuner_settings_of_process(const Log& log) {
  static const std::unique_ptr<TunerSettings> settings = read_settings(log);
  return *settings;
}

void check_tuners_alike(const TunerSettings& own, const TunerMark& peer) {
  const TunerMark mine = own.mark();
  if (!(mine.active || peer.active) || (mine.mode == peer.mode && mine.hash == peer.hash)) return;
  const std::string file =
      own.file ? fmt::format("{}, content {:016x}, which ends in ", own.file->path, own.file->content_hash)
               : std::string();
  fail(Cause::kInvalidUsage,
       "this rank's tuner and the peer's would choose different algorithms, and NCCL would wait for ever: "
       "this "
       "rank has {}; the peer has {}. Give all ranks the same build, cluster file (TOMBOLO_CLUSTER), "
       "TOMBOLO_TUNER_LINK and TOMBOLO_TUNER; "
       "`tombolo doctor --nccl` under the launcher compares them",
       words_of(mine, file), words_of(peer, "a cluster file whose content ends in "));
}

}  // namespace tombolo::net_plugin
