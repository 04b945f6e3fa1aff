// Runs the probe over the real transports, on loopback: each rank is a thread, and each host a pair of
// loopback addresses.
#include "probe/probe.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "base/error.h"
#include "tools/emulation/emulation.h"
#include "tools/emulation/spec.h"

namespace tombolo::probe {
namespace {

// The hosts of the Holmes setting on loopback addresses; the transport applies the rate limits.
class Probe : public ::testing::Test {
 protected:
  void SetUp() override {
    spec_ = emulation::Spec::from_text("holmes:slow=40mbit,fast=400mbit");
    port_ = emulation::find_free_port("127.0.0.1", 7919U * static_cast<std::uint32_t>(::getpid()));
    ASSERT_GT(port_, 0);
    emulation_ = emulation::Emulation::start(spec_, {emulation::Mode::kLoopback, {}});
  }

  collectives::Options options(int rank, int size, const std::string& host) const {
    collectives::Options each;
    each.identity.rank = rank;
    each.identity.size = size;
    each.identity.local_rank = 0;
    each.identity.port = port_;
    each.router.policy.transports = {"tcp"};  // threads of one process would else share memory
    each.secret = transport::Secret::from_text("probe");
    each.router.host = *emulation_->cluster().find_host(host);
    for (const auto& nic : spec_.host(host).nics)
      each.router.limits.push_back({nic.name, nic.bits_per_second / 8});
    return each;
  }

