#include "trainer/checkpoint/stage_share.h"

#include <algorithm>

namespace tombolo::trainer {

std::vector<SharePiece> stage_share(const StageParameters& layout, int replica, int replicas) {
  std::size_t total = 0;
  for (const Slice& slice : layout.slices())
    if (!layout.is_copy(slice)) total += slice.elements;
  const auto cut = [&](int part) {
    return total / static_cast<std::size_t>(replicas) * static_cast<std::size_t>(part) +
           std::min(total % static_cast<std::size_t>(replicas), static_cast<std::size_t>(part));
  };
  const std::size_t begin = cut(replica), end = cut(replica + 1);
  std::vector<SharePiece> share;
  std::size_t at = 0;  // of the slice's first element, where all are laid end to end
  for (const Slice& slice : layout.slices()) {
    if (layout.is_copy(slice)) continue;
    const std::size_t from = std::max(begin, at), to = std::min(end, at + slice.elements);
    if (from < to) share.push_back({slice.offset + (from - at), slice.position + (from - at), to - from});
    at += slice.elements;
  }
  return share;
}

std::vector<ShardPiece> shard_pieces(const std::vector<SharePiece>& share) {
  std::vector<ShardPiece> pieces;
  std::size_t offset = 0;
  for (const StageState state : kStageStates)
    for (const SharePiece& piece : share) {
      pieces.push_back({state, piece.position, piece.elements, offset});
      offset += piece.elements;
    }
  return pieces;
}

}  // namespace tombolo::trainer
