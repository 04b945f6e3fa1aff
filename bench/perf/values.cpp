#include "bench/perf/values.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "collectives/data/small_float.h"

namespace tombolo::bench {
namespace {

using collectives::Bfloat16;
using collectives::Float16;
using collectives::Float8E4m3;
using collectives::Float8E5m2;
using collectives::kIsSmallFloat;

template <typename T>
constexpr bool kIsFloat8 = std::is_same_v<T, Float8E4m3> || std::is_same_v<T, Float8E5m2>;

/// Calls `body` with a value of the C++ type that stands for `type`.
template <typename Body>
auto with_type(tomboloDataType_t type, Body&& body) {
  switch (type) {
    case tomboloInt8:
      return body(std::int8_t{});
    case tomboloUint8:
      return body(std::uint8_t{});
    case tomboloInt16:
      return body(std::int16_t{});
    case tomboloUint16:
      return body(std::uint16_t{});
    case tomboloInt32:
      return body(std::int32_t{});
    case tomboloUint32:
      return body(std::uint32_t{});
    case tomboloInt64:
      return body(std::int64_t{});
    case tomboloUint64:
      return body(std::uint64_t{});
    case tomboloFloat16:
      return body(Float16{});
    case tomboloBfloat16:
      return body(Bfloat16{});
    case tomboloFloat32:
      return body(float{});
    case tomboloFloat8e4m3:
      return body(Float8E4m3{});
    case tomboloFloat8e5m2:
      return body(Float8E5m2{});
    case tomboloFloat64:
    case tomboloNumTypes:
      break;
  }
  return body(double{});
}

template <typename T>
T from_number(double number) {
  if constexpr (kIsSmallFloat<T>) {
    return collectives::from_float<T>(static_cast<float>(number));
  } else {
    return static_cast<T>(number);
  }
}

template <typename T>
double to_number(T value) {
  if constexpr (kIsSmallFloat<T>) {
    return collectives::to_float(value);
  } else {
    return static_cast<double>(value);
  }
}

/// Half a unit in the last place of 1; 0 for integers and 8-bit floats, whose results are exact.
template <typename T>
constexpr double kRounding = std::is_same_v<T, Float16>    ? 0x1p-11
                             : std::is_same_v<T, Bfloat16> ? 0x1p-8
                             : std::is_same_v<T, float>    ? 0x1p-24
                             : std::is_same_v<T, double>   ? 0x1p-53
                                                           : 0;

/// The combined inputs of all ranks at `index`.
template <typename Number>
Number combined(const Values& values, std::size_t index) {
  const auto input = [&](int rank) {
    return static_cast<Number>(values.input(rank, index) * (values.op == kMulSum ? Values::factor(rank) : 1));
  };
  Number all = input(0);
  for (int rank = 1; rank < values.context.ranks; ++rank) {
    const Number next = input(rank);
    all = values.op == tomboloProd  ? all * next
          : values.op == tomboloMin ? std::min(all, next)
          : values.op == tomboloMax ? std::max(all, next)
                                    : all + next;
  }
  return all;
}

/// Follows tombolo.h: integers wrap around, and an average is the sum divided, for integers toward zero.
template <typename T>
T reduced(const Values& values, std::size_t index) {
  const int ranks = values.context.ranks;
  if constexpr (std::is_integral_v<T>) {
    const auto all = static_cast<T>(combined<std::uint64_t>(values, index));
    if (values.op != tomboloAvg) return all;
    using Wide = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;
    return static_cast<T>(static_cast<Wide>(all) / static_cast<Wide>(ranks));
  } else {
    const auto all = combined<double>(values, index);
    return from_number<T>(values.op == tomboloAvg ? all / ranks : all);
  }
}

/// An input as it lies in a buffer.
template <typename T>
T element_of(const Values& values, int rank, std::size_t index) {
  const std::uint64_t number = values.input(rank, index);
  // Of the numbers that are copied, an 8-bit float would round many to one: they are its bits.
  if constexpr (kIsFloat8<T>) {
    if (!values.collective.reduces) return {static_cast<std::uint8_t>(number)};
  }
  return from_number<T>(static_cast<double>(number));
}

/// splitmix64, so that a value which was moved, or comes from another rank or round, differs with high
/// probability. Rank -1: for what all ranks have in common.
std::uint64_t mix(std::uint64_t seed, int rank, std::size_t index) noexcept {
  std::uint64_t mixed = (seed * 0x10001 + static_cast<std::uint64_t>(rank + 1)) * 0x9e3779b97f4a7c15U + index;
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9U;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebU;
  return mixed ^ (mixed >> 31);
}

/// Both 8-bit floats hold every whole number up to 8. So at each index so few ranks add so little that their
/// sum is no more, all times the same power of two, and none is ever rounded, in whatever order ranks are
/// combined.
std::uint64_t summand_of_float8(const Values& values, int rank, std::size_t index) noexcept {
  constexpr std::uint64_t kPowers = 4;
  const std::uint64_t exact = values.op == kMulSum ? 8 / Values::factor(0) : 8;
  const auto ranks = static_cast<std::uint64_t>(values.context.ranks);
  const std::uint64_t turns = (ranks + exact - 1) / exact, adding = (ranks + turns - 1) / turns;
  const std::uint64_t common = mix(values.seed, -1, index);
  if (static_cast<std::uint64_t>(rank) % turns != common % turns) return 0;
  return (mix(values.seed, rank, index) % (exact / adding + 1)) << (common / turns % kPowers);
}

}  // namespace

std::uint64_t Values::input(int rank, std::size_t index) const noexcept {
  const std::uint64_t mixed = mix(seed, rank, index);
  if (!collective.reduces) return mixed % 128;
  if (op == tomboloProd) return 1 + mixed % 2;
  const bool adds = op == tomboloSum || op == tomboloAvg || op == kMulSum;
  if (adds && (type == tomboloFloat8e4m3 || type == tomboloFloat8e5m2))
    return summand_of_float8(*this, rank, index);
  return mixed % 11;
}

void Values::fill_input(std::byte* input, std::size_t elements) const {
  with_type(type, [&](auto sample) {
    using T = decltype(sample);
    for (std::size_t i = 0; i < elements; ++i) {
      const T value = element_of<T>(*this, context.rank, i);
      std::memcpy(input + i * sizeof(T), &value, sizeof(T));
    }
  });
}

void Values::fill_factor(std::byte* element) const {
  with_type(type, [&](auto sample) {
    using T = decltype(sample);
    const T value = from_number<T>(static_cast<double>(factor(context.rank)));
    std::memcpy(element, &value, sizeof(T));
  });
}

void Values::fill_expected(std::byte* expected, std::size_t elements) const {
  with_type(type, [&](auto sample) {
    using T = decltype(sample);
    for (std::size_t i = 0; i < elements; ++i) {
      const Origin origin = collective.origin(context, i);
      if (origin.kind == Origin::kUntouched) continue;
      const T value = origin.kind == Origin::kReduced ? reduced<T>(*this, origin.index)
                                                      : element_of<T>(*this, origin.rank, origin.index);
      std::memcpy(expected + i * sizeof(T), &value, sizeof(T));
    }
  });
}

std::int64_t Values::count_wrong(const std::byte* result, const std::byte* expected,
                                 std::size_t elements) const {
  return with_type(type, [&](auto sample) {
    using T = decltype(sample);
    const double tolerance = collective.reduces ? kRounding<T> * (context.ranks + 1) : 0;
    std::int64_t wrong = 0;
    for (std::size_t i = 0; i < elements; ++i) {
      T found, wanted;
      std::memcpy(&found, result + i * sizeof(T), sizeof(T));
      std::memcpy(&wanted, expected + i * sizeof(T), sizeof(T));
      if (std::memcmp(&found, &wanted, sizeof(T)) == 0) continue;
      const double right = to_number(wanted);
      if (tolerance == 0 || !(std::fabs(to_number(found) - right) <= std::fabs(right) * tolerance)) ++wrong;
    }
    return wrong;
  });
}

}  // namespace tombolo::bench
