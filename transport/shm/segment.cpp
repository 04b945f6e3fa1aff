#include "transport/shm/segment.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <cerrno>
#include <new>
#include <utility>

#include "base/error.h"

namespace tombolo::transport::shm {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

}  // namespace

void populate_area(Ring& ring) noexcept {
#ifdef MADV_POPULATE_WRITE
  // Kernels before 5.14 do not know it, and the pages then come one by one.
  madvise(ring.area, kAreaBytes, MADV_POPULATE_WRITE);
#endif
}

Mapping::Mapping(int file) {
  void* at = kernel().mmap(nullptr, sizeof(Segment), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (at == MAP_FAILED) fail_errno(errno, fmt::format("map shared memory of {} bytes", sizeof(Segment)));
  segment_ = static_cast<Segment*>(at);
}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(segment_, other.segment_);
  return *this;
}

Mapping::~Mapping() {
  if (segment_ != nullptr) kernel().munmap(segment_, sizeof(Segment));
}

Mapping Mapping::create(Descriptor& file) {
  file = Descriptor(kernel().memfd_create("tombolo", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file) fail_errno(errno, "memfd_create");
  if (kernel().ftruncate(file.get(), sizeof(Segment)) != 0)
    fail_errno(errno, fmt::format("give shared memory a size of {} bytes", sizeof(Segment)));
  if (kernel().fcntl(file.get(), F_ADD_SEALS, kSeals) != 0) fail_errno(errno, "seal shared memory");
  return Mapping(file.get());
}

Mapping Mapping::open(std::int64_t process, int descriptor) {
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
  if (kernel().fstat(file.get(), &status) != 0 || status.st_size != sizeof(Segment) ||
      (kernel().fcntl(file.get(), F_GET_SEALS, 0) & kSeals) != kSeals) {
    fail(Cause::kUnsupported, "{} is not shared memory of a peer of this build", path);
  }
  return Mapping(file.get());
}

}  // namespace tombolo::transport::shm
