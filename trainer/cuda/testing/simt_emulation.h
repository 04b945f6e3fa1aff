// simt.h's words on the CPU: every thread of a block is a fiber, blocks run one after another. Threads run in
// the order of their numbers or in the reverse one between two barriers, so that a missing barrier changes
// the result; asynchronous copies happen as late as their waits allow; a barrier that not all threads reach
// ends the program. What the matrix instructions do is written down from the PTX ISA, apart from the kernels.
#pragma once

#include <ucontext.h>

#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "trainer/cuda/gpu/launcher.h"

#if defined(__SANITIZE_ADDRESS__)
#define TOMBOLO_EMULATION_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TOMBOLO_EMULATION_ASAN 1
#endif
#endif
#if defined(TOMBOLO_EMULATION_ASAN)
#include <sanitizer/common_interface_defs.h>
#endif

#define TOMBOLO_GPU inline
#define TOMBOLO_KERNEL(threads) void
#define TOMBOLO_SHARED static
#define TOMBOLO_UNROLL
#define TOMBOLO_ROLLED

namespace tombolo::trainer::cuda::gpu {

struct alignas(16) Word4 {
  std::uint32_t x, y, z, w;
};

namespace emulation {

enum class State { kReady, kAtWarpBarrier, kAtBlockBarrier, kDone };

struct Copy {
  void* to;
  const void* from;
  std::size_t bytes;
  bool there;
};

struct Fiber {
  ucontext_t context{};
  std::unique_ptr<std::byte[]> stack;
  void* fake_stack = nullptr;
  State state = State::kDone;
  unsigned exchanges = 0;  ///< how many; the parity chooses the slot
  std::vector<std::vector<Copy>> copies;
};

inline constexpr std::size_t kStackBytes = 256 << 10;
inline constexpr std::size_t kSlotBytes = 64;

/// One block at a time, of one program's thread.
class Machine {
 public:
  static Machine& instance() {
    static Machine machine;
    return machine;
  }

  /// Warps and their lanes run from the last to the first where `reversed`.
  void reverse(bool reversed) { reversed_ = reversed; }

  void run(Grid grid, unsigned threads, std::size_t shared_bytes, const std::function<void()>& kernel) {
    if (threads % kWarp != 0 || threads == 0 || threads > 1024) die("a block of an odd number of threads");
    grid_ = grid;
    threads_ = threads;
    kernel_ = &kernel;
    while (fibers_.size() < threads) {
      fibers_.emplace_back();
      fibers_.back().stack = std::make_unique<std::byte[]>(kStackBytes);
    }
    slots_.resize(2 * threads * kSlotBytes);
    for (block_.z = 0; block_.z < grid.z; ++block_.z)
      for (block_.y = 0; block_.y < grid.y; ++block_.y)
        for (block_.x = 0; block_.x < grid.x; ++block_.x) run_block(shared_bytes);
  }

  unsigned thread() const { return current_; }
  unsigned threads() const { return threads_; }
  Grid block() const { return block_; }
  Grid grid() const { return grid_; }
  std::byte* shared() const { return shared_.get(); }
  Fiber& fiber() { return fibers_[current_]; }

  /// Waits for all threads of the warp or block that have not ended.
  void wait(State barrier) {
    fiber().state = barrier;
    to_scheduler();
  }

  /// Every lane of a warp gives a value and gets those of all.
  template <typename Value>
  const Value* exchange(const Value& value) {
    static_assert(sizeof(Value) <= kSlotBytes);
    const unsigned parity = fiber().exchanges++ % 2;
    std::byte* const slots =
        slots_.data() + (parity * threads_ + current_ / kWarp * kWarp) * kSlotBytes;  // of the warp
    std::memcpy(slots + current_ % kWarp * sizeof(Value), &value, sizeof(Value));
    wait(State::kAtWarpBarrier);
    return reinterpret_cast<const Value*>(slots);
  }

  [[noreturn]] static void die(const char* why) {
    std::fprintf(stderr, "simt emulation: %s\n", why);
    std::abort();
  }

 private:
  void run_block(std::size_t shared_bytes) {
    // Of its exact size, so that AddressSanitizer sees accesses beyond; not numbers, to show what is not set.
    shared_.reset(static_cast<std::byte*>(std::aligned_alloc(64, (shared_bytes + 64) / 64 * 64)));
    std::memset(shared_.get(), 0xFF, shared_bytes);
    for (unsigned index = 0; index < threads_; ++index) {
      Fiber& fiber = fibers_[index];
      getcontext(&fiber.context);
      fiber.context.uc_stack.ss_sp = fiber.stack.get();
      fiber.context.uc_stack.ss_size = kStackBytes;
      fiber.context.uc_link = nullptr;
      makecontext(&fiber.context, &Machine::entry, 0);
      fiber.state = State::kReady;
      fiber.exchanges = 0;
      fiber.copies.assign(1, {});
    }
    while (!all_done()) {
      bool ran = false;
      for (unsigned index = 0; index < threads_; index += kWarp)
        ran |= run_warp(reversed_ ? threads_ - kWarp - index : index);
      if (!release(0, threads_, State::kAtBlockBarrier) && !ran) die("threads wait at different barriers");
    }
  }

