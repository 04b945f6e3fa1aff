// A case of an operation: random numbers in one stretch of memory with guards between its arrays, and how far
// each result may be from the reference's. The same case is laid out at any address, so that it runs on a GPU
// as on the host.
#pragma once

#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "base/format.h"
#include "trainer/cuda/operations/reference.h"
#include "trainer/cuda/operations/rounding.h"

namespace tombolo::trainer::cuda::testing {

enum class Kind { kFloat32, kBfloat16, kFloat64, kInteger };

inline std::size_t kind_bytes(Kind kind) {
  return kind == Kind::kBfloat16 ? 2 : kind == Kind::kFloat64 ? 8 : 4;
}
inline Kind kind_of(Element element) {
  return element == Element::kBfloat16 ? Kind::kBfloat16 : Kind::kFloat32;
}

/// An array that the operation writes. A result is right where it differs from the reference's by at most
/// relative x |reference| + share x the root mean square of all the array's, which counts as no less than
/// `terms`; where there are rows, that of its own row is added.
struct Output {
  std::string what;
  Kind kind;
  std::size_t offset, count;
  double relative, share;
  double differing = 1;  ///< the share of its numbers that may have other bits at all
  std::size_t row = 0;   ///< numbers of a row, whose errors grow with its own numbers
  double terms = 0;      ///< of a few numbers that may all be small by cancelling: how large what cancels is
};

struct Case {
  std::string name;
  std::vector<std::byte> memory;  ///< before the operation
  std::function<Operation(std::byte*)> at;
  std::vector<Output> outputs;
  std::vector<std::pair<std::size_t, std::size_t>> scratch;  ///< offsets and bytes that do not matter
};

inline double number(const std::byte* at, Kind kind) {
  if (kind == Kind::kFloat64) {
    double value = 0;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  const Values values{const_cast<std::byte*>(at),
                      kind == Kind::kBfloat16 ? Element::kBfloat16 : Element::kFloat32};
  return static_cast<double>(load_value(values, 0));
}

/// Lays a case's memory out and fills it.
class CaseMaker {
 public:
  CaseMaker(std::string name, unsigned seed) : random_(seed) { case_.name = std::move(name); }

  /// Bytes from the memory's start. Arrays begin at multiples of 256 bytes, or `shift` elements after one.
  std::size_t array(Kind kind, std::size_t count, std::size_t shift = 0) {
    const std::size_t begin = (case_.memory.size() + kGuard + 255) / 256 * 256 + shift * kind_bytes(kind);
    case_.memory.resize(begin + count * kind_bytes(kind) + kGuard, std::byte{0xA5});
    return begin;
  }
  std::size_t numbers(Kind kind, std::size_t count, double deviation = 1, double mean = 0,
                      std::size_t shift = 0) {
    const std::size_t begin = array(kind, count, shift);
    std::normal_distribution<double> normal(mean, deviation);
    for (std::size_t i = 0; i < count; ++i) set(begin, kind, i, normal(random_));
    return begin;
  }
  std::size_t positive(Kind kind, std::size_t count, double most) {
    const std::size_t begin = array(kind, count);
    std::uniform_real_distribution<double> uniform(0, most);
    for (std::size_t i = 0; i < count; ++i) set(begin, kind, i, uniform(random_));
    return begin;
  }
  std::size_t integers(const std::vector<std::int32_t>& values) {
    const std::size_t begin = array(Kind::kInteger, values.size());
    std::memcpy(case_.memory.data() + begin, values.data(), values.size() * sizeof values[0]);
    return begin;
  }
  /// Skewed as text is: small ones are frequent.
  std::vector<std::int32_t> tokens(std::size_t count, std::size_t vocabulary) {
    std::uniform_real_distribution<double> uniform(0, 1);
    std::vector<std::int32_t> result(count);
    for (std::int32_t& token : result)
      token = static_cast<std::int32_t>(std::pow(uniform(random_), 3) * static_cast<double>(vocabulary));
    return result;
  }
  template <typename T>
  std::size_t object(const T& value) {
    const std::size_t begin = array(Kind::kInteger, (sizeof(T) + 3) / 4);
    std::memcpy(case_.memory.data() + begin, &value, sizeof value);
    return begin;
  }
  void output(std::string what, Kind kind, std::size_t offset, std::size_t count, double relative,
              double share, double differing = 1, std::size_t row = 0, double terms = 0) {
    case_.outputs.push_back({std::move(what), kind, offset, count, relative, share, differing, row, terms});
  }
  void scratch(std::size_t offset, std::size_t bytes) { case_.scratch.emplace_back(offset, bytes); }
  std::byte* memory() { return case_.memory.data(); }
  Case made(std::function<Operation(std::byte*)> at) {
    case_.at = std::move(at);
    return std::move(case_);
  }

 private:
  static constexpr std::size_t kGuard = 64;
  void set(std::size_t begin, Kind kind, std::size_t index, double value) {
    std::byte* to = case_.memory.data() + begin + index * kind_bytes(kind);
    if (kind == Kind::kFloat64) {
      std::memcpy(to, &value, sizeof value);
      return;
    }
    store_value({to, kind == Kind::kBfloat16 ? Element::kBfloat16 : Element::kFloat32}, 0,
                static_cast<float>(value));
  }
  Case case_;
  std::mt19937 random_;
};

}  // namespace tombolo::trainer::cuda::testing
