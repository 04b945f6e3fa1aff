#include "trainer/model/initial_values.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/hash.h"

namespace tombolo::trainer {
namespace {

/// Standard normal by Box-Muller, from (seed, index) alone.
double normal(std::uint64_t seed, std::uint64_t index) noexcept {
  constexpr double kScale = 1.0 / 9007199254740992.0;  // 2^-53
  const std::uint64_t stream = mix(seed);
  const double first = (static_cast<double>(mix(stream ^ (2 * index)) >> 11) + 0.5) * kScale;
  const double second = static_cast<double>(mix(stream ^ (2 * index + 1)) >> 11) * kScale;
  return std::sqrt(-2.0 * std::log(first)) * std::cos(2.0 * std::numbers::pi * second);
}

}  // namespace

void initialize(const Shape& shape, std::uint64_t seed, const StageParameters& parameters,
                std::span<float> arena) {
  std::fill(arena.begin(), arena.end(), 0.0F);
  const double residual_deviation = 0.02 / std::sqrt(2.0 * shape.layers);
  for (const Slice& slice : parameters.slices()) {
    const std::span<float> values = arena.subspan(slice.offset, slice.elements);
    switch (slice.tensor) {
      case Tensor::kNorm1Weight:
      case Tensor::kNorm2Weight:
      case Tensor::kFinalNormWeight:
        std::fill(values.begin(), values.end(), 1.0F);
        continue;
      default:
        break;
    }
    if (!tensor_info(slice.tensor).matrix) continue;
    const bool residual =
        slice.tensor == Tensor::kAttentionProjectionWeight || slice.tensor == Tensor::kMlpProjectionWeight;
    const double deviation = residual ? residual_deviation : 0.02;
    for (std::size_t index = 0; index < values.size(); ++index)
      values[index] = static_cast<float>(deviation * normal(seed, slice.position + index));
  }
}

}  // namespace tombolo::trainer
