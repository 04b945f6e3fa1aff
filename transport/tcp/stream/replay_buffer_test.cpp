#include "transport/tcp/stream/replay_buffer.h"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <random>
#include <vector>

#include "base/randomized_test.h"

namespace tombolo::transport::tcp {
namespace {

TEST(ReplayBuffer, OfNoBytesGivesOutNothing) {
  ReplayBuffer buffer(0);
  EXPECT_EQ(buffer.take(1), nullptr);
  EXPECT_EQ(buffer.used(), 0u);
}

TEST(ReplayBuffer, GivesOutAllOfItAndNoMore) {
  ReplayBuffer buffer(100);
  EXPECT_EQ(buffer.take(101), nullptr);
  std::byte* const first = buffer.take(60);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(buffer.take(41), nullptr);
  EXPECT_EQ(buffer.used(), 60u) << "a refusal takes nothing";
  EXPECT_EQ(buffer.take(40), first + 60);
  EXPECT_EQ(buffer.take(1), nullptr);
  buffer.give_back_to(buffer.position());
  EXPECT_EQ(buffer.used(), 0u);
  EXPECT_EQ(buffer.take(100), first) << "an empty one starts over at its beginning";
}

TEST(ReplayBuffer, APieceIsNeverCutAtTheEnd) {
  ReplayBuffer buffer(100);
  std::byte* const first = buffer.take(60);
  const std::uint64_t after_first = buffer.position();
  ASSERT_EQ(buffer.take(20), first + 60);
  buffer.give_back_to(after_first);
  // 20 are left at the end and 60 at the beginning: 40 fit only there, and the 20 are skipped.
  EXPECT_EQ(buffer.take(61), nullptr);
  EXPECT_EQ(buffer.take(40), first);
  EXPECT_EQ(buffer.used(), 80u) << "with what was skipped";
  EXPECT_EQ(buffer.take(21), nullptr);
  EXPECT_EQ(buffer.take(20), first + 40);
  EXPECT_EQ(buffer.used(), 100u);
}

// Every byte that was given out stays as it was written until it is given back.
TEST(ReplayBuffer, KeepsWhatIsWrittenThroughManyLaps) {
  std::mt19937 random(test_seed());
  for (int round = 0; round < test_rounds(20); ++round) {
    const std::size_t capacity = 1 + random() % 2000;
    ReplayBuffer buffer(capacity);
    struct Piece {
      std::byte* at;
      std::size_t size;
      std::byte value;
      std::uint64_t end;
    };
    std::deque<Piece> pieces;
    std::size_t taken = 0;
    for (int step = 0; step < 2000; ++step) {
      if (random() % 2 == 0) {
        const std::size_t size = 1 + random() % (random() % 4 == 0 ? capacity : capacity / 8 + 1);
        std::byte* const at = buffer.take(size);
        if (at == nullptr) {
          ASSERT_FALSE(pieces.empty() && size <= capacity) << "an empty one has room for all";
          continue;
        }
        const auto value = static_cast<std::byte>(random());
        std::memset(at, std::to_integer<int>(value), size);
        pieces.push_back({at, size, value, buffer.position()});
        taken += size;
      } else if (!pieces.empty()) {
        const Piece& one = pieces.front();
        for (std::size_t i = 0; i < one.size; ++i) ASSERT_EQ(one.at[i], one.value) << "step " << step;
        taken -= one.size;
        buffer.give_back_to(one.end);
        pieces.pop_front();
      }
      ASSERT_GE(buffer.used(), taken);
      ASSERT_LE(buffer.used(), capacity);
    }
  }
}

}  // namespace
}  // namespace tombolo::transport::tcp
