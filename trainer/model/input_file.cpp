#include "trainer/model/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/error.h"

namespace tombolo::trainer {

InputFile::InputFile(std::string kind, std::string path)
    : kind_(std::move(kind)),
      path_(std::move(path)),
      // Opening a pipe must not wait for its other end: it is refused below.
      file_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  if (!file_) fail(Cause::kInvalidUsage, "{}: cannot be opened: {}", name(), errno_text(errno));
  struct stat status {};
  if (::fstat(file_.get(), &status) != 0 || !S_ISREG(status.st_mode))
    fail(Cause::kInvalidUsage, "{}: not a regular file", name());
  size_ = static_cast<std::uint64_t>(status.st_size);
}

void InputFile::read(std::uint64_t position, std::span<std::byte> into) const {
  while (!into.empty()) {
    const ssize_t got = ::pread(file_.get(), into.data(), into.size(), static_cast<off_t>(position));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_errno(errno, fmt::format("{}: reading at byte {}", name(), position));
    if (got == 0)
      fail(Cause::kSystem, "{}: ends at byte {}, but had {} bytes when it was opened", name(), position,
           size_);
    position += static_cast<std::uint64_t>(got);
    into = into.subspan(static_cast<std::size_t>(got));
  }
}

std::string InputFile::read_all(std::uint64_t limit) const {
  if (size_ > limit)
    fail(Cause::kInvalidUsage, "{}: {} bytes, but such a file has at most {}", name(), size_, limit);
  std::string bytes(size_, '\0');
  read(0, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

}  // namespace tombolo::trainer