  /// As far as the warp comes without the others; true where it came anywhere.
  bool run_warp(unsigned first) {
    bool ran = false;
    do {
      for (unsigned lane = 0; lane < kWarp; ++lane) {
        current_ = first + (reversed_ ? kWarp - 1 - lane : lane);
        if (fiber().state != State::kReady) continue;
        to_fiber();
        ran = true;
      }
    } while (release(first, first + kWarp, State::kAtWarpBarrier));
    return ran;
  }

  bool all_done() const {
    for (unsigned index = 0; index < threads_; ++index)
      if (fibers_[index].state != State::kDone) return false;
    return true;
  }

  /// Lets those of a range go on where all have come to the barrier; false where they have not.
  bool release(unsigned begin, unsigned end, State barrier) {
    unsigned waiting = 0, done = 0;
    for (unsigned index = begin; index < end; ++index) {
      waiting += fibers_[index].state == barrier ? 1 : 0;
      done += fibers_[index].state == State::kDone ? 1 : 0;
    }
    if (waiting == 0 || waiting + done != end - begin) return false;
    // Shuffles and matrix instructions name all lanes.
    if (barrier == State::kAtWarpBarrier && done != 0) die("a lane has ended before its warp's exchange");
    for (unsigned index = begin; index < end; ++index)
      if (fibers_[index].state == barrier) fibers_[index].state = State::kReady;
    return true;
  }

  static void entry() {
    Machine& machine = instance();
    machine.arrived_in_fiber(nullptr);
    (*machine.kernel_)();
    machine.fiber().state = State::kDone;
    machine.to_scheduler();
  }

