// Reading and writing cluster files, small ones and those of a thousand hosts, and their JSON alone.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

#include "base/json.h"
#include "bench/micro/subjects.h"
#include "topology/files/cluster_file.h"

namespace tombolo::bench::micro {
namespace {

/// Two islands of hosts with eight GPUs, a fast NIC and an Ethernet NIC each. As in large files, rates are
/// stated by fabric.
topology::ClusterFile island_pair(int hosts) {
  topology::ClusterFile cluster;
  for (int number = 0; number < hosts; ++number) {
    const bool first = number < hosts / 2;
    topology::Host host;
    host.name = fmt::format("host{}", number);
    host.cluster = first ? "A" : "B";
    topology::Nic fast;
    fast.name = "fast0";
    fast.rdma_device = "mlx5_0";
    fast.rdma_port = 1;
    fast.kind = first ? topology::NicKind::kInfiniBand : topology::NicKind::kRoce;
    fast.fabric = first ? "ib-a" : "roce-b";
    topology::Nic ethernet;
    ethernet.name = "eth0";
    host.nics = {fast, ethernet};
    topology::Device device;
    device.name = "H200";
    device.kind = topology::DeviceKind::kGpu;
    device.flops_per_second = 6e14;
    device.memory_bytes = 141e9;
    host.devices.assign(8, device);
    host.device_bytes_per_second = 4e11;
    cluster.hosts.push_back(host);
  }
  cluster.fabrics = {{"ib-a", "", "", 45e9, 3e-6}, {"roce-b", "", "", 23e9, 5e-6}, {"", "", "", 3e9, 4e-5}};
  return cluster;
}

std::string text_of(int hosts) {
  return island_pair(hosts).to_json().dump(1);
}

void measure_parse_json(benchmark::State& state) {
  const std::string text = text_of(static_cast<int>(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(JsonDocument::parse(text, "cluster.json"));
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(text.size()));
}

void measure_write_json(benchmark::State& state) {
  const Json json = island_pair(static_cast<int>(state.range(0))).to_json();
  std::size_t bytes = 0;
  for (auto _ : state) benchmark::DoNotOptimize(bytes = json.dump(1).size());
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes));
}

/// Measures reading, which includes parsing the JSON because loading a file does both.
void measure_read_cluster(benchmark::State& state) {
  const std::string text = text_of(static_cast<int>(state.range(0)));
  for (auto _ : state)
    benchmark::DoNotOptimize(topology::ClusterFile::parse(JsonDocument::parse(text, "cluster.json")));
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(text.size()));
}

void measure_write_cluster(benchmark::State& state) {
  const topology::ClusterFile cluster = island_pair(static_cast<int>(state.range(0)));
  std::size_t bytes = 0;
  for (auto _ : state) benchmark::DoNotOptimize(bytes = cluster.to_json().dump(1).size());
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes));
}

}  // namespace

void register_cluster_files() {
  const auto add = [](const char* name, void (*measure)(benchmark::State&)) {
    benchmark::RegisterBenchmark(name, measure)->ArgName("hosts")->Arg(4)->Arg(1000);
  };
  add("cluster_files/parse_json", measure_parse_json);
  add("cluster_files/write_json", measure_write_json);
  add("cluster_files/read", measure_read_cluster);
  add("cluster_files/write", measure_write_cluster);
}

}  // namespace tombolo::bench::micro
