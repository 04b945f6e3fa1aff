#include "trainer/model/text_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "base/error.h"

namespace tombolo::trainer {

std::uint64_t row_start(std::uint64_t step, std::uint64_t batch, std::uint64_t row, std::uint64_t context,
                        std::uint64_t size) noexcept {
  return (step * batch + row) * context % (size - context - 1);
}

TextFile::TextFile(const std::string& path, int context) : path_(path) {
  file_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file_ < 0) fail(Cause::kInvalidUsage, "data file {}: cannot be opened: {}", path, errno_text(errno));
  struct stat status {};
  const bool regular = ::fstat(file_, &status) == 0 && S_ISREG(status.st_mode);
  size_ = regular ? static_cast<std::uint64_t>(status.st_size) : 0;
  if (!regular || size_ < static_cast<std::uint64_t>(context) + 2) {
    ::close(file_);
    if (!regular) fail(Cause::kInvalidUsage, "data file {}: not a regular file", path);
    fail(Cause::kInvalidUsage,
         "data file {}: {} bytes are too few for a context of {}: at least {} are needed", path, size_,
         context, context + 2);
  }
}

TextFile::~TextFile() {
  ::close(file_);
}

void TextFile::read_row(std::uint64_t step, int global_batch, int row, int vocabulary,
                        std::span<std::int32_t> tokens, std::span<std::int32_t> targets) {
  const std::size_t context = tokens.size();
  const std::uint64_t start = row_start(step, static_cast<std::uint64_t>(global_batch),
                                        static_cast<std::uint64_t>(row), context, size_);
  std::vector<unsigned char> bytes(context + 1);
  std::size_t have = 0;
  while (have < bytes.size()) {
    const ssize_t got =
        ::pread(file_, bytes.data() + have, bytes.size() - have, static_cast<off_t>(start + have));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_errno(errno, fmt::format("data file {}: reading at byte {}", path_, start + have));
    if (got == 0)
      fail(Cause::kSystem, "data file {}: ends at byte {}, but had {} bytes when it was opened", path_,
           start + have, size_);
    have += static_cast<std::size_t>(got);
  }
  for (std::size_t index = 0; index < bytes.size(); ++index)
    if (bytes[index] >= vocabulary)
      fail(Cause::kInvalidUsage, "data file {}: byte {} at position {} is outside the vocabulary of {}",
           path_, bytes[index], start + index, vocabulary);
  for (std::size_t index = 0; index < context; ++index) {
    tokens[index] = bytes[index];
    targets[index] = bytes[index + 1];
  }
}

}  // namespace tombolo::trainer
