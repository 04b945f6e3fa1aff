#include "tests/simulation/pretended/fiber_context.h"

#include <cstdint>

#ifdef TOMBOLO_OWN_CONTEXT

// The registers that the ABI of System V has a function keep for its caller lie on the stack while others
// run: rbx, rbp and r12 to r15, and the modes of SSE and of the x87. A new stack looks as if its code had
// called from the beginning of tombolo_fiber_begin.
asm(R"(
  .text
  .p2align 4
  .type tombolo_fiber_switch, @function
tombolo_fiber_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  subq $8, %rsp
  stmxcsr (%rsp)
  fnstcw 4(%rsp)
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  ldmxcsr (%rsp)
  fldcw 4(%rsp)
  addq $8, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .size tombolo_fiber_switch, .-tombolo_fiber_switch

  .p2align 4
  .type tombolo_fiber_begin, @function
tombolo_fiber_begin:
  .cfi_startproc
  .cfi_undefined rip
  movq %r12, %rdi
  call *%rbx
  ud2
  .cfi_endproc
  .size tombolo_fiber_begin, .-tombolo_fiber_begin
)");

extern "C" {
void tombolo_fiber_switch(void** from, void* to) noexcept;
void tombolo_fiber_begin();
}

namespace tombolo::simulation {
namespace {

/// What tombolo_fiber_switch leaves on a stack, from its lowest address on.
struct Kept {
  std::uint32_t mxcsr = 0;
  std::uint32_t x87_control = 0;
  void* r15 = nullptr;
  void* r14 = nullptr;
  void* r13 = nullptr;
  void* r12 = nullptr;
  void* rbx = nullptr;
  void* rbp = nullptr;
  void (*returns_to)() = nullptr;
};

}  // namespace

void FiberContext::begin(std::span<std::byte> stack, void (*entry)(void*), void* argument) noexcept {
  // Before the call of `entry` the stack pointer is a multiple of 16.
  const auto end = reinterpret_cast<std::uintptr_t>(stack.data() + stack.size()) & ~std::uintptr_t{15};
  auto* kept = new (reinterpret_cast<void*>(end - sizeof(Kept))) Kept;
  asm volatile("stmxcsr %0\n\tfnstcw %1" : "=m"(kept->mxcsr), "=m"(kept->x87_control));
  kept->r12 = argument;
  kept->rbx = reinterpret_cast<void*>(entry);
  kept->returns_to = tombolo_fiber_begin;
  stack_pointer_ = kept;
}

void FiberContext::switch_over(FiberContext& from, FiberContext& to) noexcept {
  tombolo_fiber_switch(&from.stack_pointer_, to.stack_pointer_);
}

}  // namespace tombolo::simulation

#else

namespace tombolo::simulation {

void FiberContext::enter(unsigned high, unsigned low) {
  const auto* self = reinterpret_cast<const FiberContext*>(std::uintptr_t{high} << 32 | low);
  self->entry_(self->argument_);
}

void FiberContext::begin(std::span<std::byte> stack, void (*entry)(void*), void* argument) noexcept {
  entry_ = entry;
  argument_ = argument;
  getcontext(&context_);
  context_.uc_stack.ss_sp = stack.data();
  context_.uc_stack.ss_size = stack.size();
  context_.uc_link = nullptr;
  const auto self = reinterpret_cast<std::uintptr_t>(this);
  makecontext(&context_, reinterpret_cast<void (*)()>(&FiberContext::enter), 2,
              static_cast<unsigned>(self >> 32), static_cast<unsigned>(self));
}

void FiberContext::switch_over(FiberContext& from, FiberContext& to) noexcept {
  swapcontext(&from.context_, &to.context_);
}

}  // namespace tombolo::simulation

#endif
