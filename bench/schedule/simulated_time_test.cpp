// Schedules in simulated time: small ones whose time is known, and the engine's among many ranks.
#include "bench/schedule/simulated_time.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "collectives/schedule/algorithm.h"

namespace tombolo::bench {
namespace {

using namespace collectives;

/// Nothing takes time but bytes on NICs and uplinks: 1 GB/s and 0.5 GB/s.
Network network_of(int clusters, int hosts, int ranks) {
  Network made;
  made.clusters = clusters;
  made.hosts = hosts;
  made.ranks = ranks;
  made.nic_rate = 1e9;
  made.uplink_rate = 0.5e9;
  made.memory_rate = 1e15;
  made.message_time = made.latency_inside = made.latency_across = 0;
  return made;
}

Schedule of(void (*write)(ScheduleBuilder&)) {
  ScheduleBuilder builder({}, false);
  write(builder);
  return builder.build("test");
}

constexpr std::size_t kBytes = 1'000'000;
constexpr Piece kInput{Buffer::kInput, 0}, kOutput{Buffer::kOutput, 0};

TEST(SimulatedTime, AMessagePassesOneServerAfterTheOther) {
  const auto sends = [](ScheduleBuilder& builder) { builder.send(1, kInput, kBytes); };
  const auto receives = [](ScheduleBuilder& builder) { builder.receive(0, kOutput, kBytes); };
  SimulatedTime time = simulate(network_of(1, 2, 1), {of(sends), of(receives)});
  EXPECT_NEAR(time.seconds, 2e-3, 1e-9) << "out of one NIC, into the other";
  EXPECT_EQ(time.messages, 1u);
  EXPECT_EQ(time.crossing, 0);
  Network network = network_of(2, 1, 1);
  network.latency_across = 0.5;
  network.message_time = 0.25;
  time = simulate(network, {of(sends), of(receives)});
  EXPECT_NEAR(time.seconds, 2e-3 + 4e-3 + 0.5 + 2 * 0.25, 1e-9);
  EXPECT_EQ(time.crossing, kBytes);
}

TEST(SimulatedTime, MessagesQueueForWhatTheyShare) {
  const auto sends = [](ScheduleBuilder& builder) {
    for (std::size_t i = 0; i < 3; ++i) builder.send(1, kInput + i * kBytes, kBytes);
  };
  const auto receives = [](ScheduleBuilder& builder) {
    for (std::size_t i = 0; i < 3; ++i) builder.receive(0, kOutput + i * kBytes, kBytes);
  };
  const SimulatedTime time = simulate(network_of(2, 1, 1), {of(sends), of(receives)});
  // The uplinks take twice as long as the NICs, and are busy all the time but for the first and last
  // megabyte.
  EXPECT_NEAR(time.seconds, 1e-3 + 3 * 2e-3 + 2e-3 + 1e-3, 1e-9);
  EXPECT_EQ(time.in_flight, 3u);
}

TEST(SimulatedTime, AStepWaitsForThoseThatItDependsOn) {
  // There and back, the same bytes.
  const auto first = [](ScheduleBuilder& builder) {
    builder.send(1, kInput, kBytes);
    builder.receive(1, kOutput, kBytes);
  };
  const auto second = [](ScheduleBuilder& builder) {
    builder.receive(0, kOutput, kBytes);
    builder.send(0, kOutput, kBytes);
  };
  EXPECT_NEAR(simulate(network_of(1, 2, 1), {of(first), of(second)}).seconds, 4e-3, 1e-9);
}

TEST(SimulatedTime, RanksThatWaitForEachOtherAreAnError) {
  const auto waits = [](ScheduleBuilder& builder) { builder.receive(1, kOutput, kBytes); };
  const auto nothing = [](ScheduleBuilder& builder) { builder.copy(kOutput, kInput, kBytes); };
  EXPECT_THROW(simulate(network_of(1, 2, 1), {of(waits), of(nothing)}), Error);
}

/// Every algorithm of the collectives that have a bound, among more ranks than tests of real connections
/// have: all ends, and no time is below the bound.
TEST(SimulatedTime, NoAlgorithmIsFasterThanTheBound) {
  const Network network = network_of(3, 4, 4);
  for (const Algorithm* algorithm : algorithms()) {
    if (algorithm->collective != Collective::kAllReduce && algorithm->collective != Collective::kAllGather &&
        algorithm->collective != Collective::kReduceScatter)
      continue;
    SCOPED_TRACE(std::string(collective_name(algorithm->collective)) + " " + std::string(algorithm->name));
    const std::size_t elements = (4U << 20) / sizeof(float);
    Problem problem{algorithm->collective == Collective::kAllReduce ? elements : elements / 48,
                    sizeof(float)};
    std::vector<Schedule> schedules;
    for (int rank = 0; rank < network.size(); ++rank)
      schedules.push_back(algorithm->build(RankMap::make(rank, network.locations()), problem, {}, false));
    const SimulatedTime time = simulate(network, schedules);
    const double vector = static_cast<double>(algorithm->collective == Collective::kAllReduce
                                                  ? problem.bytes()
                                                  : problem.bytes_of_all(network.size()));
    EXPECT_GE(time.seconds, lower_bound(network, algorithm->collective, vector));
    if (algorithm->name == "two-level") {
      EXPECT_LE(time.crossing, vector * 4.0 / 3 * 1.01) << "what has to leave one of three clusters";
    }
  }
}

}  // namespace
}  // namespace tombolo::bench
