// What tells a model from others of its shape: its layers compute another function, at the same cost.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>

namespace tombolo::planner {

enum class Peculiarity : std::uint8_t {
  kParallelMlp,
  kSharedNorm,
  kRelu,
  kLayerNorm,
  kBareLayerNorm,
  kBareQkv,
  kBareAttention,
  kUnscaledScores,
  kLocalLayers,
  kScaledEmbedding,
  kEmbeddingNorm,
  kHeadBiases,
  kPostNorm,
  kNarrowEmbedding,
  kScoreCaps,
};

struct PeculiarityTraits {
  Peculiarity peculiarity;
  std::string_view name;  ///< in files, and as a field of `--model`
  std::string_view text;  ///< as it follows "the model has"
};
/// All that there are.
std::span<const PeculiarityTraits> all_peculiarities() noexcept;
std::optional<Peculiarity> peculiarity_from_name(std::string_view name) noexcept;

/// A set of them.
class Peculiarities {
 public:
  constexpr Peculiarities() = default;
  constexpr Peculiarities(std::initializer_list<Peculiarity> some) {
    for (const Peculiarity one : some) set(one, true);
  }
  constexpr bool has(Peculiarity one) const noexcept { return (bits_ & bit(one)) != 0; }
  constexpr void set(Peculiarity one, bool whether) noexcept {
    bits_ = whether ? bits_ | bit(one) : bits_ & ~bit(one);
  }
  constexpr bool empty() const noexcept { return bits_ == 0; }
  friend constexpr bool operator==(const Peculiarities&, const Peculiarities&) = default;

 private:
  static constexpr std::uint32_t bit(Peculiarity one) noexcept { return 1U << static_cast<unsigned>(one); }
  std::uint32_t bits_ = 0;
};

}  // namespace tombolo::planner
