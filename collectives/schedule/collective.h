// The collectives that the engine knows, and what one call asks for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>

namespace tombolo::collectives {

enum class Collective : std::uint8_t {
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kBroadcast,
  kReduce,
  kGather,
  kScatter,
  kAllToAll,
  kBarrier
};
inline constexpr Collective kAllCollectives[] = {
    Collective::kAllReduce, Collective::kReduceScatter, Collective::kAllGather,
    Collective::kBroadcast, Collective::kReduce,        Collective::kGather,
    Collective::kScatter,   Collective::kAllToAll,      Collective::kBarrier};

/// "all_reduce", ...
constexpr std::string_view collective_name(Collective collective) noexcept {
  constexpr std::string_view kNames[] = {"all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce",
                                         "gather",     "scatter",        "all_to_all", "barrier"};
  static_assert(std::size(kNames) == std::size(kAllCollectives));
  return kNames[static_cast<std::size_t>(collective)];
}

/// The size of one call.
struct Problem {
  /// Elements: of the whole vector for all-reduce, broadcast and reduce; of one rank's part for the others.
  std::size_t count = 0;
  std::size_t element_bytes = 1;
  bool average = false;  ///< of reductions: the sum is divided by the number of ranks at the end
  int root = 0;

  std::size_t bytes() const noexcept { return count * element_bytes; }
  bool operator==(const Problem&) const = default;
};

}  // namespace tombolo::collectives
