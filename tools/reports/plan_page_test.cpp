// Pages of plans at the edges; plan_report_test.cpp and tools/commands/plan_test.cpp have ordinary ones.
#include "tools/reports/plan_page.h"

#include <gtest/gtest.h>

#include "planner/testing/testing.h"
#include "tools/cli/testing.h"

namespace tombolo::tools {
namespace {

using planner::testing::make_cluster;
using planner::testing::simple_plan;
using planner::testing::small_model;

std::size_t count_in(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

class PlanPageOfTwo : public ::testing::Test {
 protected:
  std::string page(const std::string& comparison = "") const {
    return plan_page(plan_, cluster_, planner::simulate(plan_, cluster_), {.comparison = comparison});
  }
  topology::ClusterFile cluster_ = make_cluster({{"a", 1}, {"b", 1}}, 1.25e7, 1e-4);
  planner::Plan plan_ = simple_plan(small_model(4), {"a0", "b0"}, 2, 1, 4);
};

TEST_F(PlanPageOfTwo, APlanWithoutAnyMemoryHasFigures) {
  plan_.prediction.memory.resize(2);
  const std::string text = page();
  EXPECT_MENTIONS(text, "Memory per rank");
  EXPECT_MENTIONS(text, ">0 B<");
  const std::string memory = text.substr(text.find("Memory per rank"));
  EXPECT_MENTIONS(memory, "In figures") << "for those who do not see the drawing";
  for (const char* number : {"nan", "\"inf", "\"-inf", ">inf"})
    EXPECT_EQ(text.find(number), std::string::npos) << number;
}

TEST_F(PlanPageOfTwo, MemoryIsDrawnWherePredictedOnly) {
  EXPECT_EQ(page().find("Memory per rank"), std::string::npos);
}

TEST_F(PlanPageOfTwo, MarksADevicesSizeWhereItsBarIsNotTooShortBesideIt) {
  plan_.prediction.memory.assign(2, {.parameters = 1 << 20, .total = 1 << 20});
  for (auto& host : cluster_.hosts) host.devices[0].memory_bytes = 2 << 20;
  const std::string near = page();
  EXPECT_MENTIONS(near, "1 MiB of 2 MiB");
  for (auto& host : cluster_.hosts) host.devices[0].memory_bytes = 1 << 30;
  const std::string far = page();
  EXPECT_MENTIONS(far, "1 MiB of 1 GiB");
  // One line for each rank at its device's size.
  EXPECT_EQ(count_in(near, "class=\"axis\""), count_in(far, "class=\"axis\"") + 2);
}

TEST_F(PlanPageOfTwo, SaysThatNothingIsSentOnOneHost) {
  cluster_ = make_cluster({{"a", 1, 2}}, 1.25e7, 1e-4);
  plan_ = simple_plan(small_model(4), {"a0", "a0"}, 2, 1, 4);
  EXPECT_MENTIONS(page(), "Nothing is sent between hosts.");
}

TEST_F(PlanPageOfTwo, EscapesWhatAFileNames) {
  plan_.job.model.name = "<mine>";
  plan_.strategy = "a & b";
  plan_.notes = {"why <not>"};
  const std::string text = page();
  EXPECT_MENTIONS(text, "Plan for &lt;mine&gt;");
  EXPECT_MENTIONS(text, "strategy a &amp; b");
  EXPECT_MENTIONS(text, "<li>why &lt;not&gt;</li>");
  plan_.job.model.name.clear();
  EXPECT_MENTIONS(page(), "Plan for a model");
}

TEST(PlanPageOfMany, ShowsTheFirstReplicaOnlyAndSaysSo) {
  const auto cluster = make_cluster({{"a", 2, 33}}, 1.25e7, 1e-4);
  std::vector<std::string> hosts(33, "a0");
  hosts.insert(hosts.end(), 33, "a1");
  planner::Plan plan = simple_plan(small_model(4), hosts, 2, 33, 1);
  plan.prediction.memory.assign(66, {.parameters = 100, .total = 100});
  const std::string text = plan_page(plan, cluster, planner::simulate(plan, cluster), {});
  EXPECT_MENTIONS(text, "<td>0-32</td>");
  EXPECT_MENTIONS(text, "Of replicas that are alike only the first is shown.");
  EXPECT_EQ(count_in(text, ", replica 0<"), 2U) << "its two stages";
  EXPECT_EQ(count_in(text, ", replica 1<"), 0U);
}

TEST(PlanPageOfMany, StaysSmallWithManyMicroBatches) {
  const auto cluster = make_cluster({{"a", 1, 1}, {"b", 1, 1}}, 1.25e7, 1e-5);
  planner::Plan plan = simple_plan(small_model(4), {"a0", "b0"}, 2, 1, 3000);
  const auto simulation = planner::simulate(plan, cluster);
  ASSERT_GT(simulation.spans.size(), 12000U);
  const std::string text = plan_page(plan, cluster, simulation, {});
  EXPECT_LT(text.size(), 400'000U);
  EXPECT_GT(count_in(text, "class=\"t-forward\""), 20U) << "both kinds show";
  EXPECT_GT(count_in(text, "class=\"t-backward\""), 20U);
  EXPECT_MENTIONS(text, "too many micro-batches to draw each");
}

}  // namespace
}  // namespace tombolo::tools