  /// Runs `action(options)` on a thread per host, and rethrows the first failure.
  void on_all(const std::vector<std::string>& hosts,
              const std::function<void(const collectives::Options&)>& action) {
    std::vector<std::thread> threads;
    std::mutex mutex;
    std::string trouble;
    int size = static_cast<int>(hosts.size());
    for (int rank = 0; rank < size; ++rank) {
      threads.emplace_back([&, rank] {
        try {
          action(options(rank, size, hosts[static_cast<std::size_t>(rank)]));
        } catch (const std::exception& error) {
          std::lock_guard lock(mutex);
          trouble += fmt::format("rank {}: {}\n", rank, error.what());
        }
      });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(trouble, "");
  }

  emulation::Spec spec_;
  int port_ = 0;
  std::unique_ptr<emulation::Emulation> emulation_;
};

TEST_F(Probe, MeasuresEveryPairOfNicsOfOneFabricAlikeOnAllRanks) {
  std::mutex mutex;
  std::map<int, std::vector<topology::Link>> by_rank;
  int last_done = 0;
  int last_total = 0;
  on_all({"a0", "a1", "b0", "b1"}, [&](const collectives::Options& each) {
    LinkProbeOptions probe;
    probe.seconds_per_pair = 0.1;
    if (each.identity.rank == 0) {
      probe.progress = [&](int done, int total) {
        EXPECT_GE(done, last_done);
        last_done = done;
        last_total = total;
      };
    }
    ProbedLinks probed = probe_links(each, probe);
    EXPECT_TRUE(probed.failures.empty());
    EXPECT_EQ(probed.loads.size(), 2U) << "both ways between the clusters";
    std::lock_guard lock(mutex);
    by_rank[each.identity.rank] = std::move(probed.links);
  });
  // 6 pairs of hosts over Ethernet and one pair per cluster over the fast NICs, both directions.
  ASSERT_EQ(by_rank[0].size(), 2U * (6 + 2));
  // Three rounds, in one of them also the fast NICs; the clusters' pairs alone and at once; each host's NICs.
  EXPECT_GE(last_done, 3 + 1 + 2 + 1);
  EXPECT_EQ(last_total, last_done);
  std::set<std::string> seen;
  for (std::size_t i = 0; i < by_rank[0].size(); ++i) {
    const topology::Link& link = by_rank[0][i];
    std::string name =
        fmt::format("{} {} to {} {}", link.from_host, link.from_nic, link.to_host, link.to_nic);
    EXPECT_TRUE(seen.insert(name).second) << name << " twice";
    EXPECT_TRUE(link.measured);
    EXPECT_EQ(link.from_nic, link.to_nic);
    EXPECT_GT(link.latency_seconds, 0) << name;
    double limit = link.from_nic == "eth0" ? 40e6 / 8 : 400e6 / 8;
    // At most the allowed rate and the burst of the bucket; below it by as much as other work slows the
    // machine.
    EXPECT_LT(link.bytes_per_second, 1.5 * limit) << name;
    EXPECT_GT(link.bytes_per_second, 0) << name;
    EXPECT_TRUE(link.from_nic == "eth0" || link.from_host[0] == link.to_host[0]) << name;
    for (int rank = 1; rank < 4; ++rank) {
      const topology::Link& other = by_rank[rank].at(i);
      EXPECT_EQ(other.from_host + other.from_nic + other.to_host + other.to_nic,
                link.from_host + link.from_nic + link.to_host + link.to_nic);
      EXPECT_EQ(other.bytes_per_second, link.bytes_per_second) << name << " on rank " << rank;
      EXPECT_EQ(other.latency_seconds, link.latency_seconds) << name << " on rank " << rank;
    }
  }
}

TEST_F(Probe, MeasuresComputeAndDescribesTheCluster) {
  std::set<std::string> written;
  on_all({"a0", "b0"}, [&](const collectives::Options& each) {
    auto communicator = collectives::Communicator::create(each);
    ComputeProbeOptions compute;
    compute.seconds = 0.05;
    compute.memory = 4 << 20;
    ComputeResult result = probe_compute(*communicator, compute);
    EXPECT_GT(result.alone.flops_per_second, 0);
    EXPECT_GT(result.together.flops_per_second, 0);
    EXPECT_GT(result.alone.memory_bytes_per_second, 0);
    EXPECT_GT(result.together.memory_bytes_per_second, 0);
    ProbedLinks measured;
    measured.links = {{"a0", "eth0", "b0", "eth0", 1e6, 1e-3, true}};
    measured.shared = {{"A to B", {{"a0", "eth0"}}, {{"b0", "eth0"}}, 1e6}};
    auto cluster = describe(*communicator, each.router.host, emulation_->cluster(), measured, result);
    EXPECT_EQ(cluster.links.size(), 1U);
    EXPECT_EQ(cluster.shared_links.size(), 1U);
    EXPECT_EQ(cluster.hosts.size(), 4U);
    // These hosts share this machine's processor.
    const topology::Device& shared = cluster.find_host(each.router.host.name)->devices.at(0);
    EXPECT_EQ(shared.flops_per_second, result.alone.flops_per_second);
    EXPECT_EQ(shared.memory_bytes_per_second, result.alone.memory_bytes_per_second);
    EXPECT_EQ(cluster.find_host("b1")->devices.at(0).flops_per_second, 0);
    auto made = describe(*communicator, each.router.host, std::nullopt, {}, result);
    EXPECT_EQ(made.hosts.size(), 2U);
    const topology::Device& own = made.find_host(each.router.host.name)->devices.at(0);
    EXPECT_EQ(own.flops_per_second, result.together.flops_per_second);
    EXPECT_EQ(own.memory_bytes_per_second, result.together.memory_bytes_per_second);
    communicator->barrier();
  });
}

TEST_F(Probe, AGpuThatCannotBeMeasuredIsReportedAndStopsNoOtherMeasurement) {
  on_all({"a0", "b0"}, [&](const collectives::Options& given) {
    collectives::Options each = given;
    const bool has_gpu = each.router.host.name == "a0";
    if (has_gpu) {
      each.router.host.devices.front().kind = topology::DeviceKind::kGpu;
      each.router.host.devices.front().pci_path = "/sys/devices/pci0000:ff/0000:ff:1f.7";
    }
    auto communicator = collectives::Communicator::create(each);
    ComputeProbeOptions compute;
    compute.seconds = 0.01;
    compute.memory = 1 << 20;
    compute.gpu = gpu_of(*communicator, each.router.host);
    ASSERT_EQ(compute.gpu.has_value(), has_gpu);
    ComputeResult result = probe_compute(*communicator, compute);
    EXPECT_EQ(result.problem.empty(), !has_gpu);
    EXPECT_EQ(result.alone.flops_per_second > 0, !has_gpu);
    communicator->barrier();
  });
}

TEST_F(Probe, HostsThatWereDetectedNeedNoCluster) {
  on_all({"a0", "b0"}, [&](const collectives::Options& given) {
    collectives::Options each = given;
    each.router.host.cluster.clear();
    auto communicator = collectives::Communicator::create(each);
    auto cluster = describe(*communicator, each.router.host, std::nullopt, {}, {});
    ASSERT_EQ(cluster.hosts.size(), 2U);
    for (const auto& host : cluster.hosts) EXPECT_EQ(host.cluster, "A") << host.name;
    communicator->barrier();
  });
}

TEST_F(Probe, RejectsAComputeProbeOfNothing) {
  on_all({"a0"}, [&](const collectives::Options& each) {
    auto communicator = collectives::Communicator::create(each);
    ComputeProbeOptions compute;
    compute.rows = 0;
    EXPECT_THROW(probe_compute(*communicator, compute), Error);
  });
}

}  // namespace
}  // namespace tombolo::probe
