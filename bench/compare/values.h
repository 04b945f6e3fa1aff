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

/// Where elements are in a buffer.
struct Part {
  std::size_t begin, count;
};

/// One collective at one size. `count` is in floats: of the vector of an all-reduce, a broadcast and a
/// reduce, of one rank's part otherwise, on average where the parts are uneven. Rank 0 is the root of those
/// that have one.
struct Shape {
  Collective collective;
  std::size_t count;
  int rank, ranks;
  bool uneven = false;  ///< only where parted()

  bool parted() const {
    return collective == Collective::kAllGather || collective == Collective::kReduceScatter ||
           collective == Collective::kAllToAll || collective == Collective::kGather ||
           collective == Collective::kScatter;
  }
  bool is_root() const { return rank == 0; }
  std::size_t all() const { return parted() ? count * static_cast<std::size_t>(ranks) : count; }
  /// Rank `of`'s part of a buffer that holds those of all ranks. Uneven parts grow with the rank, as 1, 2, 3,
  /// and so on; the first are empty where there are few elements.
  Part part(int of) const {
    const std::size_t begin = begin_of(of);
    return {begin, begin_of(of + 1) - begin};
  }
  /// In an all-to-all, what rank `one` has for rank `other` in its input, and gets from it into its output.
  /// Uneven ones are those of a parted buffer in another order for each rank, so that each has as much as all
  /// others.
  Part exchanged(int one, int other) const {
    std::size_t begin = 0;
    for (int before = 0; before < other; ++before) begin += part((one + before) % ranks).count;
    return {begin, part((one + other) % ranks).count};
  }
  /// Elements that this rank has to give; only a root has a scatter's.
  std::size_t sent() const {
    if (collective == Collective::kScatter && !is_root()) return 0;
    const bool gathers = collective == Collective::kAllGather || collective == Collective::kGather;
    return gathers ? part(rank).count : all();
  }
  /// Elements that it gets; only a root gets what a reduce and a gather give.
  std::size_t received() const {
    if ((collective == Collective::kReduce || collective == Collective::kGather) && !is_root()) return 0;
    const bool scatters = collective == Collective::kReduceScatter || collective == Collective::kScatter;
    return scatters ? part(rank).count : all();
  }

 private:
  std::size_t begin_of(int of) const {
    const auto before = static_cast<std::size_t>(of), last = static_cast<std::size_t>(ranks);
    return uneven ? all() * before * (before + 1) / (last * (last + 1)) : before * count;
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
  const auto compare_copy = [&](Part to, int sender, std::size_t from) {
    const std::uint32_t seed = seed_of(sender, round);
    for (std::size_t i = 0; i < to.count; ++i) wrong += result[to.begin + i] != value(seed, from + i);
  };
  const auto compare_sum = [&](Part of) {
    for (std::size_t i = 0; i < of.count; ++i) {
      float sum = 0;
      for (int sender = 0; sender < shape.ranks; ++sender) sum += value(seed_of(sender, round), of.begin + i);
      wrong += result[i] != sum;
    }
  };
  if (shape.received() == 0) return 0;
  const Part whole{0, shape.count}, own = shape.part(shape.rank);
  switch (shape.collective) {
    case Collective::kAllReduce:
    case Collective::kReduce:
      compare_sum(whole);
      break;
    case Collective::kReduceScatter:
      compare_sum(own);
      break;
    case Collective::kBroadcast:
      compare_copy(whole, 0, 0);
      break;
    case Collective::kScatter:
      compare_copy({0, own.count}, 0, own.begin);
      break;
    case Collective::kAllGather:
    case Collective::kGather:
      for (int from = 0; from < shape.ranks; ++from) compare_copy(shape.part(from), from, 0);
      break;
    case Collective::kAllToAll:
      for (int from = 0; from < shape.ranks; ++from)
        compare_copy(shape.exchanged(shape.rank, from), from, shape.exchanged(from, shape.rank).begin);
      break;
    case Collective::kBarrier:
      break;
  }
  return wrong;
}

}  // namespace compare
