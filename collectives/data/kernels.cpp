// The reduction kernels. One generic loop per type and operator, compiled for plain x86-64, AVX2 and AVX-512,
// and chosen once at run time. (Not target_clones: its resolvers run before a sanitizer's runtime is ready.)
#include <cmath>
#include <cstring>
#include <type_traits>

#include "collectives/data/arithmetic.h"
#include "collectives/data/data_type.h"
#include "collectives/data/unaligned.h"
#include "compute/instruction_set.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tombolo::collectives {
namespace {

using arithmetic::combine_one;
using arithmetic::Max;
using arithmetic::Min;
using arithmetic::Product;
using arithmetic::Quotient;
using arithmetic::Sum;

template <typename Op, typename T>
TOMBOLO_INLINE void combine_range(std::byte* destination, const std::byte* left, const std::byte* right,
                                  std::size_t begin, std::size_t end) noexcept {
  for (std::size_t i = begin; i < end; ++i) {
    store<T>(destination, i, combine_one<Op, T>(load<T>(left, i), load<T>(right, i)));
  }
}

template <typename Op, typename T>
void combine_plain(std::byte* destination, const std::byte* left, const std::byte* right,
                   std::size_t count) noexcept {
  combine_range<Op, T>(destination, left, right, 0, count);
}

using Kernel = void (*)(std::byte*, const std::byte*, const std::byte*, std::size_t) noexcept;

#if defined(__x86_64__)
#define TOMBOLO_AVX2 __attribute__((target("avx2,f16c")))
#if defined(__clang__)  // clang's attribute has no preferred vector width
#define TOMBOLO_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,f16c")))
#else
#define TOMBOLO_AVX512 \
  __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,f16c,prefer-vector-width=512")))
#endif

template <typename Op, typename T>
TOMBOLO_AVX2 void combine_avx2(std::byte* destination, const std::byte* left, const std::byte* right,
                               std::size_t count) noexcept {
  std::size_t done = 0;
  if constexpr (std::is_same_v<T, Float16>) {
    for (; done + 8 <= count; done += 8) {
      const __m256 a = _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(left + 2 * done)));
      const __m256 b = _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(right + 2 * done)));
      alignas(32) float x[8], y[8];
      _mm256_store_ps(x, a);
      _mm256_store_ps(y, b);
      for (int i = 0; i < 8; ++i) x[i] = Op::template apply<float>(x[i], y[i]);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(destination + 2 * done),
                       _mm256_cvtps_ph(_mm256_load_ps(x), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    }
  }
  combine_range<Op, T>(destination, left, right, done, count);
}

template <typename Op, typename T>
TOMBOLO_AVX512 void combine_avx512(std::byte* destination, const std::byte* left, const std::byte* right,
                                   std::size_t count) noexcept {
  std::size_t done = 0;
  if constexpr (std::is_same_v<T, Float16>) {
    for (; done + 16 <= count; done += 16) {
      // The zero-masking forms: gcc 12 warns about the plain ones' own undefined operand.
      const __m512 a = _mm512_maskz_cvtph_ps(
          0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(left + 2 * done)));
      const __m512 b = _mm512_maskz_cvtph_ps(
          0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(right + 2 * done)));
      alignas(64) float x[16], y[16];
      _mm512_store_ps(x, a);
      _mm512_store_ps(y, b);
      for (int i = 0; i < 16; ++i) x[i] = Op::template apply<float>(x[i], y[i]);
      _mm256_storeu_si256(
          reinterpret_cast<__m256i*>(destination + 2 * done),
          _mm512_maskz_cvtps_ph(0xffff, _mm512_load_ps(x), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    }
  }
  combine_range<Op, T>(destination, left, right, done, count);
}

template <typename Op, typename T>
Kernel kernel_for() noexcept {
  const compute::InstructionSet set = compute::instruction_set();
  if (set == compute::InstructionSet::kAvx512) return &combine_avx512<Op, T>;
  if (set == compute::InstructionSet::kAvx2) return &combine_avx2<Op, T>;
  return &combine_plain<Op, T>;
}
#else
template <typename Op, typename T>
Kernel kernel_for() noexcept {
  return &combine_plain<Op, T>;
}
#endif

template <typename T>
void combine_typed(std::byte* destination, const std::byte* left, const std::byte* right, std::size_t count,
                   ReduceOp op) noexcept {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAverage:
      return kernel_for<Sum, T>()(destination, left, right, count);
    case ReduceOp::kProduct:
      return kernel_for<Product, T>()(destination, left, right, count);
    case ReduceOp::kMin:
      return kernel_for<Min, T>()(destination, left, right, count);
    case ReduceOp::kMax:
      return kernel_for<Max, T>()(destination, left, right, count);
  }
}

template <typename T>
void divide_typed(std::byte* data, std::size_t count, std::size_t ranks) noexcept {
  const auto by = static_cast<std::uint64_t>(ranks);
  for (std::size_t i = 0; i < count; ++i) store<T>(data, i, combine_one<Quotient, T>(load<T>(data, i), by));
}

template <typename Visitor>
void visit(DataType type, Visitor&& visitor) noexcept {
  switch (type) {
    case DataType::kInt8:
      return visitor(std::int8_t{});
    case DataType::kUint8:
      return visitor(std::uint8_t{});
    case DataType::kInt16:
      return visitor(std::int16_t{});
    case DataType::kUint16:
      return visitor(std::uint16_t{});
    case DataType::kInt32:
      return visitor(std::int32_t{});
    case DataType::kUint32:
      return visitor(std::uint32_t{});
    case DataType::kInt64:
      return visitor(std::int64_t{});
    case DataType::kUint64:
      return visitor(std::uint64_t{});
    case DataType::kFloat16:
      return visitor(Float16{});
    case DataType::kBfloat16:
      return visitor(Bfloat16{});
    case DataType::kFloat32:
      return visitor(float{});
    case DataType::kFloat64:
      return visitor(double{});
    case DataType::kFloat8E4m3:
      return visitor(Float8E4m3{});
    case DataType::kFloat8E5m2:
      return visitor(Float8E5m2{});
  }
}

}  // namespace

void combine(void* destination, const void* left, const void* right, std::size_t count, DataType type,
             ReduceOp op) noexcept {
  visit(type, [&](auto sample) {
    combine_typed<decltype(sample)>(static_cast<std::byte*>(destination), static_cast<const std::byte*>(left),
                                    static_cast<const std::byte*>(right), count, op);
  });
}

void combine(void* destination, const void* source, std::size_t count, DataType type, ReduceOp op) noexcept {
  combine(destination, destination, source, count, type, op);
}

void divide(void* data, std::size_t count, DataType type, std::size_t ranks) noexcept {
  visit(type,
        [&](auto sample) { divide_typed<decltype(sample)>(static_cast<std::byte*>(data), count, ranks); });
}

}  // namespace tombolo::collectives
