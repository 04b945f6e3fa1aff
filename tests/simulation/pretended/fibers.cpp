#include "tests/simulation/pretended/fibers.h"

#include <cxxabi.h>
#include <sys/mman.h>

#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/sanitizer.h"

#if defined(__SANITIZE_ADDRESS__)
#define TOMBOLO_FIBERS_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TOMBOLO_FIBERS_ASAN 1
#endif
#endif
#ifdef TOMBOLO_FIBERS_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace tombolo::simulation {
namespace {

constexpr std::size_t kStackBytes = kSanitized ? 2 * 1024 * 1024 : 512 * 1024;

/// Stacks are used again, because mapping one costs more than a short schedule.
class Stacks {
 public:
  ~Stacks() {
    for (std::byte* stack : free_) munmap(stack, kStackBytes);
  }
  std::byte* take() {
    if (!free_.empty()) {
      std::byte* stack = free_.back();
      free_.pop_back();
      return stack;
    }
    void* memory = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) fail_errno(errno, "map a fiber's stack");
    return static_cast<std::byte*>(memory);
  }
  void give_back(std::byte* stack) { free_.push_back(stack); }

 private:
  std::vector<std::byte*> free_;
};

thread_local Stacks stacks;

void before_switch([[maybe_unused]] void** keep, [[maybe_unused]] const void* to,
                   [[maybe_unused]] std::size_t bytes) {
#ifdef TOMBOLO_FIBERS_ASAN
  __sanitizer_start_switch_fiber(keep, to, bytes);
#endif
}

void after_switch([[maybe_unused]] void* kept, [[maybe_unused]] const void** from,
                  [[maybe_unused]] std::size_t* bytes) {
#ifdef TOMBOLO_FIBERS_ASAN
  __sanitizer_finish_switch_fiber(kept, from, bytes);
#endif
}

/// A fiber that was left in the middle has frames on its stack that the sanitizer still guards.
void forget_frames([[maybe_unused]] std::byte* stack) {
#ifdef TOMBOLO_FIBERS_ASAN
  __asan_unpoison_memory_region(stack, kStackBytes);
#endif
}

/// Puts `in` in the place of the thread's own, which go to `out`.
void switch_exceptions(ExceptionsOfThread& out, const ExceptionsOfThread& in) noexcept {
  void* own = abi::__cxa_get_globals();
  std::memcpy(&out, own, sizeof out);
  std::memcpy(own, &in, sizeof in);
}

}  // namespace

Fibers::~Fibers() {
  for (auto& fiber : fibers_) stacks.give_back(fiber->stack);
}

std::size_t Fibers::add(std::function<void()> body) {
  auto fiber = std::make_unique<Fiber>();
  fiber->stack = stacks.take();
  forget_frames(fiber->stack);
  fiber->body = std::move(body);
  fiber->context.begin({fiber->stack, kStackBytes}, &Fibers::enter, this);
  fibers_.push_back(std::move(fiber));
  return fibers_.size() - 1;
}

void Fibers::enter(void* fibers) {
  auto* self = static_cast<Fibers*>(fibers);
  after_switch(nullptr, &self->caller_stack_, &self->caller_stack_bytes_);
  Fiber& fiber = *self->fibers_[self->current_];
  self->body_of(fiber);
  // A null place tells the sanitizer that this stack is left for good.
  before_switch(nullptr, self->caller_stack_, self->caller_stack_bytes_);
  FiberContext::switch_over(fiber.context, self->caller_);
}

void Fibers::body_of(Fiber& fiber) {
  try {
    fiber.body();
  } catch (...) {
    fiber.thrown = std::current_exception();
  }
  fiber.body = nullptr;
  fiber.ended = true;
}

void Fibers::run(std::size_t number) {
  Fiber& fiber = *fibers_[number];
  TOMBOLO_CHECK(!fiber.ended && current_ == npos);
  current_ = number;
  before_switch(&caller_fake_stack_, fiber.stack, kStackBytes);
  switch_exceptions(caller_exceptions_, fiber.exceptions);
  FiberContext::switch_over(caller_, fiber.context);
  switch_exceptions(fiber.exceptions, caller_exceptions_);
  after_switch(caller_fake_stack_, nullptr, nullptr);
  current_ = npos;
  if (fiber.thrown) std::rethrow_exception(std::exchange(fiber.thrown, nullptr));
}

void Fibers::yield() {
  Fiber& fiber = *fibers_[current_];
  before_switch(&fiber.fake_stack, caller_stack_, caller_stack_bytes_);
  FiberContext::switch_over(fiber.context, caller_);
  after_switch(fiber.fake_stack, &caller_stack_, &caller_stack_bytes_);
}

}  // namespace tombolo::simulation
