#include "trainer/model/value_type.h"

#include <bit>
#include <cstring>

#include "collectives/data/half.h"

namespace tombolo::trainer {
namespace {

static_assert(std::endian::native == std::endian::little, "files of models are little-endian");

using collectives::Bfloat16;
using collectives::Float16;

template <typename Half>
void decode(std::span<const std::byte> raw, std::span<float> values) noexcept {
  for (std::size_t at = 0; at < values.size(); ++at) {
    Half half;
    std::memcpy(&half.bits, raw.data() + at * sizeof half.bits, sizeof half.bits);
    values[at] = to_float(half);
  }
}

template <typename Half, Half (*round)(float)>
void encode(std::span<const float> values, std::span<std::byte> raw) noexcept {
  for (std::size_t at = 0; at < values.size(); ++at) {
    const Half half = round(values[at]);
    std::memcpy(raw.data() + at * sizeof half.bits, &half.bits, sizeof half.bits);
  }
}

}  // namespace

std::size_t value_bytes(ValueType type) noexcept {
  return type == ValueType::kFloat32 ? 4 : 2;
}

std::string_view value_type_name(ValueType type) noexcept {
  switch (type) {
    case ValueType::kFloat32:
      return "fp32";
    case ValueType::kBfloat16:
      return "bf16";
    case ValueType::kFloat16:
      return "fp16";
  }
  return "unknown";
}

void decode_values(ValueType type, std::span<const std::byte> raw, std::span<float> values) noexcept {
  switch (type) {
    case ValueType::kFloat32:
      std::memcpy(values.data(), raw.data(), values.size_bytes());
      return;
    case ValueType::kBfloat16:
      decode<Bfloat16>(raw, values);
      return;
    case ValueType::kFloat16:
      decode<Float16>(raw, values);
      return;
  }
}

void encode_values(ValueType type, std::span<const float> values, std::span<std::byte> raw) noexcept {
  switch (type) {
    case ValueType::kFloat32:
      std::memcpy(raw.data(), values.data(), values.size_bytes());
      return;
    case ValueType::kBfloat16:
      encode<Bfloat16, collectives::to_bfloat16>(values, raw);
      return;
    case ValueType::kFloat16:
      encode<Float16, collectives::to_float16>(values, raw);
      return;
  }
}

}  // namespace tombolo::trainer
