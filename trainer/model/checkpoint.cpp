#include "trainer/model/checkpoint.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "base/error.h"

namespace tombolo::trainer {
namespace {

static_assert(std::endian::native == std::endian::little, "checkpoints are little-endian");

using Header = std::array<std::int32_t, 256>;

/// An open file, closed on destruction.
class File {
 public:
  File(const std::string& path, int flags, mode_t mode = 0)
      : descriptor_(::open(path.c_str(), flags, mode)) {}
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int get() const noexcept { return descriptor_; }
  int close() noexcept { return ::close(std::exchange(descriptor_, -1)); }

 private:
  int descriptor_;
};

/// Reads `bytes` bytes at `position`; false at the end of the file.
bool read_at(const File& file, const std::string& path, void* into, std::size_t bytes, std::size_t position) {
  auto* out = static_cast<char*>(into);
  while (bytes > 0) {
    const ssize_t got = ::pread(file.get(), out, bytes, static_cast<off_t>(position));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_errno(errno, fmt::format("checkpoint {}: reading at byte {}", path, position));
    if (got == 0) return false;
    out += got;
    position += static_cast<std::size_t>(got);
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

void write_all(const File& file, const std::string& path, const void* from, std::size_t bytes) {
  const auto* next = static_cast<const char*>(from);
  while (bytes > 0) {
    const ssize_t wrote = ::write(file.get(), next, bytes);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) fail_errno(errno, fmt::format("checkpoint {}: writing", path));
    next += wrote;
    bytes -= static_cast<std::size_t>(wrote);
  }
}

/// What was renamed in the folder outlasts a power cut.
void sync_folder_of(const std::string& path) {
  const std::string folder = std::filesystem::absolute(path).parent_path().string();
  const File file(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  // Some network file systems refuse to sync a folder: their names are on the server already.
  if (file.get() < 0 || (::fsync(file.get()) != 0 && errno != EINVAL))
    fail_errno(errno, fmt::format("checkpoint {}: syncing its folder {}", path, folder));
}

Shape read_shape(const File& file, const std::string& path) {
  if (file.get() < 0)
    fail(Cause::kInvalidUsage, "checkpoint {}: cannot be opened: {}", path, errno_text(errno));
  struct stat status {};
  if (::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode))
    fail(Cause::kInvalidUsage, "checkpoint {}: not a regular file", path);
  const auto size = static_cast<std::size_t>(status.st_size);
  Header header{};
  if (size < kCheckpointHeaderBytes || !read_at(file, path, header.data(), kCheckpointHeaderBytes, 0))
    fail(Cause::kInvalidUsage, "checkpoint {}: {} bytes are too few for a header of {}", path, size,
         kCheckpointHeaderBytes);
  if (header[0] != kCheckpointMagic)
    fail(Cause::kInvalidUsage,
         "checkpoint {}: magic number {}, but a checkpoint of llm.c's format starts with {}", path, header[0],
         kCheckpointMagic);
  if (header[1] != kCheckpointVersion)
    fail(Cause::kInvalidUsage, "checkpoint {}: version {}{}; this build reads version {} (fp32)", path,
         header[1], header[1] == 5 ? " (bf16)" : "", kCheckpointVersion);
  Shape shape;
  shape.context = header[2];
  shape.vocabulary = header[3];
  shape.layers = header[4];
  shape.heads = header[5];
  shape.width = header[6];
  shape.padded_vocabulary = header[7];
  try {
    shape.check();
  } catch (const Error& error) {
    fail(Cause::kInvalidUsage, "checkpoint {}: {}", path, error.what());
  }
  const std::size_t expected = kCheckpointHeaderBytes + parameter_count(shape) * sizeof(float);
  if (size != expected)
    fail(Cause::kInvalidUsage, "checkpoint {}: {} bytes, but {} (padded to {}) takes {}: {}", path, size,
         shape.text(), shape.padded_vocabulary, expected,
         size < expected ? "cut short?" : "not this format?");
  return shape;
}

}  // namespace

Shape read_checkpoint_shape(const std::string& path) {
  const File file(path, O_RDONLY | O_CLOEXEC);
  return read_shape(file, path);
}

void read_checkpoint(const std::string& path, const StageParameters& parameters, std::span<float> arena) {
  const File file(path, O_RDONLY | O_CLOEXEC);
  read_shape(file, path);
  for (const Slice& slice : parameters.slices())
    if (!read_at(file, path, arena.subspan(slice.offset, slice.elements).data(),
                 slice.elements * sizeof(float), kCheckpointHeaderBytes + slice.position * sizeof(float)))
      fail(Cause::kInvalidUsage, "checkpoint {}: ends inside {}", path, tensor_info(slice.tensor).name);
}

void write_checkpoint(const std::string& path, const Shape& shape, std::span<const float> all) {
  TOMBOLO_CHECK(all.size() == parameter_count(shape), "given={} expected={}", all.size(),
                parameter_count(shape));
  Header header{};
  header[0] = kCheckpointMagic;
  header[1] = kCheckpointVersion;
  header[2] = shape.context;
  header[3] = shape.vocabulary;
  header[4] = shape.layers;
  header[5] = shape.heads;
  header[6] = shape.width;
  header[7] = shape.padded_vocabulary;
  const std::string temporary = fmt::format("{}.{}.partial", path, ::getpid());
  File file(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file.get() < 0) fail_errno(errno, fmt::format("checkpoint {}: creating {}", path, temporary));
  try {
    write_all(file, path, header.data(), kCheckpointHeaderBytes);
    write_all(file, path, all.data(), all.size_bytes());
    if (::fsync(file.get()) != 0) fail_errno(errno, fmt::format("checkpoint {}: syncing", path));
    if (file.close() != 0) fail_errno(errno, fmt::format("checkpoint {}: closing", path));
    if (std::rename(temporary.c_str(), path.c_str()) != 0)
      fail_errno(errno, fmt::format("checkpoint {}: renaming {}", path, temporary));
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  sync_folder_of(path);
}

}  // namespace tombolo::trainer
