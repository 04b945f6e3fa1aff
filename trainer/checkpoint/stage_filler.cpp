#include "trainer/checkpoint/stage_filler.h"

#include <algorithm>

#include "base/error.h"

namespace tombolo::trainer {
namespace {

std::size_t end_of(const Slice& slice) noexcept {
  return slice.position + slice.elements;
}

}  // namespace

StageFiller::StageFiller(StageCompute& compute) : compute_(compute), slices_(compute.layout().slices()) {
  std::ranges::sort(slices_, {}, &Slice::position);
}

std::string StageFiller::missing(const std::vector<ShardHeader>& shards) const {
  for (const StageState state : kStageStates) {
    std::vector<ShardPiece> pieces;
    for (const ShardHeader& shard : shards)
      std::ranges::copy_if(shard.pieces, std::back_inserter(pieces),
                           [&](const ShardPiece& piece) { return piece.state == state; });
    std::ranges::sort(pieces, {}, &ShardPiece::position);
    std::size_t covered = 0;  // all that the slices so far need lies before it
    auto piece = pieces.begin();
    for (const Slice& slice : slices_) {
      covered = std::max(covered, slice.position);
      for (; piece != pieces.end() && piece->position <= covered && covered < end_of(slice); ++piece)
        covered = std::max(covered, piece->position + piece->elements);
      if (covered >= end_of(slice)) continue;
      return fmt::format("no shard holds the {} of {}{} from element {} of the model on", state_name(state),
                         tensor_info(slice.tensor).name,
                         slice.layer < 0 ? "" : fmt::format(" of layer {}", slice.layer), covered);
    }
  }
  return {};
}

template <typename Visit>
void StageFiller::each_part(const ShardHeader& shard, std::size_t chunk, Visit visit) const {
  const std::size_t begin = chunk * shard.chunk_floats, end = begin + floats_of_chunk(shard, chunk);
  auto piece = std::ranges::upper_bound(shard.pieces, begin, {}, &ShardPiece::offset);
  if (piece != shard.pieces.begin()) --piece;
  for (; piece != shard.pieces.end() && piece->offset < end; ++piece) {
    const std::size_t from = std::max(begin, piece->offset);
    const std::size_t to = std::min(end, piece->offset + piece->elements);
    if (from >= to) continue;
    // The piece's part in this chunk, in a checkpoint's order.
    const std::size_t first = piece->position + (from - piece->offset), last = first + (to - from);
    auto slice = std::ranges::upper_bound(slices_, first, {}, &Slice::position);
    if (slice != slices_.begin()) --slice;
    for (; slice != slices_.end() && slice->position < last; ++slice) {
      const std::size_t low = std::max(first, slice->position), high = std::min(last, end_of(*slice));
      if (low < high)
        visit(piece->state, slice->offset + (low - slice->position), from - begin + (low - first),
              high - low);
    }
  }
}

bool StageFiller::needs(const ShardHeader& shard, std::size_t chunk) const {
  bool any = false;
  each_part(shard, chunk, [&](StageState, std::size_t, std::size_t, std::size_t) { any = true; });
  return any;
}

void StageFiller::take(const ShardHeader& shard, std::size_t chunk, std::span<const float> data) {
  each_part(shard, chunk, [&](StageState state, std::size_t offset, std::size_t at, std::size_t elements) {
    compute_.write_state(state, offset, data.subspan(at, elements));
  });
}

}  // namespace tombolo::trainer
