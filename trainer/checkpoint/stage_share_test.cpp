#include "trainer/checkpoint/stage_share.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "trainer/testing/marked_stage.h"

namespace tombolo::trainer {
namespace {

TEST(StageShare, RanksOfAnyLayoutWriteEveryParameterOnceInEqualParts) {
  const Shape shape = test::marked_shape();
  for (const std::vector<int>& cuts : {std::vector{0, 4}, std::vector{0, 1, 4}, std::vector{0, 1, 2, 3, 4}})
    for (int replicas : {1, 2, 3, 7}) {
      std::vector<int> writers(parameter_count(shape), 0);
      for (std::size_t stage = 0; stage + 1 < cuts.size(); ++stage) {
        const StageParameters layout(shape, cuts[stage], cuts[stage + 1] - cuts[stage]);
        std::size_t least = ~std::size_t{0}, most = 0;
        for (int replica = 0; replica < replicas; ++replica) {
          std::size_t total = 0;
          for (const SharePiece& piece : stage_share(layout, replica, replicas)) {
            total += piece.elements;
            // The same distance from a slice's begin in the arena and in the model.
            const auto slice = std::ranges::find_if(layout.slices(), [&](const Slice& one) {
              return one.position <= piece.position &&
                     piece.position + piece.elements <= one.position + one.elements;
            });
            ASSERT_NE(slice, layout.slices().end());
            EXPECT_EQ(piece.offset - slice->offset, piece.position - slice->position);
            for (std::size_t at = 0; at < piece.elements; ++at) ++writers[piece.position + at];
          }
          least = std::min(least, total);
          most = std::max(most, total);
        }
        EXPECT_LE(most - least, 1U);
      }
      EXPECT_EQ(std::ranges::count(writers, 1), std::ssize(writers))
          << cuts.size() - 1 << " stages x " << replicas;
    }
}

TEST(StageShare, AShardHoldsAllThreeStatesWithoutGaps) {
  const std::vector<SharePiece> share = stage_share(StageParameters(test::marked_shape(), 0, 2), 1, 2);
  const std::vector<ShardPiece> pieces = shard_pieces(share);
  ASSERT_EQ(pieces.size(), 3 * share.size());
  std::size_t next = 0;
  for (std::size_t at = 0; at < pieces.size(); ++at) {
    EXPECT_EQ(pieces[at].state, kStageStates[at / share.size()]);
    EXPECT_EQ(pieces[at].position, share[at % share.size()].position);
    EXPECT_EQ(pieces[at].offset, next);
    next += pieces[at].elements;
  }
}

}  // namespace
}  // namespace tombolo::trainer
