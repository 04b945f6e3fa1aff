// The collectives that the engine knows, and what one call asks for.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "collectives/data/compression.h"

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

/// The collective of that name; nothing for an unknown one.
constexpr std::optional<Collective> collective_from_name(std::string_view name) noexcept {
  for (const Collective one : kAllCollectives) {
    if (collective_name(one) == name) return one;
  }
  return std::nullopt;
}

/// Whether one rank gives, or gets, what all others get or give.
constexpr bool is_rooted(Collective collective) noexcept {
  return collective == Collective::kBroadcast || collective == Collective::kReduce ||
         collective == Collective::kGather || collective == Collective::kScatter;
}

/// Whether it combines the ranks' values.
constexpr bool is_reduction(Collective collective) noexcept {
  return collective == Collective::kAllReduce || collective == Collective::kReduceScatter ||
         collective == Collective::kReduce;
}

/// Where each rank's part lies in a buffer that holds the parts of all, by rank, in elements.
struct Parts {
  std::vector<std::size_t> counts, offsets;
  bool operator==(const Parts&) const = default;

  /// One behind the other.
  static Parts adjoining(std::vector<std::size_t> counts) {
    Parts made{std::move(counts), {}};
    std::size_t at = 0;
    for (const std::size_t count : made.counts) {
      made.offsets.push_back(at);
      at += count;
    }
    return made;
  }
};

/// The size of one call.
struct Problem {
  /// Elements: of the whole vector for all-reduce, broadcast and reduce; of one rank's part for the others.
  std::size_t count = 0;
  std::size_t element_bytes = 1;
  bool average = false;  ///< of reductions: the sum is divided by the number of ranks at the end
  int root = 0;
  /// Whether the ranks' parts may differ; the same on every rank. Then `count` is that of the own part, and
  /// `parts` describes the buffer that holds all of them, where this rank has it; of an all-to-all that which
  /// receives, and `sent_parts` the other one.
  bool uneven = false;
  std::shared_ptr<const Parts> parts = nullptr, sent_parts = nullptr;
  /// Of an all-reduce of floats: between clusters they travel encoded, with a residual or without.
  Compression compression = Compression::kNone;
  bool residual = false;
  /// Of reductions by a sum: this rank's input is multiplied by a factor where it is first read. The ranks
  /// need not agree on that.
  bool premultiplied = false;

  std::size_t bytes() const noexcept { return count * element_bytes; }
  std::size_t count_of(int rank) const noexcept { return count_in(parts.get(), rank); }
  std::size_t offset_of(int rank) const noexcept { return offset_in(parts.get(), rank); }
  std::size_t sent_count_of(int rank) const noexcept { return count_in(sent_parts.get(), rank); }
  std::size_t sent_offset_of(int rank) const noexcept { return offset_in(sent_parts.get(), rank); }
  /// Bytes of the longest part of those that this rank knows; of an all-to-all of those that it sends.
  std::size_t bytes_of_longest() const noexcept {
    const Parts* const known = sent_parts ? sent_parts.get() : parts.get();
    return known == nullptr ? bytes() : element_bytes * *std::ranges::max_element(known->counts);
  }
  /// Bytes of all parts, of a collective whose ranks all know them.
  std::size_t bytes_of_all(int ranks) const noexcept {
    if (!parts) return bytes() * static_cast<std::size_t>(ranks);
    return element_bytes * std::accumulate(parts->counts.begin(), parts->counts.end(), std::size_t{0});
  }
  friend bool operator==(const Problem& a, const Problem& b) noexcept {
    return a.count == b.count && a.element_bytes == b.element_bytes && a.average == b.average &&
           a.root == b.root && a.uneven == b.uneven && a.compression == b.compression &&
           a.residual == b.residual && a.premultiplied == b.premultiplied && same(a.parts, b.parts) &&
           same(a.sent_parts, b.sent_parts);
  }

 private:
  static bool same(const std::shared_ptr<const Parts>& a, const std::shared_ptr<const Parts>& b) noexcept {
    return a == b || (a && b && *a == *b);
  }
  std::size_t count_in(const Parts* all, int rank) const noexcept {
    return all == nullptr ? count : all->counts[static_cast<std::size_t>(rank)];
  }
  std::size_t offset_in(const Parts* all, int rank) const noexcept {
    const auto index = static_cast<std::size_t>(rank);
    return all == nullptr ? count * index : all->offsets[index];
  }
};

}  // namespace tombolo::collectives
