// The kernel that carries out a step of a reduction: what one of its threads does. nvcc compiles it for the
// GPU (reduction.cu); tests run it on the processor, thread by thread.
//
// The bits are those of the processor's kernels, whose source for one element it shares. What that leaves to
// the hardware is which NaN arithmetic gives: a GPU's has no payload and no sign, so it is chosen here as an
// x86 processor chooses. (Where both operands are NaNs, that takes either, by where the compiler put them,
// and this the left one.)
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "collectives/data/arithmetic.h"
#include "collectives/gpu/reduction_kernel.h"

#if defined(__CUDACC__)
#define TOMBOLO_THREAD __host__ __device__ __forceinline__
#else
#define TOMBOLO_THREAD inline
#endif

namespace tombolo::collectives::gpu {

/// What a GPU's arithmetic gives for that result of the processor's; the same on the GPU itself.
template <typename Float>
TOMBOLO_THREAD Float as_gpus(Float result) {
#if !defined(__CUDA_ARCH__)
  using Bits = std::conditional_t<sizeof(Float) == 4, std::uint32_t, std::uint64_t>;
  if (result != result) return std::bit_cast<Float>(std::numeric_limits<Bits>::max() >> 1);
#endif
  return result;
}

/// The operator as a processor carries it out.
template <typename Op>
struct AsProcessors {
  template <typename T, typename Right>
  static TOMBOLO_THREAD T apply(T left, Right right) {
    constexpr bool kSelects = std::is_same_v<Op, arithmetic::Min> || std::is_same_v<Op, arithmetic::Max>;
    if constexpr (std::is_integral_v<T> || kSelects) {
      return Op::apply(left, right);
    } else {
      using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
      constexpr Bits kQuiet = Bits{1} << (std::numeric_limits<T>::digits - 2);
      constexpr Bits kInfinity = std::bit_cast<Bits>(std::numeric_limits<T>::infinity());
#if defined(__x86_64__)
      constexpr Bits kSign = Bits{1} << (8 * sizeof(T) - 1);
#else
      constexpr Bits kSign = 0;
#endif
      const T result = as_gpus(Op::apply(left, right));
      if (result == result) return result;
      if (left != left) return std::bit_cast<T>(std::bit_cast<Bits>(left) | kQuiet);
      if constexpr (std::is_same_v<T, Right>)
        if (right != right) return std::bit_cast<T>(std::bit_cast<Bits>(right) | kQuiet);
      return std::bit_cast<T>(kInfinity | kQuiet | kSign);
    }
  }
};

template <typename Op, typename T, typename Right>
TOMBOLO_THREAD T combine_as_processors(T left, Right right) {
  return arithmetic::combine_one<AsProcessors<Op>, T>(left, right);
}

/// As much as one load takes. A warp's 256 bytes fill the bus, and longer words only make longer code.
template <typename T>
struct alignas(8) Word {
  static constexpr std::uint64_t kElements = 8 / sizeof(T);
  T elements[kElements];
};

template <typename T>
TOMBOLO_THREAD const T* elements(const std::byte* at) {
  return reinterpret_cast<const T*>(at);
}

/// target[i] = each(left[i], right[i]) for the thread's i, where `kBoth`; else each(left[i], left[i]), and
/// `right` is not read. In words where all begin at one.
template <typename T, bool kBoth, typename Each>
TOMBOLO_THREAD void for_share(const ReductionArguments& given, std::uint64_t thread, std::uint64_t threads,
                              const Each& each) {
  const auto begins_word = [](const std::byte* at) {
    return reinterpret_cast<std::uintptr_t>(at) % sizeof(Word<T>) == 0;
  };
  std::uint64_t words = 0;
  if (begins_word(given.target) && begins_word(given.left) && (!kBoth || begins_word(given.right)))
    words = given.count / Word<T>::kElements;
  for (std::uint64_t at = thread; at < words; at += threads) {
    Word<T> left = elements<Word<T>>(given.left)[at], right = left;
    if constexpr (kBoth) right = elements<Word<T>>(given.right)[at];
    for (unsigned i = 0; i < Word<T>::kElements; ++i)
      left.elements[i] = each(left.elements[i], right.elements[i]);
    reinterpret_cast<Word<T>*>(given.target)[at] = left;
  }
  for (std::uint64_t at = words * Word<T>::kElements + thread; at < given.count; at += threads) {
    const T left = elements<T>(given.left)[at];
    reinterpret_cast<T*>(given.target)[at] = each(left, kBoth ? elements<T>(given.right)[at] : left);
  }
}

/// The share of one of so many threads.
template <typename T>
TOMBOLO_THREAD void reduce_share(const ReductionArguments& given, std::uint64_t thread,
                                 std::uint64_t threads) {
  using namespace arithmetic;
  std::conditional_t<sizeof(T) == 1, std::uint8_t,
                     std::conditional_t<sizeof(T) == 2, std::uint16_t,
                                        std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>>
      bits{};
  bits = static_cast<decltype(bits)>(given.operand);
  const T factor = std::bit_cast<T>(bits);
  const auto product = [factor](T of) { return combine_as_processors<Product>(of, factor); };
  const auto sum = [](T left, T right) { return combine_as_processors<Sum>(left, right); };
  switch (given.operation) {
    case Operation::kSum:
      return for_share<T, true>(given, thread, threads, sum);
    case Operation::kProduct:
      return for_share<T, true>(given, thread, threads,
                                [](T left, T right) { return combine_as_processors<Product>(left, right); });
    case Operation::kMin:
      return for_share<T, true>(given, thread, threads,
                                [](T left, T right) { return combine_as_processors<Min>(left, right); });
    case Operation::kMax:
      return for_share<T, true>(given, thread, threads,
                                [](T left, T right) { return combine_as_processors<Max>(left, right); });
    case Operation::kSumOfMultipliedLeft:
      return for_share<T, true>(given, thread, threads,
                                [&](T left, T right) { return sum(product(left), right); });
    case Operation::kSumOfMultipliedRight:
      return for_share<T, true>(given, thread, threads,
                                [&](T left, T right) { return sum(left, product(right)); });
    case Operation::kMultiply:
      return for_share<T, false>(given, thread, threads, [&](T left, T) { return product(left); });
    case Operation::kDivide:
      return for_share<T, false>(given, thread, threads, [&](T left, T) {
        return combine_as_processors<Quotient>(left, given.operand);
      });
  }
}

}  // namespace tombolo::collectives::gpu
