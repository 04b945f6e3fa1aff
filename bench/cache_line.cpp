#include "bench/cache_line.h"

#include <sys/mman.h>

#include <cerrno>
#include <chrono>
#include <new>

#include "base/error.h"

namespace tombolo::bench {

namespace {

constexpr int kTrips = 5000;

}  // namespace

struct CacheLine::Lines {
  alignas(64) std::atomic<std::uint64_t> there;
  alignas(64) std::atomic<std::uint64_t> back;
};

void CacheLine::Unmap::operator()(Lines* lines) const noexcept {
  munmap(lines, sizeof(Lines));
}

CacheLine::CacheLine() {
  void* shared = mmap(nullptr, sizeof(Lines), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) fail_errno(errno, "mmap of a shared cache line");
  lines_.reset(new (shared) Lines{});
}

double CacheLine::measure(bool leading) {
  const auto tell = [this](std::atomic<std::uint64_t>& line) {
    line.store(told_, std::memory_order_release);
  };
  const auto wait = [this](const std::atomic<std::uint64_t>& line) {
    while (line.load(std::memory_order_acquire) != told_) {
    }
  };
  const auto begin = std::chrono::steady_clock::now();
  for (int trip = 0; trip < kTrips; ++trip) {
    ++told_;
    if (leading) tell(lines_->there);
    wait(leading ? lines_->back : lines_->there);
    if (!leading) tell(lines_->back);
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / kTrips / 2;
}

}  // namespace tombolo::bench
