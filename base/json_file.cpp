#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/json.h"

namespace tombolo {
namespace {

/// Writes all of `text` and closes; returns 0 or the errno.
int write_and_close(int fd, std::string_view text) {
  int error = 0;
  while (!text.empty() && error == 0) {
    ssize_t written = ::write(fd, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno != EINTR) {
      error = errno;
    }
  }
  if (::close(fd) != 0 && error == 0) error = errno;
  return error;
}

/// The file that `path` names, also through links to one that is not there yet.
std::filesystem::path file_behind(const std::string& path) {
  constexpr int kMostLinks = 40;  // the kernel follows no more
  std::error_code error;
  std::filesystem::path at = path;
  for (int links = 0; std::filesystem::is_symlink(std::filesystem::symlink_status(at, error)); ++links) {
    if (links == kMostLinks) fail_errno(ELOOP, fmt::format("{}: cannot write", path));
    const auto target = std::filesystem::read_symlink(at, error);
    if (error) break;
    at = at.parent_path() / target;
  }
  auto real = std::filesystem::weakly_canonical(at, error);
  return error || real.empty() ? at : real;
}

}  // namespace

void write_json_file(const std::string& path, const Json& json) {
  write_text_file(path, json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
}

void write_text_file(const std::string& path, std::string_view text) {
  std::error_code ignored;
  auto status = std::filesystem::status(path, ignored);
  if (std::filesystem::is_directory(status)) {
    fail(Cause::kSystem, "{}: cannot write: it is a folder", path);
  }
  // A pipe or a terminal must not be replaced by a file, and /dev/stdout may name a file that another process
  // holds open.
  bool device = path.starts_with("/dev/");
  if (std::filesystem::exists(status) && (device || !std::filesystem::is_regular_file(status))) {
    // If standard output were opened anew, it would be written from its start, over what was printed before.
    int fd =
        path == "/dev/stdout" ? ::dup(STDOUT_FILENO) : ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
    int error = fd < 0 ? errno : write_and_close(fd, text);
    if (error != 0) fail_errno(error, fmt::format("{}: cannot write", path));
    return;
  }
  // Through a symbolic link the file that it names is replaced, not the link.
  const std::string target = file_behind(path).string();
  // Not mkstemp: it would make the file private, whatever the umask says.
  std::string temporary;
  int fd = -1;
  for (int attempt = 0; fd < 0 && attempt < 100; ++attempt) {
    temporary = fmt::format("{}.{}.{}", target, ::getpid(), attempt);
    fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0 && errno != EEXIST) break;
  }
  if (fd < 0) fail_errno(errno, fmt::format("{}: cannot create a temporary file beside it", path));
  int error = write_and_close(fd, text);
  if (error == 0 && ::rename(temporary.c_str(), target.c_str()) != 0) error = errno;
  if (error != 0) {
    ::unlink(temporary.c_str());
    fail_errno(error, fmt::format("{}: cannot write", path));
  }
}

}  // namespace tombolo
