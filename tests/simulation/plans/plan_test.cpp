#include "tests/simulation/plans/plan.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <set>

#include "base/error.h"
#include "base/sanitizer.h"

namespace tombolo::simulation {
namespace {

constexpr std::uint64_t kSeeds = kSanitized ? 1000 : 3000;

TEST(Plan, ASeedAlwaysGivesTheSamePlan) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) EXPECT_EQ(draw_plan(seed), draw_plan(seed)) << seed;
  EXPECT_NE(draw_plan(1), draw_plan(2));
}

TEST(Plan, ItsTextGivesItBack) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const Plan plan = draw_plan(seed, seed % 2 == 0 ? Over::kTcp : Over::kShm);
    ASSERT_EQ(decode_plan(encode(plan), "a test"), plan) << encode(plan);
  }
}

TEST(Plan, ATextNeedNotSayWhatIsAsUsual) {
  Plan plan;
  plan.seed = 7;
  plan.messages = {{1, 20, {}}};
  EXPECT_EQ(decode_plan(R"({"seed":7,"messages":[{"from":1,"size":20}],"faults":[]})", "a test"), plan);
}

TEST(Plan, ATextThatIsNoPlanIsRefused) {
  for (const char* text : {"", "{}", "[]", R"({"seed":1,"faults":[{"kind":"earthquake"}]})"})
    EXPECT_THROW(decode_plan(text, "a test"), Error) << text;
}

TEST(Plan, AllFaultsAreDrawnWhileConnectionsAreMadeRunAndClose) {
  std::set<std::pair<Fault::Kind, Fault::From>> drawn;
  std::set<int> errors;
  std::set<Call> calls;
  bool at_once = false;
  bool at_step = false;
  for (std::uint64_t seed = 0; seed < 2 * kSeeds; ++seed) {
    const Plan plan = draw_plan(seed, seed % 2 == 0 ? Over::kTcp : Over::kShm);
    for (std::size_t i = 0; i < plan.faults.size(); ++i) {
      const Fault& fault = plan.faults[i];
      drawn.insert({fault.kind, fault.from});
      if (fault.kind == Fault::Kind::kErrno) errors.insert(fault.error);
      if (fault.kind == Fault::Kind::kErrno) calls.insert(fault.call);
      at_step = at_step || fault.step != 0;
      at_once = at_once || (i != 0 && plan.faults[i - 1].at == fault.at);
    }
  }
  EXPECT_EQ(drawn.size(), 2 * Fault::kKinds);
  for (const int error : {ENOBUFS, EMFILE, ENOMEM, ECONNABORTED, ETIMEDOUT})
    EXPECT_TRUE(errors.contains(error));
  EXPECT_EQ(calls.size(), kCalls.size());
  EXPECT_TRUE(at_once);
  EXPECT_TRUE(at_step);
}

TEST(Plan, AFairShareUsesTls) {
  std::uint64_t tls = 0;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) tls += draw_plan(seed).tls;
  EXPECT_GT(tls, kSeeds / 8);
}

TEST(Plan, WhatFaultsTakeAwayTogetherStaysBelowThePatienceOfAConnection) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    Duration taken{};
    for (const Fault& fault : draw_plan(seed, seed % 2 == 0 ? Over::kTcp : Over::kShm).faults)
      taken += fault.lasts;
    ASSERT_LE(taken, kMostTaken) << seed;
  }
}

TEST(Plan, PeopleCanReadIt) {
  Plan plan = draw_plan(1);
  plan.faults = {{Fault::Kind::kErrno}};
  plan.faults[0].call = Call::kAccept;
  plan.faults[0].error = EMFILE;
  plan.faults[0].times = 2;
  EXPECT_NE(describe(plan).find("errno 24 of accept 2 time(s) on host 0"), std::string::npos)
      << describe(plan);
}

}  // namespace
}  // namespace tombolo::simulation
