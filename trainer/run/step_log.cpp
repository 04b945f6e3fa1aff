#include "trainer/run/step_log.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"

namespace tombolo::trainer {
namespace {

/// Nothing where the line is not one of this log: the last of a run that was killed may be cut short.
std::optional<std::int64_t> step_of(std::string_view line) {
  const Json json = Json::parse(line, nullptr, false);
  if (!json.is_object() || !json.contains("step") || !json["step"].is_number_integer()) return std::nullopt;
  return json["step"].get<std::int64_t>();
}

}  // namespace

std::string lines_before(const std::string& text, int first_step) {
  std::string kept;
  for (std::size_t begin = 0, end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const auto step = step_of(std::string_view(text).substr(begin, end - begin));
    if (!step || *step >= first_step) break;
    kept.append(text, begin, end - begin + 1);
  }
  return kept;
}

StepLog::StepLog(const std::string& path, int first_step, FileSystem& files, Log log)
    : path_(path), files_(files), log_(std::move(log)) {
  if (path.empty()) return;
  try {
    open(first_step);
  } catch (const Error& error) {
    if (first_step == 0) throw;
    fine_ = false;
    log_.warning("{}; training goes on without the log", error.what());
  }
}

void StepLog::open(int first_step) {
  std::error_code ignored;
  if (first_step > 0 && std::filesystem::is_regular_file(path_, ignored)) {
    std::ifstream file(path_, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    if (file.bad() || !file.is_open()) fail(Cause::kSystem, "log {}: cannot be read", path_);
    // Cut off, not written anew: the disk may be full.
    if (::truncate(path_.c_str(), static_cast<off_t>(lines_before(text, first_step).size())) != 0)
      fail_errno(errno, fmt::format("log {}: cutting off what follows step {}", path_, first_step - 1));
  }
  file_ = std::fopen(path_.c_str(), first_step > 0 ? "ae" : "we");
  if (file_ == nullptr) fail_errno(errno, fmt::format("log {}: creating", path_));
}

StepLog::~StepLog() {
  if (file_ != nullptr) std::fclose(file_);
}

void StepLog::write(const StepReport& report, const StepFigures& figures) {
  if (file_ == nullptr || !fine_) return;
  Json line{{"step", report.step},
            {"loss", report.loss},
            {"grad_norm", report.gradient_norm},
            {"tokens_per_second", report.tokens_per_second},
            {"step_seconds", report.seconds},
            {"learning_rate", figures.learning_rate}};
  if (report.validation_loss) line["validation_loss"] = *report.validation_loss;
  if (figures.utilisation > 0) line["mfu"] = figures.utilisation;
  if (std::fprintf(file_, "%s\n", line.dump().c_str()) >= 0 && std::fflush(file_) == 0) return;
  fine_ = false;
  warn(fmt::format("writing step {}", report.step), errno, "training goes on without the log");
}

void StepLog::sync() {
  if (file_ == nullptr || !fine_ || !syncs_) return;
  int error = files_.sync(::fileno(file_));
  // What is no file on a disk, such as a pipe, needs no syncing.
  if (error == EINVAL || error == EROFS) error = 0;
  // The name too: the file may be new.
  if (error == 0) error = files_.sync_folder(std::filesystem::absolute(path_).parent_path().string());
  if (error == 0) return;
  syncs_ = false;
  warn("syncing it to the disk", error, "its last lines may be lost if the machine stops");
}

void StepLog::warn(const std::string& what, int error, const std::string& consequence) const {
  log_.warning("log {}: {}: {}; {}", path_, what, errno_text(error), consequence);
}

}  // namespace tombolo::trainer