  void to_fiber() {
#if defined(TOMBOLO_EMULATION_ASAN)
    __sanitizer_start_switch_fiber(&fake_stack_, fiber().stack.get(), kStackBytes);
#endif
    swapcontext(&scheduler_, &fiber().context);
#if defined(TOMBOLO_EMULATION_ASAN)
    __sanitizer_finish_switch_fiber(fake_stack_, nullptr, nullptr);
#endif
  }
  void to_scheduler() {
    Fiber& self = fiber();
#if defined(TOMBOLO_EMULATION_ASAN)
    __sanitizer_start_switch_fiber(self.state == State::kDone ? nullptr : &self.fake_stack, scheduler_stack_,
                                   scheduler_stack_bytes_);
#endif
    swapcontext(&self.context, &scheduler_);
    arrived_in_fiber(self.fake_stack);
  }
  void arrived_in_fiber([[maybe_unused]] void* fake_stack) {
#if defined(TOMBOLO_EMULATION_ASAN)
    __sanitizer_finish_switch_fiber(fake_stack, &scheduler_stack_, &scheduler_stack_bytes_);
#endif
  }

  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  Grid grid_, block_;
  unsigned threads_ = 0, current_ = 0;
  bool reversed_ = false;
  const std::function<void()>* kernel_ = nullptr;
  std::vector<Fiber> fibers_;
  std::vector<std::byte> slots_;
  std::unique_ptr<std::byte, Free> shared_;
  ucontext_t scheduler_{};
  [[maybe_unused]] void* fake_stack_ = nullptr;
  [[maybe_unused]] const void* scheduler_stack_ = nullptr;
  [[maybe_unused]] std::size_t scheduler_stack_bytes_ = 0;
};

inline float half_of(std::uint32_t pair, unsigned which) {
  return std::bit_cast<float>(which == 0 ? pair << 16 : pair & 0xFFFF0000U);
}

}  // namespace emulation

inline unsigned thread_x() {
  return emulation::Machine::instance().thread();
}
inline unsigned threads_x() {
  return emulation::Machine::instance().threads();
}
inline unsigned block_x() {
  return emulation::Machine::instance().block().x;
}
inline unsigned block_y() {
  return emulation::Machine::instance().block().y;
}
inline unsigned block_z() {
  return emulation::Machine::instance().block().z;
}
inline unsigned blocks_x() {
  return emulation::Machine::instance().grid().x;
}
inline void sync_block() {
  emulation::Machine::instance().wait(emulation::State::kAtBlockBarrier);
}
inline void sync_warp() {
  emulation::Machine::instance().wait(emulation::State::kAtWarpBarrier);
}
inline std::byte* shared_memory() {
  return emulation::Machine::instance().shared();
}

template <typename Number>
Number shuffle(Number value, int lane) {
  static_assert(sizeof(Number) <= emulation::kSlotBytes);
  return emulation::Machine::instance().exchange(value)[lane];
}
template <typename Number>
Number shuffle_xor(Number value, int mask) {
  return shuffle(value, static_cast<int>(thread_x() % kWarp) ^ mask);
}

inline std::uint32_t bits_of(float value) {
  return std::bit_cast<std::uint32_t>(value);
}
inline float float_of(std::uint32_t bits) {
  return std::bit_cast<float>(bits);
}
inline std::uint32_t bfloat16_pair(float low, float high) {
  const auto rounded = [](float value) {
    const std::uint32_t bits = bits_of(value);
    if (std::isnan(value)) return 0x7FFFU;
    return (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16;
  };
  return rounded(low) | rounded(high) << 16;
}
inline int computed_anew(int value) {
  return value;
}
inline float exp2_fast(float x) {
  return std::exp2(x);
}

inline void load_matrices(std::uint32_t (&to)[4], const void* row) {
  const void* const* const rows = emulation::Machine::instance().exchange(row);
  const unsigned lane = thread_x() % kWarp;
  if (reinterpret_cast<std::uintptr_t>(row) % 16 != 0) emulation::Machine::die("ldmatrix: not aligned");
  for (unsigned matrix = 0; matrix < 4; ++matrix)
    std::memcpy(&to[matrix], static_cast<const std::byte*>(rows[matrix * 8 + lane / 4]) + lane % 4 * 4, 4);
}
inline void load_matrices_transposed(std::uint32_t (&to)[4], const void* row) {
  const void* const* const rows = emulation::Machine::instance().exchange(row);
  const unsigned lane = thread_x() % kWarp;
  if (reinterpret_cast<std::uintptr_t>(row) % 16 != 0) emulation::Machine::die("ldmatrix: not aligned");
  for (unsigned matrix = 0; matrix < 4; ++matrix) {
    std::uint16_t halves[2];
    for (unsigned half = 0; half < 2; ++half)
      std::memcpy(&halves[half],
                  static_cast<const std::byte*>(rows[matrix * 8 + lane % 4 * 2 + half]) + lane / 4 * 2, 2);
    to[matrix] = halves[0] | static_cast<std::uint32_t>(halves[1]) << 16;
  }
}
/// PTX ISA, "Matrix fragments for mma.m16n8k16 with floating point type".
inline void multiply_add(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  struct Share {
    std::uint32_t a[4], b[2];
  };
  Share own{{a[0], a[1], a[2], a[3]}, {b0, b1}};
  const Share* const shares = emulation::Machine::instance().exchange(own);
  const unsigned lane = thread_x() % kWarp;
  const auto a_at = [&](unsigned row, unsigned k) {
    const unsigned index = (row >= 8 ? 1 : 0) + (k >= 8 ? 2 : 0);
    return emulation::half_of(shares[row % 8 * 4 + k % 8 / 2].a[index], k % 2);
  };
  const auto b_at = [&](unsigned k, unsigned column) {
    return emulation::half_of(shares[column * 4 + k % 8 / 2].b[k / 8], k % 2);
  };
  for (unsigned index = 0; index < 4; ++index) {
    const unsigned row = lane / 4 + (index >= 2 ? 8 : 0), column = lane % 4 * 2 + index % 2;
    for (unsigned k = 0; k < 16; ++k) c[index] += a_at(row, k) * b_at(k, column);
  }
}

template <int kBytes>
void copy_async(void* to, const void* from, bool there) {
  if (reinterpret_cast<std::uintptr_t>(to) % kBytes != 0 ||
      reinterpret_cast<std::uintptr_t>(from) % kBytes != 0)
    emulation::Machine::die("cp.async: not aligned");
  emulation::Machine::instance().fiber().copies.back().push_back({to, from, kBytes, there});
}
inline void commit_copies() {
  emulation::Machine::instance().fiber().copies.emplace_back();
}
template <int kPending>
void wait_for_copies() {
  auto& groups = emulation::Machine::instance().fiber().copies;  // the last one is open
  while (groups.size() > kPending + 1) {
    for (const emulation::Copy& copy : groups.front()) {
      if (copy.there)
        std::memcpy(copy.to, copy.from, copy.bytes);
      else
        std::memset(copy.to, 0, copy.bytes);
    }
    groups.erase(groups.begin());
  }
}

template <typename... Parameters, typename... Arguments>
void launch(const Launcher& /*launcher*/, void (*kernel)(Parameters...), Grid grid, unsigned threads,
            std::size_t shared_bytes, const Arguments&... arguments) {
  emulation::Machine::instance().run(grid, threads, shared_bytes, [&] { kernel(arguments...); });
}

}  // namespace tombolo::trainer::cuda::gpu
