#include "transport/shm/segment.h"

#include <sys/mman.h>

#include "transport/kernel.h"

namespace tombolo::transport::shm {
namespace {

static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

}  // namespace

void populate_area(Ring& ring) noexcept {
#ifdef MADV_POPULATE_WRITE
  // Kernels before 5.14 do not know it, and the pages then come one by one.
  kernel().madvise(ring.area, kAreaBytes, MADV_POPULATE_WRITE);
#endif
}

Mapping Mapping::create(Descriptor& file) {
  return Mapping(SharedMemory::create(sizeof(Segment), file));
}

Mapping Mapping::open(std::int64_t process, int descriptor) {
  return Mapping(SharedMemory::open(process, descriptor, sizeof(Segment)));
}

}  // namespace tombolo::transport::shm
