#include "collectives/schedule/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/randomized_test.h"

namespace tombolo::collectives {
namespace {

std::vector<std::uint32_t> waits_of(const Schedule& schedule, std::uint32_t step) {
  std::vector<std::uint32_t> all;
  for (std::uint32_t before = 0; before < schedule.steps.size(); ++before) {
    for (auto d = schedule.dependents_begin[before]; d < schedule.dependents_begin[before + 1]; ++d) {
      if (schedule.dependents[d] == step) all.push_back(before);
    }
  }
  return all;
}

/// For each pair of steps, whether the one has to come before the other, directly or by others.
std::vector<std::vector<bool>> closure_of(const Schedule& schedule) {
  const std::size_t count = schedule.steps.size();
  std::vector<std::vector<bool>> before(count, std::vector<bool>(count));
  for (std::uint32_t to = 0; to < count; ++to) {  // edges lead to later steps only
    for (const std::uint32_t from : waits_of(schedule, to)) {
      before[from][to] = true;
      for (std::size_t one = 0; one < from; ++one)
        if (before[one][from]) before[one][to] = true;
    }
  }
  return before;
}

TEST(Schedule, OrdersOnlyWhatTouchesTheSameBytes) {
  ScheduleBuilder builder({}, false);
  const Piece a = builder.scratch(64), b = builder.scratch(64);
  builder.receive(1, a, 64);       // 0
  builder.receive(1, b, 64);       // 1
  builder.send(2, a + 32, 32);     // 2 reads what 0 wrote
  builder.combine(b, b, a, 32);    // 3 after 0 and 1
  builder.receive(1, a + 32, 32);  // 4 after 2 read it (and 0 wrote it)
  builder.send(2, b + 32, 32);     // 5 after 1 only
  const Schedule schedule = builder.build("test");
  const auto waits_for = [&](std::uint32_t step) { return waits_of(schedule, step); };
  EXPECT_EQ(waits_for(2), (std::vector<std::uint32_t>{0}));
  EXPECT_EQ(waits_for(3), (std::vector<std::uint32_t>{0, 1}));
  EXPECT_EQ(waits_for(4), (std::vector<std::uint32_t>{0, 2}));
  EXPECT_EQ(waits_for(5), (std::vector<std::uint32_t>{1}));
}

/// What a step reads and writes, said a second time.
struct Touch {
  Piece piece;
  std::size_t bytes = 0;
  bool writes = false;
};

bool conflict(const std::vector<Touch>& left, const std::vector<Touch>& right) {
  for (const Touch& one : left) {
    for (const Touch& other : right) {
      if (one.piece.buffer != other.piece.buffer || one.piece.buffer == Buffer::kInput) continue;
      if (!one.writes && !other.writes) continue;
      if (one.piece.offset < other.piece.offset + static_cast<std::ptrdiff_t>(other.bytes) &&
          other.piece.offset < one.piece.offset + static_cast<std::ptrdiff_t>(one.bytes))
        return true;
    }
  }
  return false;
}

// Of random steps, those are ordered that touch the same bytes, of which one writes them; and no edge is
// there without such a reason.
TEST(Schedule, OfRandomStepsOrdersExactlyThoseThatConflict) {
  std::mt19937 random(test_seed());
  for (int round = 0; round < test_rounds(300); ++round) {
    const bool in_place = random() % 2 == 0;
    constexpr std::ptrdiff_t kShift = 96;
    ScheduleBuilder builder({}, in_place, kShift);
    const Piece scratch = builder.scratch(200);
    const auto place = [&](Piece piece) -> Piece {
      if (in_place && piece.buffer == Buffer::kInput) return {Buffer::kOutput, piece.offset + kShift};
      return piece;
    };
    const auto somewhere = [&](bool written) {
      Piece piece = scratch + random() % 160;
      if (random() % 2 == 0) piece = {Buffer::kOutput, static_cast<std::ptrdiff_t>(random() % 160)};
      if (!written && random() % 3 == 0)
        piece = {Buffer::kInput, static_cast<std::ptrdiff_t>(random() % 160)};
      return piece;
    };
    std::vector<std::vector<Touch>> touches;
    for (int i = 0; i < 30; ++i) {
      const std::size_t bytes = 1 + random() % 40;
      const Piece target = somewhere(true), left = somewhere(false), right = somewhere(false);
      switch (random() % 5) {
        case 0:
          builder.send(1, left, bytes);
          touches.push_back({{place(left), bytes, false}});
          break;
        case 1:
          builder.receive(2, target, bytes);
          touches.push_back({{place(target), bytes, true}});
          break;
        case 2:
          builder.combine(target, left, right, bytes);
          touches.push_back(
              {{place(left), bytes, false}, {place(right), bytes, false}, {place(target), bytes, true}});
          break;
        case 3:
          if (place(left).buffer == target.buffer && place(left).offset == target.offset) break;
          builder.copy(target, left, bytes);
          touches.push_back({{place(left), bytes, false}, {place(target), bytes, true}});
          break;
        default:
          builder.divide(target, bytes);
          touches.push_back({{place(target), bytes, true}});
      }
    }
    const Schedule schedule = builder.build("test");
    ASSERT_EQ(schedule.steps.size(), touches.size());
    const auto before = closure_of(schedule);
    for (std::uint32_t to = 0; to < touches.size(); ++to) {
      const auto waits = waits_of(schedule, to);
      ASSERT_EQ(schedule.dependencies[to], waits.size());
      for (const std::uint32_t from : waits)
        ASSERT_TRUE(from < to && conflict(touches[from], touches[to])) << from << " before " << to;
      for (std::uint32_t from = 0; from < to; ++from)
        ASSERT_TRUE(before[from][to] || !conflict(touches[from], touches[to])) << from << " before " << to;
    }
  }
}

TEST(Schedule, AFenceComesAfterAllBeforeItAndBeforeAllAfterIt) {
  ScheduleBuilder builder({}, false);
  const Piece a = builder.scratch(8), b = builder.scratch(8);
  builder.receive(1, a, 8);                 // 0
  builder.receive(1, b, 8);                 // 1
  builder.fence();                          // 2
  builder.send(1, {Buffer::kInput, 0}, 8);  // 3
  builder.fence();                          // 4
  builder.send(1, {Buffer::kInput, 0}, 8);  // 5
  const Schedule schedule = builder.build("test");
  const auto before = closure_of(schedule);
  for (std::uint32_t from = 0; from < 6; ++from)
    for (std::uint32_t to = 0; to < 6; ++to)
      EXPECT_EQ(before[from][to], from < to && !(from == 0 && to == 1)) << from << " before " << to;
}

TEST(Schedule, HasNoStepsOfNoBytesAndNoCopiesOntoThemselves) {
  ScheduleBuilder builder({}, true, 16);
  const Piece input{Buffer::kInput, 0}, output{Buffer::kOutput, 16}, scratch = builder.scratch(64);
  builder.send(1, input, 0);
  builder.receive(1, scratch, 0);
  builder.combine(scratch, scratch, input, 0);
  builder.divide(scratch, 0);
  builder.copy(scratch, scratch, 8);
  builder.copy(output, input, 8);  // in place the input lies there
  EXPECT_TRUE(builder.build("test").steps.empty());
}

TEST(Schedule, InPlaceTheInputIsAPartOfTheOutput) {
  ScheduleBuilder builder({}, true, -32);
  builder.send(1, {Buffer::kInput, 8}, 8);
  builder.receive(1, {Buffer::kOutput, -24}, 8);  // over what was sent
  builder.receive(1, {Buffer::kOutput, 8}, 8);    // which input 8 would be without the shift
  const Schedule schedule = builder.build("test");
  EXPECT_EQ(schedule.steps[0].left.buffer, Buffer::kOutput);
  EXPECT_EQ(schedule.steps[0].left.offset, -24);
  EXPECT_EQ(waits_of(schedule, 1), std::vector<std::uint32_t>{0});
  EXPECT_EQ(schedule.dependencies[2], 0u);
}

TEST(Schedule, ListsEachPeersMessagesInTheirOrder) {
  ScheduleBuilder builder({}, false);
  const Piece scratch = builder.scratch(64);
  builder.send(3, scratch, 8);          // 0
  builder.receive(1, scratch + 8, 8);   // 1
  builder.receive(3, scratch + 16, 8);  // 2
  builder.divide(scratch, 8);           // 3
  builder.send(3, scratch, 8);          // 4
  const Schedule schedule = builder.build("named");
  EXPECT_EQ(schedule.algorithm, "named");
  ASSERT_EQ(schedule.flows.size(), 2u);
  EXPECT_EQ(schedule.flows[0].peer, 1);
  EXPECT_EQ(schedule.flows[0].receives, std::vector<std::uint32_t>{1});
  EXPECT_TRUE(schedule.flows[0].sends.empty());
  EXPECT_EQ(schedule.flows[1].peer, 3);
  EXPECT_EQ(schedule.flows[1].sends, (std::vector<std::uint32_t>{0, 4}));
  EXPECT_EQ(schedule.flows[1].receives, std::vector<std::uint32_t>{2});
}

TEST(ScratchRing, GivesPlacesInTurnThatShareNoCacheLine) {
  ScheduleBuilder builder({}, false);
  const Piece before = builder.scratch(1);
  ScratchRing ring(builder, 70, 3);
  std::vector<std::ptrdiff_t> offsets;
  for (int i = 0; i < 6; ++i) offsets.push_back(ring.next().offset);
  EXPECT_EQ(before.offset, 0);
  EXPECT_EQ(offsets, (std::vector<std::ptrdiff_t>{64, 192, 320, 64, 192, 320}));
  EXPECT_EQ(builder.build("test").scratch_bytes, 64u + 3 * 128);
}

TEST(ScratchRing, OfNoSlotsHasOne) {
  ScheduleBuilder builder({}, false);
  ScratchRing ring(builder, 64, 0);
  EXPECT_EQ(ring.next().offset, ring.next().offset);
}

// Whatever reads the input of a premultiplied problem gets products: where the step itself cannot multiply,
// from scratch.
TEST(Schedule, MultipliesEveryReadOfTheInputOnce) {
  Problem problem;
  problem.premultiplied = true;
  for (const bool in_place : {false, true}) {
    ScheduleBuilder builder(problem, in_place);
    const Piece input{Buffer::kInput, 0}, output{Buffer::kOutput, 0}, arrived = builder.scratch(8);
    builder.send(1, input, 8);                    // 0 multiplies into scratch, 1 sends that
    builder.combine(output, input, arrived, 8);   // 2
    builder.combine(output, arrived, output, 8);  // 3 has nothing to multiply, nor have the next two
    builder.send(1, output, 8);                   // 4
    builder.copy(output, output, 8);
    builder.copy(output + 8, input + 8, 8);  // 5, in place too
    const Schedule schedule = builder.build("test");
    ASSERT_EQ(schedule.steps.size(), 6U);
    const auto of = [&](std::size_t step) { return schedule.steps[step].premultiplied; };
    EXPECT_EQ(schedule.steps[0].kind, StepKind::kCopy);
    EXPECT_EQ(schedule.steps[0].target.buffer, Buffer::kScratch);
    EXPECT_EQ(of(0), Premultiplied::kLeft);
    EXPECT_EQ(schedule.steps[1].left.buffer, Buffer::kScratch);
    EXPECT_EQ(waits_of(schedule, 1), (std::vector<std::uint32_t>{0}));
    EXPECT_EQ(of(2), Premultiplied::kLeft);
    EXPECT_EQ(of(3), Premultiplied::kNone);
    EXPECT_EQ(schedule.steps[4].left.buffer, Buffer::kOutput);
    EXPECT_EQ(schedule.steps[5].kind, StepKind::kCopy);
    EXPECT_EQ(of(5), Premultiplied::kLeft);
  }
}

}  // namespace
}  // namespace tombolo::collectives
