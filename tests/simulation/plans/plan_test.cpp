#include "tests/simulation/plans/plan.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <set>

#include "base/error.h"
#include "base/sanitizer.h"
#include "tests/simulation/plans/collective_plan.h"
#include "tests/simulation/plans/plugin_plan.h"

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

// Its order of sending names messages by their numbers, which change.
TEST(PluginPlan, AMessageThatIsLeftOutLeavesItsGroupAndItsPlaceInTheOrder) {
  CommPlan comm;
  comm.messages = {10, 11, 12, 13};
  comm.tags = {0, 1, 2, 3};
  comm.pauses.assign(4, {});
  comm.groups = {1, 2, 1};
  comm.send_order = {3, 1, 0, 2};
  comm.leave_out(1);
  EXPECT_EQ(comm.messages, (std::vector<std::size_t>{10, 12, 13}));
  EXPECT_EQ(comm.tags, (std::vector<int>{0, 2, 3}));
  EXPECT_EQ(comm.groups, (std::vector<unsigned>{1, 1, 1}));
  EXPECT_EQ(comm.send_order, (std::vector<std::size_t>{2, 0, 1}));
  comm.leave_out(0);
  EXPECT_EQ(comm.groups, (std::vector<unsigned>{1, 1}));
  EXPECT_EQ(comm.send_order, (std::vector<std::size_t>{1, 0}));
}

TEST(CollectivePlan, WhatALeftOutRankDidIsRankZeros) {
  CollectivePlan plan;
  plan.clusters = {5, 6, 7};
  Fault kill;
  kill.kind = Fault::Kind::kKill;
  kill.host = 2;
  plan.network.faults = {kill};
  plan.abort = CollectivePlan::Abort{1, {}};
  CollectiveStep step;
  step.root = 2;
  step.transfers = {{0, 1, 10}, {2, 0, 20}};
  plan.steps = {step};
  plan.leave_out_rank(1);
  EXPECT_EQ(plan.clusters, (std::vector<unsigned>{5, 7}));
  EXPECT_EQ(plan.network.faults[0].host, 1u);
  EXPECT_EQ(plan.abort->rank, 0u);
  EXPECT_EQ(plan.steps[0].root, 1u);
  EXPECT_EQ(plan.steps[0].transfers, (std::vector<Transfer>{{0, 0, 10}, {1, 0, 20}}));
}

TEST(PluginPlan, ATextThatCannotBeCarriedOutIsRefused) {
  const std::string network = R"({"network":{"faults":[]},"comms":[)";
  EXPECT_EQ(decode_plugin_plan(network + R"({"messages":[{"size":5}]}]})", "a test").comms[0].messages,
            (std::vector<std::size_t>{5}));
  for (const char* comm :
       {R"({"messages":[{"size":5}],"groups":[2]}]})", R"({"messages":[{"size":5}],"send_order":[1]}]})",
        R"({"messages":[{"size":5},{"size":6}],"send_order":[1,0]}]})",
        R"({"messages":[{"size":5,"tag":1},{"size":5}]}]})",
        R"({"messages":[{"size":5}],"ending":"never"}]})", R"({"messages":[{"size":5}],"windows":[0,1]}]})"})
    EXPECT_THROW(decode_plugin_plan(network + comm, "a test"), Error) << comm;
  EXPECT_THROW(decode_plugin_plan(R"({"network":{"faults":[],"messages":[]},"comms":[]})", "a test"), Error);
}

TEST(CollectivePlan, ATextThatCannotBeCarriedOutIsRefused) {
  const std::string ranks = R"({"network":{"faults":[]},"clusters":[0,0],)";
  EXPECT_EQ(decode_collective_plan(ranks + R"("steps":[{"collective":"all_reduce","count":5}]})", "a test")
                .steps[0]
                .count,
            5u);
  for (const char* rest : {R"("steps":[{"collective":"some_reduce"}]})", R"("steps":[{"type":"half"}]})",
                           R"("steps":[{"type":"float","op":"avg"}]})", R"("steps":[{"in_half":true}]})",
                           R"("steps":[{"root":2}]})", R"("steps":[{"transfers":[{"from":0,"to":2}]}]})",
                           R"("algorithm":"none","steps":[]})", R"("abort":{"rank":2},"steps":[]})"})
    EXPECT_THROW(decode_collective_plan(ranks + rest, "a test"), Error) << rest;
  EXPECT_THROW(decode_collective_plan(R"({"network":{"faults":[]},"clusters":[0],"steps":[]})", "a test"),
               Error);
}

}  // namespace
}  // namespace tombolo::simulation
