// Fails an input during which the heap holds far more than before it. libFuzzer's own limit is looked at once
// a second, when most inputs that take too much are over; and it also counts what libFuzzer keeps.
#include <sanitizer/allocator_interface.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

// The linker gives every target's entry the name with __real_, and calls of it go to the one with __wrap_.
extern "C" int __real_LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern "C" int __wrap_LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

/// Inputs grow to 64 KiB (fuzz.h). Those of the corpora take up to 5 MiB, and 16 MiB where a secret is made
/// of a text. What takes memory by the square of its input's size takes more than this.
constexpr std::size_t kMost = std::size_t{32} << 20;
/// The heap is looked at once a thread has allocated so many bytes, because that takes its time.
constexpr std::size_t kStep = std::size_t{256} << 10;

constexpr std::size_t kNoInput = SIZE_MAX;
std::atomic<std::size_t> before{kNoInput};
thread_local std::size_t allocated = 0;

void after_malloc(const volatile void* /*memory*/, std::size_t size) {
  allocated += size;
  if (allocated < kStep) return;
  allocated = 0;
  const std::size_t begin = before, heap = __sanitizer_get_current_allocated_bytes();
  if (begin == kNoInput || heap < begin || heap - begin <= kMost) return;
  before = kNoInput;  // what follows allocates, too
  std::fprintf(stderr, "the heap has grown by %zu bytes during this input, and may by %zu\n", heap - begin,
               kMost);
  std::abort();
}

void before_free(const volatile void* /*memory*/) {}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  if (__sanitizer_install_malloc_and_free_hooks(after_malloc, before_free) == 0) std::abort();
  return 0;
}

extern "C" int __wrap_LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  before = __sanitizer_get_current_allocated_bytes();
  const int result = __real_LLVMFuzzerTestOneInput(data, size);
  before = kNoInput;
  return result;
}
