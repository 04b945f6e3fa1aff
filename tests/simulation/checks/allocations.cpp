#include "tests/simulation/checks/allocations.h"

#include <cstdlib>
#include <new>

#include "base/format.h"
#include "base/sanitizer.h"

namespace {

// Of this thread, which a simulation has to itself: whoever counts for all threads pays for that at each
// call.
thread_local constinit std::int64_t live = 0;

}  // namespace

namespace tombolo::simulation {

std::int64_t live_allocations() noexcept {
  return live;
}

namespace {

/// Where something else is wrong some may rightly be left.
Verdict run_and_count(const RunOptions& options, const std::function<Verdict(const RunOptions&)>& run,
                      std::int64_t& left) {
  const std::int64_t before = live_allocations();
  Verdict verdict = run(options);
  left = verdict.ok() ? live_allocations() - before : 0;
  return verdict;
}

}  // namespace

Verdict with_allocations_checked(const RunOptions& options,
                                 const std::function<Verdict(const RunOptions&)>& run) {
  std::int64_t left = 0;
  Verdict verdict = run_and_count(options, run, left);
  RunOptions quiet = options;
  quiet.log = false;
  for (int again = 0; left > 0 && again < 2; ++again) verdict = run_and_count(quiet, run, left);
  if (left > 0) verdict.wrong = fmt::format("{} allocations are left", left);
  return verdict;
}

}  // namespace tombolo::simulation

// GCC and Clang say it in two ways, and a sanitizer's own operators have to stay.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define TOMBOLO_KEEPS_OPERATOR_NEW 1
#endif
#endif
#else
#define TOMBOLO_KEEPS_OPERATOR_NEW 1
#endif

#ifndef TOMBOLO_KEEPS_OPERATOR_NEW

// The library's other forms call these.
void* operator new(std::size_t size) {
  void* memory = std::malloc(size != 0 ? size : 1);
  if (memory == nullptr) throw std::bad_alloc();
  ++live;
  return memory;
}

void* operator new(std::size_t size, std::align_val_t alignment) {
  const auto to = static_cast<std::size_t>(alignment);
  void* memory = std::aligned_alloc(to, (size + to - 1) / to * to);
  if (memory == nullptr) throw std::bad_alloc();
  ++live;
  return memory;
}

void operator delete(void* memory) noexcept {
  if (memory != nullptr) --live;
  std::free(memory);
}

void operator delete(void* memory, std::size_t) noexcept {
  operator delete(memory);
}

void operator delete(void* memory, std::align_val_t) noexcept {
  operator delete(memory);
}

void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  operator delete(memory);
}

#endif
