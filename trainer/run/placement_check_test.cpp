#include "trainer/run/placement_check.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tombolo::trainer {
namespace {

using collectives::Member;
using collectives::Routing;

planner::Plan plan_on(const std::vector<std::string>& hosts, const std::string& routing = "per-peer") {
  planner::Plan plan;
  plan.routing = routing;
  for (const std::string& host : hosts) plan.ranks.push_back({host, 0, 0, 0});
  return plan;
}

std::vector<Member> members_on(const std::vector<std::string>& hosts) {
  std::vector<Member> members;
  for (const std::string& host : hosts) members.push_back({static_cast<int>(members.size()), host, ""});
  return members;
}

std::string refusal_of(const planner::Plan& plan, const std::vector<Member>& members, Routing routing) {
  try {
    return "accepted " + check_placement(plan, "p.json", members, routing);
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::kInvalidUsage);
    return error.what();
  }
}

void expect_words(const std::string& text, std::initializer_list<const char*> words) {
  for (const char* word : words) EXPECT_NE(text.find(word), std::string::npos) << text << " lacks " << word;
}

TEST(PlacementCheck, IsSilentWhereAllIsAsPlanned) {
  EXPECT_EQ(check_placement(plan_on({"a0", "b0"}), "p.json", members_on({"a0", "b0"}), Routing::kPerPeer),
            "");
  EXPECT_EQ(check_placement(plan_on({"a0", "a0"}), "p.json", members_on({"a0", "a0"}), Routing::kPerPeer),
            "");
  EXPECT_EQ(
      check_placement(plan_on({"a0", "b0"}, "shared"), "p.json", members_on({"a0", "b0"}), Routing::kShared),
      "");
}

TEST(PlacementCheck, NamesTheFirstMisplacedRankBothHostsAndTheOrder) {
  expect_words(
      refusal_of(plan_on({"a0", "a1", "b0", "b1"}), members_on({"a0", "b0", "a1", "b1"}), Routing::kPerPeer),
      {"p.json", "rank 1", "'a1'", "runs on 'b0'", "2 of 4", "--order a0,a1,b0,b1"});
}

TEST(PlacementCheck, AHostThatThePlanDoesNotNameIsAQuestionOfItsName) {
  expect_words(refusal_of(plan_on({"a0", "b0"}), members_on({"a0", "b0.example"}), Routing::kPerPeer),
               {"rank 1", "'b0'", "'b0.example'", "TOMBOLO_HOST"});
}

TEST(PlacementCheck, RanksOfOneNamedHostAreMisplacedRatherThanAtHome) {
  expect_words(refusal_of(plan_on({"a0", "b0"}), members_on({"a0", "a0"}), Routing::kPerPeer),
               {"rank 1", "'b0'", "runs on 'a0'"});
}

TEST(PlacementCheck, AnotherRoutingIsRefused) {
  expect_words(refusal_of(plan_on({"a0", "b0"}, "shared"), members_on({"a0", "b0"}), Routing::kPerPeer),
               {"'shared'", "'per-peer'", "TOMBOLO_ROUTING=shared", "--routing shared"});
  expect_words(refusal_of(plan_on({"a0", "b0"}), members_on({"a0", "b0"}), Routing::kShared),
               {"TOMBOLO_ROUTING=per-peer"});
}

TEST(PlacementCheck, OneMachineThatThePlanDoesNotNameOnlyWarns) {
  const std::string warning = check_placement(plan_on({"a0", "b0", "a0", "b0"}, "shared"), "p.json",
                                              members_on({"pc", "pc", "pc", "pc"}), Routing::kPerPeer);
  expect_words(warning, {"p.json", "a0, b0,", "all 4 ranks run on 'pc'"});
}

}  // namespace
}  // namespace tombolo::trainer
