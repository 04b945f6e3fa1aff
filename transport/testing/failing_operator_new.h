// For tests: the operator new that has nothing for a thread whose memory is short. One source of a test
// program includes this.
#pragma once

#include <cstdlib>
#include <new>

#include "transport/testing/short_memory.h"

// GCC and Clang say it in two ways, and a sanitizer's own operators have to stay.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TOMBOLO_KEEPS_OPERATOR_NEW 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define TOMBOLO_KEEPS_OPERATOR_NEW 1
#endif
#endif

#ifndef TOMBOLO_KEEPS_OPERATOR_NEW

// The library's other forms without an alignment call these.
void* operator new(std::size_t size) {
  int& to_fail = tombolo::transport::test::allocations_to_fail;
  if (to_fail > 0) {
    --to_fail;
    throw std::bad_alloc();
  }
  void* memory = std::malloc(size != 0 ? size : 1);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void operator delete(void* memory) noexcept {
  std::free(memory);
}

void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

#endif
