// One loop per format, compiled for plain x86-64, AVX2 and AVX-512 as in kernels.cpp.
#include "collectives/data/compression.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "collectives/data/half.h"
#include "collectives/data/unaligned.h"
#include "compute/instruction_set.h"

namespace tombolo::collectives {
namespace {

#define TOMBOLO_INLINE inline __attribute__((always_inline))

constexpr std::size_t kBlock = 256;
constexpr float kLargest = 127;

/// Rounds to the nearest integer, half away from zero; its magnitude is at most kLargest.
TOMBOLO_INLINE std::int8_t rounded(float value) noexcept {
  return static_cast<std::int8_t>(static_cast<int>(value + (value >= 0 ? 0.5F : -0.5F)));
}

// Of one block of at most kBlock values: these are copied first, because the compiler makes the best of
// arrays that it knows.
struct Block {
  float values[kBlock];

  TOMBOLO_INLINE void fill(const std::byte* from, const std::byte* residual, std::size_t begin,
                           std::size_t count) noexcept {
    std::memcpy(values, from + begin * sizeof(float), count * sizeof(float));
    if (residual == nullptr) return;
    for (std::size_t i = 0; i < count; ++i) values[i] += load<float>(residual, begin + i);
  }
};

struct Bfloat16Format {
  static constexpr std::size_t bytes(std::size_t count) noexcept { return 2 * count; }

  static TOMBOLO_INLINE void encode_block(const Block& block, std::size_t count, std::byte* to) noexcept {
    for (std::size_t i = 0; i < count; ++i) store(to, i, to_bfloat16(block.values[i]));
  }
  static TOMBOLO_INLINE void decode_block(const std::byte* from, std::size_t count, float* values) noexcept {
    for (std::size_t i = 0; i < count; ++i) values[i] = to_float(load<Bfloat16>(from, i));
  }
};

struct Int8Format {
  static constexpr std::size_t bytes(std::size_t count) noexcept {
    return count + (count + kBlock - 1) / kBlock * sizeof(float);
  }

