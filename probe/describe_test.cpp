#include <gtest/gtest.h>

#include "collectives/testing/test_support.h"
#include "probe/probe.h"

namespace tombolo::probe {
namespace {

topology::Host host_of_cpus(const std::string& name, std::size_t devices) {
  topology::Host host;
  host.name = name;
  host.cluster = "A";
  host.devices.resize(devices);
  for (auto& device : host.devices) {
    device.name = "core";
    device.flops_per_second = 7;
  }
  return host;
}

/// What a rank attained: its own numbers, so that mixed-up ranks show.
ComputeResult attained_by(int rank) {
  ComputeResult result;
  result.alone = {100.0 + rank, 200.0 + rank, 100.0 + rank};
  result.together = {10.0 + rank, 20.0 + rank, 10.0 + rank};
  return result;
}

/// Two ranks on host "a" with one on host "b" between them.
void on_two_hosts(const std::function<void(collectives::Communicator&, const std::string& host)>& body) {
  collectives::test::expect_fine(
      collectives::test::run_ranks("AAA", [&](collectives::Communicator& communicator) {
        body(communicator, communicator.rank() == 1 ? "b" : "a");
      }));
}

TEST(Describe, GivesEachDeviceWhatItsOwnRankAttainedBesideTheOthers) {
  on_two_hosts([](collectives::Communicator& communicator, const std::string& host) {
    topology::ClusterFile known;
    known.hosts = {host_of_cpus("a", 2), host_of_cpus("b", 2), host_of_cpus("c", 1)};
    const auto cluster =
        describe(communicator, host_of_cpus(host, 2), known, {}, attained_by(communicator.rank()));
    ASSERT_EQ(cluster.hosts.size(), 3U);
    const auto& a = cluster.hosts[0].devices;
    EXPECT_EQ(a.at(0).flops_per_second, 10);
    EXPECT_EQ(a.at(0).memory_bytes_per_second, 20);
    EXPECT_EQ(a.at(1).flops_per_second, 12);
    EXPECT_EQ(a.at(1).memory_bytes_per_second, 22);
    EXPECT_EQ(cluster.hosts[1].devices.at(0).flops_per_second, 11);
    EXPECT_EQ(cluster.hosts[1].devices.at(1).flops_per_second, 7) << "no rank runs on it";
    EXPECT_EQ(cluster.hosts[2].devices.at(0).flops_per_second, 7) << "no rank runs there";
  });
}

TEST(Describe, TakesWhatWasAttainedAloneWhereHostsShareAProcessor) {
  on_two_hosts([](collectives::Communicator& communicator, const std::string& host) {
    topology::ClusterFile known;
    known.hosts = {host_of_cpus("a", 2), host_of_cpus("b", 1)};
    known.shared_processor = {{"b"}, 2};
    const auto cluster =
        describe(communicator, host_of_cpus(host, 1), known, {}, attained_by(communicator.rank()));
    EXPECT_EQ(cluster.hosts[0].devices.at(0).flops_per_second, 10);
    EXPECT_EQ(cluster.hosts[1].devices.at(0).flops_per_second, 101);
    EXPECT_EQ(cluster.hosts[1].devices.at(0).memory_bytes_per_second, 201);
  });
}

TEST(Describe, KeepsWhatTheFileSaysWhereNothingWasMeasured) {
  on_two_hosts([](collectives::Communicator& communicator, const std::string& host) {
    topology::ClusterFile known;
    known.hosts = {host_of_cpus("a", 2), host_of_cpus("b", 1)};
    ComputeResult result = attained_by(communicator.rank());
    if (communicator.rank() == 2) result.together.flops_per_second = 0;
    const auto cluster = describe(communicator, host_of_cpus(host, 1), known, {}, result);
    EXPECT_EQ(cluster.hosts[0].devices.at(1).flops_per_second, 7);
    EXPECT_EQ(cluster.hosts[0].devices.at(1).memory_bytes_per_second, 22);
  });
}

/// A host of GPUs of which nothing is known.
topology::Host host_of_gpus(const std::string& name, std::size_t devices) {
  topology::Host host = host_of_cpus(name, devices);
  for (auto& device : host.devices) {
    device.name = "H200";
    device.kind = topology::DeviceKind::kGpu;
    device.flops_per_second = 0;
  }
  return host;
}

TEST(Describe, GivesGpusThatNoRankRanOnWhatThoseOfTheirNameAttain) {
  on_two_hosts([](collectives::Communicator& communicator, const std::string& host) {
    topology::ClusterFile known;
    known.hosts = {host_of_gpus("a", 4), host_of_gpus("b", 2), host_of_gpus("c", 2)};
    known.hosts[0].devices[3].name = "A100";
    known.hosts[1].devices[1].flops_per_second = 5;
    known.hosts[2].devices[1].kind = topology::DeviceKind::kCpu;
    const auto cluster =
        describe(communicator, host_of_gpus(host, 4), known, {}, attained_by(communicator.rank()));
    const auto& a = cluster.hosts[0].devices;
    EXPECT_EQ(a.at(0).flops_per_second, 10);
    EXPECT_EQ(a.at(1).flops_per_second, 12);
    EXPECT_EQ(a.at(2).flops_per_second, 11) << "in the mean of its host's";
    EXPECT_EQ(a.at(2).memory_bytes_per_second, 21);
    EXPECT_EQ(a.at(3).flops_per_second, 0) << "another GPU";
    EXPECT_EQ(cluster.hosts[1].devices.at(1).flops_per_second, 5) << "as the file says";
    EXPECT_EQ(cluster.hosts[1].devices.at(1).memory_bytes_per_second, 21);
    EXPECT_EQ(cluster.hosts[2].devices.at(0).flops_per_second, (10 + 12 + 11 + 5) / 4.0) << "of other hosts";
    EXPECT_EQ(cluster.hosts[2].devices.at(1).flops_per_second, 0) << "a core";
  });
}

TEST(Describe, AddsACoreForEachRankThatHasNoDevice) {
  on_two_hosts([](collectives::Communicator& communicator, const std::string& host) {
    topology::Host mine = host_of_cpus(host, host == "a" ? 1 : 0);
    if (host == "a") {
      mine.devices[0].name = "H200";
      mine.devices[0].kind = topology::DeviceKind::kGpu;
    }
    const auto cluster = describe(communicator, mine, std::nullopt, {}, attained_by(communicator.rank()));
    ASSERT_EQ(cluster.hosts.size(), 2U);
    const auto& a = cluster.hosts[0].devices;
    ASSERT_EQ(a.size(), 2U);
    EXPECT_EQ(a[0].name, "H200");
    EXPECT_EQ(a[1].name, "cpu");
    EXPECT_EQ(a[1].kind, topology::DeviceKind::kCpu);
    EXPECT_EQ(a[1].flops_per_second, 12);
    ASSERT_EQ(cluster.hosts[1].devices.size(), 1U);
    EXPECT_EQ(cluster.hosts[1].devices[0].flops_per_second, 11);
  });
}

TEST(Describe, RefusesAHostThatTheClusterFileDoesNotName) {
  const auto outcomes = collectives::test::run_ranks("AA", [](collectives::Communicator& communicator) {
    topology::ClusterFile known;
    known.hosts = {host_of_cpus("a", 1)};
    const std::string host = communicator.rank() == 0 ? "a" : "strange";
    describe(communicator, host_of_cpus(host, 1), known, {}, attained_by(communicator.rank()));
  });
  for (const auto& outcome : outcomes) {
    EXPECT_TRUE(outcome.threw);
    EXPECT_EQ(outcome.cause, Cause::kInvalidUsage);
    EXPECT_NE(outcome.text.find("rank 1 is on host 'strange', which the cluster file does not name"),
              std::string::npos)
        << outcome.text;
  }
}

}  // namespace
}  // namespace tombolo::probe
