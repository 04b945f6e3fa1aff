#include "trainer/cpu/arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "base/sanitizer.h"
#include "trainer/testing/expect_refusal.h"

namespace tombolo::trainer::cpu {
namespace {

TEST(Arena, IsZeroedAlignedAndAWholeNumberOfVectors) {
  for (const std::size_t floats : {1U, 15U, 16U, 17U, 100'000U}) {
    const Arena arena(floats, "a test");
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(arena.data()) % 64, 0U);
    EXPECT_EQ(arena.bytes() % 64, 0U);
    EXPECT_GE(arena.all().size(), floats);
    EXPECT_LT(arena.all().size(), floats + Arena::kAlignment);
    EXPECT_TRUE(std::ranges::all_of(arena.all(), [](float value) { return value == 0; }));
  }
}

TEST(Arena, OfNothingTakesNoMemory) {
  for (const Arena& arena : {Arena(), Arena(0, "a test")}) {
    EXPECT_EQ(arena.data(), nullptr);
    EXPECT_TRUE(arena.all().empty());
    EXPECT_EQ(arena.bytes(), 0U);
  }
}

TEST(Arena, MovesWithItsMemory) {
  Arena first(16, "a test");
  first.data()[3] = 7;
  const Arena second = std::move(first);
  EXPECT_EQ(second.all()[3], 7);
  EXPECT_EQ(second.bytes(), 64U);
}

TEST(Arena, NamesWhatThereIsNoMemoryFor) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer ends the process where memory is wanted that cannot be";
  test::expect_refusal([] { Arena(std::size_t{1} << 58, "the activations"); },
                       {"no memory for the activations"}, Cause::kSystem);
}

TEST(Carver, LaysOutWhatItCountedBefore) {
  const auto carve = [](Carver& carver) {
    return std::array{carver.take(5), carver.take(0), carver.take(32), carver.take(1)};
  };
  Carver counter(nullptr);
  for (const float* piece : carve(counter)) EXPECT_EQ(piece, nullptr);
  EXPECT_EQ(counter.used(), 16U + 0 + 32 + 16);
  const Arena arena(counter.used(), "a test");
  Carver carver(arena.data());
  const auto pieces = carve(carver);
  EXPECT_EQ(pieces[0], arena.data());
  EXPECT_EQ(pieces[2], arena.data() + 16);
  EXPECT_EQ(pieces[3], arena.data() + 48);
  EXPECT_EQ(carver.used(), arena.all().size());
}

}  // namespace
}  // namespace tombolo::trainer::cpu
