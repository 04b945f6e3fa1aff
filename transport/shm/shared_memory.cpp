#include "transport/shm/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <cerrno>
#include <string>
#include <utility>

#include "base/error.h"

namespace tombolo::transport::shm {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

}  // namespace

SharedMemory::SharedMemory(int file, std::size_t bytes) : bytes_(bytes) {
  void* at = kernel().mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (at == MAP_FAILED) fail_errno(errno, fmt::format("map shared memory of {} bytes", bytes));
  data_ = static_cast<std::byte*>(at);
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

SharedMemory::~SharedMemory() {
  if (data_ != nullptr) kernel().munmap(data_, bytes_);
}

SharedMemory SharedMemory::create(std::size_t bytes, Descriptor& file) {
  file = Descriptor(kernel().memfd_create("tombolo", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file) fail_errno(errno, "memfd_create");
  if (kernel().ftruncate(file.get(), static_cast<off_t>(bytes)) != 0)
    fail_errno(errno, fmt::format("give shared memory a size of {} bytes", bytes));
  if (kernel().fcntl(file.get(), F_ADD_SEALS, kSeals) != 0) fail_errno(errno, "seal shared memory");
  return SharedMemory(file.get(), bytes);
}

SharedMemory SharedMemory::open(std::int64_t process, int descriptor, std::size_t bytes) {
  const std::string path = fmt::format("/proc/{}/fd/{}", process, descriptor);
  // The file that a peer names could be a device, so only a regular file is opened, and only a sealed one is
  // mapped.
  struct stat status {};
  const Descriptor name(kernel().open(path.c_str(), O_PATH | O_CLOEXEC));
  Descriptor file;
  if (name && kernel().fstat(name.get(), &status) == 0 && S_ISREG(status.st_mode))
    file = Descriptor(kernel().open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
  if (!file) {
    fail(Cause::kUnsupported, "this process may not open the peer's shared memory ({}: {})", path,
         name ? "no regular file, or not for writing" : errno_text(errno));
  }
  if (kernel().fstat(file.get(), &status) != 0 || status.st_size != static_cast<off_t>(bytes) ||
      (kernel().fcntl(file.get(), F_GET_SEALS, 0) & kSeals) != kSeals) {
    fail(Cause::kUnsupported, "{} is not shared memory of a peer of this build", path);
  }
  return SharedMemory(file.get(), bytes);
}

}  // namespace tombolo::transport::shm