  static TOMBOLO_INLINE void encode_block(const Block& block, std::size_t count, std::byte* to) noexcept {
    // As integers, the bits of magnitudes are ordered as these are, with infinity and NaNs above.
    std::uint32_t most = 0;
    for (std::size_t i = 0; i < count; ++i)
      most = std::max(most, std::bit_cast<std::uint32_t>(block.values[i]) & 0x7fffffffU);
    const bool finite = most < 0x7f800000U;
    const float scale =
        finite ? std::bit_cast<float>(most) / kLargest : std::numeric_limits<float>::quiet_NaN();
    store(to, 0, scale);
    std::byte* const quotients = to + sizeof(float);
    if (!(scale > 0)) {  // all zero, so small that the quotient is, or not finite
      std::memset(quotients, 0, count);
      return;
    }
    for (std::size_t i = 0; i < count; ++i) store(quotients, i, rounded(block.values[i] / scale));
  }
  static TOMBOLO_INLINE void decode_block(const std::byte* from, std::size_t count, float* values) noexcept {
    const float scale = load<float>(from, 0);
    const std::byte* const quotients = from + sizeof(float);
    for (std::size_t i = 0; i < count; ++i)
      values[i] = static_cast<float>(load<std::int8_t>(quotients, i)) * scale;
  }
};

/// The three operations by blocks.
template <typename Format>
struct Loops {
  static TOMBOLO_INLINE void encode(const std::byte* from, std::size_t count, std::byte* to,
                                    std::byte* residual) noexcept {
    Block block;
    for (std::size_t begin = 0; begin < count; begin += kBlock) {
      const std::size_t here = std::min(kBlock, count - begin);
      std::byte* const encoded = to + Format::bytes(begin);
      block.fill(from, residual, begin, here);
      Format::encode_block(block, here, encoded);
      if (residual == nullptr) continue;
      float back[kBlock];
      Format::decode_block(encoded, here, back);
      for (std::size_t i = 0; i < here; ++i) store(residual, begin + i, block.values[i] - back[i]);
    }
  }
  /// `left` may be null.
  static TOMBOLO_INLINE void decode(const std::byte* from, std::size_t count, const std::byte* left,
                                    std::byte* to) noexcept {
    float values[kBlock];
    for (std::size_t begin = 0; begin < count; begin += kBlock) {
      const std::size_t here = std::min(kBlock, count - begin);
      Format::decode_block(from + Format::bytes(begin), here, values);
      if (left != nullptr) {
        for (std::size_t i = 0; i < here; ++i) values[i] = load<float>(left, begin + i) + values[i];
      }
      std::memcpy(to + begin * sizeof(float), values, here * sizeof(float));
    }
  }
};

using Encode = void (*)(const std::byte*, std::size_t, std::byte*, std::byte*) noexcept;
using Decode = void (*)(const std::byte*, std::size_t, const std::byte*, std::byte*) noexcept;
struct Kernels {
  Encode encode;
  Decode decode;
};

template <typename Format>
void encode_plain(const std::byte* from, std::size_t count, std::byte* to, std::byte* residual) noexcept {
  Loops<Format>::encode(from, count, to, residual);
}
template <typename Format>
void decode_plain(const std::byte* from, std::size_t count, const std::byte* left, std::byte* to) noexcept {
  Loops<Format>::decode(from, count, left, to);
}

#if defined(__x86_64__)
#define TOMBOLO_AVX2 __attribute__((target("avx2")))
#define TOMBOLO_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))

template <typename Format>
TOMBOLO_AVX2 void encode_avx2(const std::byte* from, std::size_t count, std::byte* to,
                              std::byte* residual) noexcept {
  Loops<Format>::encode(from, count, to, residual);
}
template <typename Format>
TOMBOLO_AVX2 void decode_avx2(const std::byte* from, std::size_t count, const std::byte* left,
                              std::byte* to) noexcept {
  Loops<Format>::decode(from, count, left, to);
}
template <typename Format>
TOMBOLO_AVX512 void encode_avx512(const std::byte* from, std::size_t count, std::byte* to,
                                  std::byte* residual) noexcept {
  Loops<Format>::encode(from, count, to, residual);
}
template <typename Format>
TOMBOLO_AVX512 void decode_avx512(const std::byte* from, std::size_t count, const std::byte* left,
                                  std::byte* to) noexcept {
  Loops<Format>::decode(from, count, left, to);
}

template <typename Format>
Kernels kernels_for() noexcept {
  const compute::InstructionSet set = compute::instruction_set();
  if (set == compute::InstructionSet::kAvx512) return {&encode_avx512<Format>, &decode_avx512<Format>};
  if (set == compute::InstructionSet::kAvx2) return {&encode_avx2<Format>, &decode_avx2<Format>};
  return {&encode_plain<Format>, &decode_plain<Format>};
}
#else
template <typename Format>
Kernels kernels_for() noexcept {
  return {&encode_plain<Format>, &decode_plain<Format>};
}
#endif

Kernels kernels_of(Compression compression) noexcept {
  return compression == Compression::kInt8 ? kernels_for<Int8Format>() : kernels_for<Bfloat16Format>();
}

constexpr std::array kNames{std::string_view("none"), std::string_view("bf16"), std::string_view("int8")};

}  // namespace

std::string_view compression_name(Compression compression) noexcept {
  return kNames[static_cast<std::size_t>(compression)];
}

Compression compression_from_name(std::string_view name, std::string_view setting) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (name == kNames[i]) return static_cast<Compression>(i);
  }
  fail(Cause::kInvalidUsage, "{}='{}': expected none, bf16 or int8", setting, name);
}

std::size_t encoded_bytes(Compression compression, std::size_t count) noexcept {
  switch (compression) {
    case Compression::kBfloat16:
      return Bfloat16Format::bytes(count);
    case Compression::kInt8:
      return Int8Format::bytes(count);
    case Compression::kNone:
      break;
  }
  return count * sizeof(float);
}

void encode(Compression compression, const std::byte* from, std::size_t count, std::byte* to,
            std::byte* residual) noexcept {
  kernels_of(compression).encode(from, count, to, residual);
}

void decode(Compression compression, const std::byte* from, std::size_t count, std::byte* to) noexcept {
  kernels_of(compression).decode(from, count, nullptr, to);
}

void decode_add(Compression compression, const std::byte* from, std::size_t count, const std::byte* left,
                std::byte* to) noexcept {
  kernels_of(compression).decode(from, count, left, to);
}

}  // namespace tombolo::collectives
