#include "trainer/data/row_order.h"

#include <algorithm>
#include <array>
#include <bit>

#include "base/hash.h"

namespace tombolo::trainer {
namespace {

// Four rounds of a random function make a random permutation (Luby and Rackoff 1988); this one only mixes
// well, and twice as many rounds cost little.
constexpr std::size_t kRounds = 8;

}  // namespace

std::uint64_t permuted(std::uint64_t seed, std::uint64_t epoch, std::uint64_t index,
                       std::uint64_t count) noexcept {
  const int half = std::max(1, (static_cast<int>(std::bit_width(count - 1)) + 1) / 2);
  const std::uint64_t mask = (std::uint64_t{1} << half) - 1;
  std::array<std::uint64_t, kRounds> keys{};
  std::uint64_t key = mix(mix(seed) ^ epoch);
  for (std::uint64_t& one : keys) one = key = mix(key);
  do {
    std::uint64_t left = index >> half, right = index & mask;
    for (const std::uint64_t one : keys) {
      const std::uint64_t next = left ^ (mix(one ^ right) & mask);
      left = right;
      right = next;
    }
    index = left << half | right;
  } while (index >= count);
  return index;
}

std::uint64_t row_start(RowOrder order, std::uint64_t step, std::uint64_t batch, std::uint64_t row,
                        std::uint64_t context, std::uint64_t size) noexcept {
  const std::uint64_t number = step * batch + row;
  if (!order.shuffle_seed) return number * context % (size - context - 1);
  const std::uint64_t rows = (size - 1) / context;
  return permuted(*order.shuffle_seed, number / rows, number % rows, rows) * context;
}

}  // namespace tombolo::trainer
