#include "trainer/model/output_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "base/error.h"

namespace tombolo::trainer {

OutputFile::OutputFile(std::string kind, std::string path)
    : kind_(std::move(kind)),
      path_(std::move(path)),
      temporary_(fmt::format("{}.{}.partial", path_, ::getpid())),
      file_(::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) {
  if (!file_) fail_errno(errno, fmt::format("{} {}: creating {}", kind_, path_, temporary_));
}

OutputFile::~OutputFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void OutputFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t wrote = ::write(file_.get(), bytes.data(), bytes.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) fail_errno(errno, fmt::format("{} {}: writing", kind_, path_));
    bytes = bytes.subspan(static_cast<std::size_t>(wrote));
  }
}

void OutputFile::write_at(std::size_t position, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t wrote = ::pwrite(file_.get(), bytes.data(), bytes.size(), static_cast<off_t>(position));
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) fail_errno(errno, fmt::format("{} {}: writing at byte {}", kind_, path_, position));
    position += static_cast<std::size_t>(wrote);
    bytes = bytes.subspan(static_cast<std::size_t>(wrote));
  }
}

void OutputFile::commit() {
  if (::fsync(file_.get()) != 0) fail_errno(errno, fmt::format("{} {}: syncing", kind_, path_));
  if (::close(file_.release()) != 0) fail_errno(errno, fmt::format("{} {}: closing", kind_, path_));
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0)
    fail_errno(errno, fmt::format("{} {}: renaming {}", kind_, path_, temporary_));
  temporary_.clear();
  const std::string folder = std::filesystem::absolute(path_).parent_path().string();
  const Descriptor opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // Some network file systems refuse to sync a folder: their names are on the server already.
  if (!opened || (::fsync(opened.get()) != 0 && errno != EINVAL))
    fail_errno(errno, fmt::format("{} {}: syncing its folder {}", kind_, path_, folder));
}

}  // namespace tombolo::trainer
