#include "tests/simulation/shrink.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/sanitizer.h"
#include "tests/simulation/plans/draw.h"
#include "tests/simulation/plans/reduction.h"

namespace tombolo::simulation {
namespace {

struct Kind {
  Under under;
  Over over;
};
class Plans : public testing::TestWithParam<Kind> {};
INSTANTIATE_TEST_SUITE_P(
    Under, Plans,
    testing::Values(Kind{Under::kConnection, Over::kTcp}, Kind{Under::kConnection, Over::kShm},
                    Kind{Under::kPlugin, Over::kTcp}, Kind{Under::kPlugin, Over::kShm},
                    Kind{Under::kCollectives, Over::kTcp}, Kind{Under::kCollectives, Over::kShm}),
    [](const auto& one) { return std::string(name_of(one.param.under)) + "_" + name_of(one.param.over); });

TEST_P(Plans, AreGivenBackByTheirText) {
  for (std::uint64_t seed = 0; seed < (kSanitized ? 200 : 1000); ++seed) {
    const AnyPlan plan = draw_plan(GetParam().under, seed, GetParam().over);
    ASSERT_TRUE(decode_plan(GetParam().under, encode(plan), "a test") == plan) << encode(plan);
  }
}

TEST_P(Plans, TakeNoTextOfAnother) {
  for (const Under other : {Under::kConnection, Under::kPlugin, Under::kCollectives}) {
    if (other == GetParam().under) continue;
    const std::string text = encode(draw_plan(other, 1, GetParam().over));
    EXPECT_THROW(decode_plan(GetParam().under, text, "a test"), Error) << text;
  }
}

/// Takes one reduction of the plan's kind, at places that are drawn; false where it changes nothing.
bool take_any(AnyPlan& plan, Draw& draw) {
  return std::visit(
      [&]<typename P>(P& one) {
        const Reductions<P> all = all_reductions<P>();
        const Reduction<P>& chosen = all[draw.below(all.size())];
        const std::size_t places = chosen.places(one);
        if (places == 0) return false;
        const std::size_t begin = draw.below(places);
        return chosen.take(one, begin, begin + 1 + draw.below(places - begin));
      },
      plan);
}

// Otherwise a plan that is made shorter could go wrong for that alone.
TEST_P(Plans, CanBeCarriedOutHoweverTheyAreReduced) {
  std::size_t taken = 0;
  for (std::uint64_t seed = 1; seed <= (kSanitized ? 10 : 60); ++seed) {
    Draw draw(seed);
    AnyPlan plan = draw_plan(GetParam().under, seed, GetParam().over);
    for (int i = 0; i < 60; ++i) {
      const AnyPlan before = plan;
      if (!take_any(plan, draw)) continue;
      ++taken;
      ASSERT_FALSE(plan == before) << encode(plan);
      ASSERT_TRUE(decode_plan(GetParam().under, encode(plan), "a test") == plan) << encode(plan);
      if (!draw.once_in(4)) continue;
      ASSERT_EQ(run_plan(plan).wrong, "") << encode(plan);
    }
  }
  EXPECT_GT(taken, kSanitized ? 100U : 600U);
}

/// The first plan from a seed on that goes wrong with the defect.
AnyPlan wrong_plan(Under under, const RunOptions& options, std::uint64_t seed = 1) {
  while (run_plan(draw_plan(under, seed), options).ok()) ++seed;
  return draw_plan(under, seed);
}

TEST(Shrink, LeavesOutWhatADefectDoesNotNeed) {
  RunOptions options;
  options.defect = Defect::kWrongSize;
  const Shrunk shrunk = shrink(wrong_plan(Under::kConnection, options), options);
  const Plan plan = std::get<Plan>(shrunk.plan);
  EXPECT_TRUE(shrunk.complete);
  EXPECT_FALSE(run_plan(plan, options).ok());
  EXPECT_TRUE(plan.faults.empty()) << describe(plan);
  EXPECT_EQ(plan.messages.size(), 1u) << describe(plan);
}

/// What the line that is printed for a plan gives goes wrong in the same way.
void expect_its_line_repeats(Under under, const AnyPlan& plan, const RunOptions& options) {
  const Verdict one = run_plan(plan, options),
                again = run_plan(decode_plan(under, encode(plan), "a test"), options);
  EXPECT_FALSE(one.ok());
  EXPECT_EQ(one.wrong, again.wrong);
  EXPECT_EQ(one.course, again.course);
}

TEST(Shrink, LeavesOutWhatADefectBeneathThePluginDoesNotNeed) {
  if (kSanitized) GTEST_SKIP() << "runs that do not end lose what their actors hold, and take minutes";
  RunOptions options;
  options.defect = Defect::kLostByte;
  const Shrunk shrunk = shrink(wrong_plan(Under::kPlugin, options, 3), options);
  const auto& plan = std::get<PluginPlan>(shrunk.plan);
  EXPECT_TRUE(shrunk.complete);
  expect_its_line_repeats(Under::kPlugin, plan, options);
  EXPECT_TRUE(plan.network.faults.empty()) << describe(plan);
  EXPECT_FALSE(plan.network.tls) << describe(plan);
  ASSERT_EQ(plan.comms.size(), 1u) << describe(plan);
  EXPECT_EQ(plan.comms[0].messages.size(), 1u) << describe(plan);
  EXPECT_TRUE(plan.comms[0].tags.empty() && plan.comms[0].groups.empty()) << describe(plan);
}

TEST(Shrink, LeavesOutWhatADefectBeneathTheCollectivesDoesNotNeed) {
  if (kSanitized) GTEST_SKIP() << "runs that do not end lose what their actors hold, and take minutes";
  RunOptions options;
  options.defect = Defect::kLostByte;
  const Shrunk shrunk = shrink(wrong_plan(Under::kCollectives, options, 3), options);
  const auto& plan = std::get<CollectivePlan>(shrunk.plan);
  EXPECT_TRUE(shrunk.complete);
  expect_its_line_repeats(Under::kCollectives, plan, options);
  EXPECT_TRUE(plan.network.faults.empty()) << describe(plan);
  EXPECT_EQ(plan.ranks(), CollectivePlan::kFewestRanks) << describe(plan);
  ASSERT_EQ(plan.steps.size(), 1u) << describe(plan);
  EXPECT_FALSE(plan.steps[0].started) << describe(plan);
  EXPECT_LE(plan.steps[0].transfers.size(), 1u) << describe(plan);
}

TEST(Shrink, LeavesAPlanAloneThatGoesWell) {
  for (const Under under : {Under::kConnection, Under::kPlugin, Under::kCollectives})
    EXPECT_TRUE(shrink(draw_plan(under, 1)).plan == draw_plan(under, 1)) << name_of(under);
}

// Its owner asked again and again: each attempt took four million turns, and all together hours.
TEST(Shrink, EndsWhereARequestOfAFailedConnectionIsNeverDone) {
  RunOptions options;
  options.defect = Defect::kNeverDone;
  Plan plan = draw_plan(13, Over::kShm);
  plan.faults.clear();
  plan.messages = {{0, 9206, {}}};
  const Verdict verdict = run_plan(plan, options);
  EXPECT_NE(verdict.wrong.find("the peer closed the connection"), std::string::npos) << verdict.wrong;
  EXPECT_LT(verdict.turns, 200'000u);
  EXPECT_FALSE(std::get<Plan>(shrink(plan, options).plan).messages.empty());
}

TEST(Shrink, BeginsNoAttemptOnceItsTurnsAreSpent) {
  RunOptions options;
  options.defect = Defect::kWrongSize;
  const AnyPlan plan = wrong_plan(Under::kConnection, options);
  const std::uint64_t turns = run_plan(plan, options).turns;
  const Shrunk none = shrink(plan, options, turns), some = shrink(plan, options, 2 * turns);
  EXPECT_TRUE(none.plan == plan);
  EXPECT_FALSE(none.complete);
  EXPECT_FALSE(some.complete);
  EXPECT_FALSE(run_plan(some.plan, options).ok());
}

}  // namespace
}  // namespace tombolo::simulation
