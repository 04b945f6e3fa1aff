// What the ranks send, and what has to arrive: whole numbers below 64, so that every sum of them is exact in
// a float.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

namespace compare {

enum class Collective {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kBroadcast,
  kAllToAll,
  kReduce,
  kGather,
  kScatter,
  kBarrier
};

/// One collective at one size. `count` is in floats: of the vector of an all-reduce, a broadcast and a
/// reduce, of one rank's part otherwise. Rank 0 is the root of those that have one.
struct Shape {
  Collective collective;
  std::size_t count;
  int rank, ranks;

  bool parted() const {
    return collective == Collective::kAllGather || collective == Collective::kReduceScatter ||
           collective == Collective::kAllToAll || collective == Collective::kGather ||
           collective == Collective::kScatter;
  }
  bool is_root() const { return rank == 0; }
  std::size_t all() const { return parted() ? count * static_cast<std::size_t>(ranks) : count; }
  /// Elements that this rank has to give; only a root has a scatter's.
  std::size_t sent() const {
    if (collective == Collective::kScatter && !is_root()) return 0;
    return collective == Collective::kAllGather || collective == Collective::kGather ? count : all();
  }
  /// Elements that it gets; only a root gets what a reduce and a gather give.
  std::size_t received() const {
    if ((collective == Collective::kReduce || collective == Collective::kGather) && !is_root()) return 0;
    return collective == Collective::kReduceScatter || collective == Collective::kScatter ? count : all();
  }
};

/// The sender's seed tells inputs of ranks, sizes and rounds apart.
inline std::uint32_t seed_of(int rank, std::uint32_t round) {
  return (static_cast<std::uint32_t>(rank) * 97 + round * 7919 + 1) * 2246822519U;
}
inline float value(std::uint32_t seed, std::size_t index) {
  return static_cast<float>((static_cast<std::uint32_t>(index) * 2654435761U + seed) >> 26);
}

inline void fill(const Shape& shape, std::uint32_t round, float* input) {
  const std::uint32_t seed = seed_of(shape.rank, round);
  for (std::size_t i = 0; i < shape.sent(); ++i) input[i] = value(seed, i);
}

/// What no result may still be: every byte 0xff, which is no number.
inline void poison(float* memory, std::size_t count) {
  std::memset(memory, 0xff, count * sizeof(float));
}

/// The number of wrong elements of a result, each of which is computed and compared.
inline std::size_t wrong_elements(const Shape& shape, std::uint32_t round, const float* result) {
  std::size_t wrong = 0;
  const auto ranks = static_cast<std::size_t>(shape.ranks), rank = static_cast<std::size_t>(shape.rank);
  const auto compare_copy = [&](std::size_t to, int sender, std::size_t from) {
    const std::uint32_t seed = seed_of(sender, round);
    for (std::size_t i = 0; i < shape.count; ++i) wrong += result[to + i] != value(seed, from + i);
  };
  const auto compare_sum = [&](std::size_t from) {
    for (std::size_t i = 0; i < shape.count; ++i) {
      float sum = 0;
      for (int sender = 0; sender < shape.ranks; ++sender) sum += value(seed_of(sender, round), from + i);
      wrong += result[i] != sum;
    }
  };
  if (shape.received() == 0) return 0;
  switch (shape.collective) {
    case Collective::kAllReduce:
    case Collective::kReduce:
      compare_sum(0);
      break;
    case Collective::kReduceScatter:
      compare_sum(rank * shape.count);
      break;
    case Collective::kBroadcast:
      compare_copy(0, 0, 0);
      break;
    case Collective::kScatter:
      compare_copy(0, 0, rank * shape.count);
      break;
    case Collective::kAllGather:
    case Collective::kGather:
      for (std::size_t from = 0; from < ranks; ++from)
        compare_copy(from * shape.count, static_cast<int>(from), 0);
      break;
    case Collective::kAllToAll:
      for (std::size_t from = 0; from < ranks; ++from)
        compare_copy(from * shape.count, static_cast<int>(from), rank * shape.count);
      break;
    case Collective::kBarrier:
      break;
  }
  return wrong;
}

}  // namespace compare
