// Memory that pretended processes share, and their reading of each other's. The memory itself is this
// process's, so that a read of what is not mapped fails as the machine's kernel lets it.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "tests/simulation/pretended/pretended_kernel.h"

namespace tombolo::simulation {
namespace {

/// Walks through parts of memory, a run of bytes at a time.
class Parts {
 public:
  Parts(const iovec* parts, unsigned long count) noexcept : parts_(parts, count) { skip_empty(); }
  std::size_t run() const noexcept { return parts_.empty() ? 0 : parts_.front().iov_len - used_; }
  iovec take(std::size_t bytes) noexcept {
    const iovec taken{static_cast<std::byte*>(parts_.front().iov_base) + used_, bytes};
    used_ += bytes;
    skip_empty();
    return taken;
  }

 private:
  void skip_empty() noexcept {
    while (!parts_.empty() && used_ == parts_.front().iov_len) {
      parts_ = parts_.subspan(1);
      used_ = 0;
    }
  }
  std::span<const iovec> parts_;
  std::size_t used_ = 0;
};

}  // namespace

RealFile::~RealFile() {
  ::close(descriptor_);
}

pid_t PretendedKernel::new_processes() noexcept {
  static pid_t last = 0;
  return (last = last % 1'000'000'000 + 16) + 1000;
}

std::shared_ptr<RealFile> PretendedKernel::real_file(int descriptor) noexcept {
  File* found = file(descriptor);
  auto* real = found == nullptr ? nullptr : std::get_if<std::shared_ptr<RealFile>>(&found->body);
  return real == nullptr ? nullptr : *real;
}

std::optional<unsigned> PretendedKernel::living_host_of(pid_t process) const noexcept {
  for (unsigned host = 0; one_machine_ && host < killed_.size(); ++host)
    if (process_of(host) == process && !killed(host)) return host;
  return std::nullopt;
}

int PretendedKernel::memfd_create(const char* name, unsigned flags) noexcept {
  if (killed(host_)) return failed_with(EMFILE);
  if (fails(Call::kShareMemory)) return -1;
  const int real = ::memfd_create(name, flags);
  return real < 0 ? real : open(std::make_shared<RealFile>(real));
}

int PretendedKernel::ftruncate(int descriptor, off_t size) noexcept {
  const auto real = real_file(descriptor);
  return real ? ::ftruncate(real->get(), size) : failed_with(EBADF);
}

int PretendedKernel::fcntl(int descriptor, int command, int argument) noexcept {
  const auto real = real_file(descriptor);
  return real ? ::fcntl(real->get(), command, argument) : failed_with(EBADF);
}

int PretendedKernel::open(const char* path, int) noexcept {
  if (killed(host_)) return failed_with(EMFILE);
  if (fails(Call::kShareMemory)) return -1;
  int process = 0, descriptor = 0;
  if (std::sscanf(path, "/proc/%d/fd/%d", &process, &descriptor) != 2 || !living_host_of(process))
    return failed_with(ENOENT);
  const auto real = real_file(descriptor);
  return real ? open(real) : failed_with(ENOENT);
}

int PretendedKernel::stat(const char* path, struct ::stat* status) noexcept {
  int process = 0;
  if (std::sscanf(path, "/proc/%d", &process) != 1 || !living_host_of(process)) return failed_with(ENOENT);
  *status = {};
  status->st_uid = ::geteuid();
  return 0;
}

int PretendedKernel::fstat(int descriptor, struct ::stat* status) noexcept {
  const auto real = real_file(descriptor);
  return real ? ::fstat(real->get(), status) : failed_with(EBADF);
}

void* PretendedKernel::mmap(void* at, std::size_t size, int protection, int flags, int descriptor,
                            off_t offset) noexcept {
  if (fails(Call::kShareMemory)) return MAP_FAILED;
  const auto real = real_file(descriptor);
  if (!real) {
    errno = EBADF;
    return MAP_FAILED;
  }
  void* const mapped = ::mmap(at, size, protection, flags, real->get(), offset);
  if (mapped != MAP_FAILED) mappings_.push_back({host_, mapped, size, real});
  return mapped;
}

int PretendedKernel::munmap(void* at, std::size_t size) noexcept {
  std::erase_if(mappings_, [&](const Mapping& one) { return one.at == at; });
  return ::munmap(at, size);
}

/// The code of a process that died runs on, since what it holds is to be given back; but alone.
void PretendedKernel::take_mappings_from(unsigned host) noexcept {
  for (const Mapping& one : mappings_) {
    if (one.host != host) continue;
    if (::mmap(one.at, one.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, one.file->get(), 0) ==
        MAP_FAILED)
      std::abort();
  }
}

ssize_t PretendedKernel::process_vm_readv(pid_t process, const iovec* mine, unsigned long count,
                                          const iovec* theirs, unsigned long their_count,
                                          unsigned long flags) noexcept {
  if (killed(host_)) return failed_with(EPERM);
  bool partly = false;
  if (fails(Call::kReadMemory)) {
    const int error = errno;
    if (!read_failed_) read_failed_ = clock_.now();
    if (error != ENODATA) return failed_with(error);
    partly = true;
  }
  if (!living_host_of(process)) return failed_with(ESRCH);
  Parts to(mine, count), from(theirs, their_count);
  ssize_t total = 0;
  // The kernel copies page by page, and the other process goes on meanwhile.
  for (bool first = true; to.run() != 0 && from.run() != 0; first = false) {
    if (!first && partly) return total;
    if (!first && step_) step_();
    std::size_t bytes = std::min(to.run(), from.run());
    if (bytes > 1 && random_() % 2 == 0) bytes = 1 + random_() % bytes;
    const iovec into = to.take(bytes), of = from.take(bytes);
    const ssize_t got = ::process_vm_readv(::getpid(), &into, 1, &of, 1, flags);
    if (got < 0) return total == 0 ? got : total;
    total += got;
    if (got != std::ssize(std::span(static_cast<std::byte*>(into.iov_base), into.iov_len))) return total;
  }
  ++moved_[host_];
  return total;
}

}  // namespace tombolo::simulation
