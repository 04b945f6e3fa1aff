#include "planner/model/framework.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "planner/testing/testing.h"

namespace tombolo::planner {
namespace {

constexpr Framework kAll[] = {Framework::kTombolo,    Framework::kMegatron, Framework::kDeepSpeed,
                              Framework::kTorchTitan, Framework::kNeMo,     Framework::kAny};

TEST(FrameworkNames, ComeBackAndNoneIsCalledAny) {
  for (const Framework one : kAll) {
    const auto again = framework_from_name(framework_name(one));
    if (one == Framework::kAny) {
      EXPECT_FALSE(again);
    } else {
      EXPECT_EQ(again, one);
    }
  }
}

TEST(FrameworkTraits, AnyCanDoWhatOneOfThemCan) {
  const auto has = [](auto range, auto value) { return std::ranges::find(range, value) != range.end(); };
  const FrameworkTraits& any = traits(Framework::kAny);
  for (const Framework framework : kAll) {
    const FrameworkTraits& one = traits(framework);
    EXPECT_EQ(one.framework, framework);
    for (const Schedule schedule : one.schedules) EXPECT_TRUE(has(any.schedules, schedule)) << one.title;
    for (const Recompute recompute : one.recomputations)
      EXPECT_TRUE(has(any.recomputations, recompute)) << one.title;
    for (const Sharding sharding : one.shardings) EXPECT_TRUE(has(any.shardings, sharding)) << one.title;
    EXPECT_TRUE(has(one.shardings, Sharding::kNone)) << one.title;
    EXPECT_TRUE(has(one.schedules, Schedule::kOneForwardOneBackward)) << one.title;
  }
}

TEST(FrameworkFor, TheBundledTrainerTakesGptTwosShapeAlone) {
  Model gpt = testing::small_model(4);
  EXPECT_EQ(framework_for(gpt), Framework::kTombolo);
  Model llama = gpt;
  llama.gated = true;
  llama.learned_positions = llama.biases = llama.tied_embeddings = false;
  EXPECT_EQ(framework_for(llama), Framework::kMegatron);
  Model grouped = gpt;
  grouped.heads = 4;
  grouped.kv_heads = 2;
  EXPECT_EQ(framework_for(grouped), Framework::kMegatron);
  Model normed = gpt;
  normed.query_key_norms = true;
  EXPECT_EQ(framework_for(normed), Framework::kMegatron);
  Model wide = gpt;
  wide.head_width = 2 * gpt.head();
  EXPECT_EQ(framework_for(wide), Framework::kMegatron);
}

}  // namespace
}  // namespace tombolo::planner
