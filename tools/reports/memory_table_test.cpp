#include "tools/reports/memory_table.h"

#include <gtest/gtest.h>

#include "planner/testing/testing.h"
#include "tools/cli/testing.h"

namespace tombolo::tools {
namespace {

using planner::testing::make_cluster;
using planner::testing::simple_plan;
using planner::testing::small_model;

std::size_t rows_in(const std::string& table) {
  std::size_t rows = 0;
  for (auto at = table.find("<tr>"); at != std::string::npos; at = table.find("<tr>", at + 1)) ++rows;
  return rows;
}

TEST(MemoryTable, RanksThatHoldTheSameShareARow) {
  auto cluster = make_cluster({{"a", 2, 4}}, 1.25e7, 1e-4);
  for (auto& host : cluster.hosts)
    for (auto& device : host.devices) device.memory_bytes = 16 << 20;
  planner::Plan plan = simple_plan(small_model(4), {"a0", "a0", "a0", "a0", "a1", "a1", "a1", "a1"}, 2, 4, 1);
  plan.prediction.memory.assign(8, {.parameters = 1 << 20,
                                    .gradients = 2 << 20,
                                    .optimizer = 3 << 20,
                                    .activations = 4 << 20,
                                    .buffers = 5 << 20,
                                    .total = 15 << 20});
  std::string table = memory_table(plan, cluster);
  EXPECT_EQ(rows_in(table), 2U) << "the head and one row: " << table;
  for (const char* part : {">0-1<", ">0-3<", ">1 MiB<", ">2 MiB<", ">3 MiB<", ">4 MiB<", ">5 MiB<",
                           ">15 MiB<", ">94 % of 16 MiB<"})
    EXPECT_MENTIONS(table, part);
  for (std::size_t rank = 0; rank < 8; ++rank)
    if (plan.ranks[rank].stage == 1) plan.prediction.memory[rank].activations = 0;
  cluster.hosts[0].devices[0].memory_bytes = 0;
  table = memory_table(plan, cluster);
  EXPECT_EQ(rows_in(table), 4U) << table;
  EXPECT_MENTIONS(table, ">-<");
}

TEST(MemoryTable, ShowsTheFullestOfManyKinds) {
  const auto cluster = make_cluster({{"a", 1, 70}}, 1.25e7, 1e-4);
  planner::Plan plan = simple_plan(small_model(4), std::vector<std::string>(70, "a0"), 1, 70, 1);
  plan.prediction.memory.resize(70);
  for (std::size_t rank = 0; rank < 70; ++rank) plan.prediction.memory[rank].total = (rank + 1) << 20;
  const std::string table = memory_table(plan, cluster);
  EXPECT_EQ(rows_in(table), 65U);
  EXPECT_MENTIONS(table, "The 64 fullest of 70 kinds.");
  EXPECT_EQ(table.find(">6 MiB<"), std::string::npos);
  EXPECT_MENTIONS(table, ">7 MiB<");
}

}  // namespace
}  // namespace tombolo::tools
