// Holmes' experiments: clusters of A100s that differ in their NICs.
#include <algorithm>

#include "bench/planner_eval/report.h"
#include "planner/plan/layer_split.h"
#include "planner/planner.h"

namespace tombolo::bench {

namespace {

using namespace planner;
using topology::NicKind;

constexpr int kNodeGpus = 8;
/// The FLOP/s that a GPU attains in training with each kind of NIC (Holmes' S_i), before communication;
/// derived from Holmes' measurements on four nodes of one kind.
struct Speeds {
  double infiniband = 205e12, roce = 165e12;
};
/// The bytes per second attained on 200 Gb/s and on 25 Gb/s.
constexpr double kRdma = 24e9, kEthernet = 2.9e9, kInside = 200e9;

struct Island {
  NicKind kind;
  int nodes;
};

topology::ClusterFile cluster_of(const std::vector<Island>& islands, const Speeds& speeds) {
  topology::ClusterFile cluster;
  for (const Island& island : islands) {
    const std::string name(topology::nic_kind_name(island.kind));
    for (int i = 0; i < island.nodes; ++i) {
      topology::Host host;
      host.name = name + std::to_string(i);
      host.cluster = name;
      topology::Nic fast, ethernet;
      fast.name = "fast";
      fast.kind = island.kind;
      fast.fabric = name;
      ethernet.name = "eth";
      if (island.kind != NicKind::kTcp) host.nics.push_back(fast);
      host.nics.push_back(ethernet);
      topology::Device device;
      device.name = "A100";
      device.kind = topology::DeviceKind::kGpu;
      device.flops_per_second = island.kind == NicKind::kRoce ? speeds.roce : speeds.infiniband;
      device.memory_bytes = 80e9;
      device.memory_bytes_per_second = 1.6e12;
      host.devices.assign(kNodeGpus, device);
      cluster.hosts.push_back(host);
    }
  }
  for (const auto& from : cluster.hosts)
    for (const auto& to : cluster.hosts) {
      cluster.links.push_back({from.name, "eth", to.name, "eth", from.name == to.name ? kInside : kEthernet,
                               from.name == to.name ? 0 : 30e-6, false});
      if (from.name == to.name || from.cluster != to.cluster || from.nics.size() < 2) continue;
      cluster.links.push_back({from.name, "fast", to.name, "fast", kRdma, 3e-6, false});
    }
  return cluster;
}

Model gpt(int layers, int hidden) {
  Model model;
  model.layers = layers;
  model.hidden = hidden;
  model.heads = 32;
  model.context = 2048;
  model.vocabulary = 51200;
  model.bytes_per_value = 2;
  return model;
}

struct Setup {
  std::string strategy = "holmes";
  std::string routing = "per-peer";
  bool even_layers = false, overlap = true, sharded = true;
};

double tflops(const topology::ClusterFile& cluster, const Model& model, int rows, int pipeline,
              const Setup& setup) {
  Job job;
  job.model = model;
  job.global_batch = rows;
  job.pipeline = pipeline;
  job.tensor = 1;
  job.framework = Framework::kMegatron;
  job.recompute = Recompute::kFull;
  job.fp32_gradients = false;  // trained in fp16
  job.sharding = setup.sharded ? Sharding::kOptimizer : Sharding::kNone;
  job.overlap_gradients = setup.overlap;
  PlanOptions options;
  options.strategy = setup.strategy;
  options.routing = setup.routing;
  options.alpha = 1.05;  // Holmes' value
  const Plan plan = make_plan(cluster, job, options);
  double seconds = plan.prediction.step_seconds;
  if (setup.even_layers) {
    Plan even = plan;
    even.pipelines = equal_pipelines(
        even.job, to_stages(std::vector<int>(static_cast<std::size_t>(pipeline), model.layers / pipeline)));
    seconds = simulate(even, cluster, {.spans = false}).step_seconds;
  }
  const double l = model.layers, h = model.hidden, s = model.context, v = model.vocabulary;
  const double flops = 96 * rows * s * l * h * h * (1 + s / (6 * h) + v / (16 * l * h));
  return flops / seconds / static_cast<double>(plan.ranks.size()) / 1e12;
}

/// Fits the speeds so that four nodes of one kind give what Holmes measured. The results for all other
/// settings are predictions.
Speeds measured_speeds(const Model& model) {
  Speeds speeds;
  for (int i = 0; i < 4; ++i) {
    speeds.infiniband *= 197 / tflops(cluster_of({{NicKind::kInfiniBand, 4}}, speeds), model, 768, 2, {});
    speeds.roce *= 160 / tflops(cluster_of({{NicKind::kRoce, 4}}, speeds), model, 768, 2, {});
  }
  return speeds;
}

std::string split_text(const std::vector<int>& layers) {
  return fmt::format("{}/{}", layers.at(0), layers.at(1));
}

}  // namespace

void evaluate_holmes(const EvaluationOptions&, EvaluationReport& report) {
  report.section("Holmes' experiments on A100s");
  const Model small = gpt(30, 3072), large = gpt(36, 4096);
  const Setup holmes, megatron{"megatron", "shared", false, false, false};
  const Speeds speeds = measured_speeds(small);
  for (const int nodes : {4, 6, 8}) {
    const double infiniband =
        tflops(cluster_of({{NicKind::kInfiniBand, nodes}}, speeds), small, 768, 2, holmes);
    const double roce = tflops(cluster_of({{NicKind::kRoce, nodes}}, speeds), small, 768, 2, holmes);
    const double ethernet = tflops(cluster_of({{NicKind::kTcp, nodes}}, speeds), small, 768, 2, holmes);
    const double hybrid =
        tflops(cluster_of({{NicKind::kInfiniBand, nodes / 2}, {NicKind::kRoce, nodes / 2}}, speeds), small,
               768, 2, holmes);
    report.line(fmt::format("3.6B, {} nodes: TFLOPS per GPU, IB, RoCE, hybrid, Ethernet", nodes), "falling",
                fmt::format("{:.0f}, {:.0f}, {:.0f}, {:.0f}", infiniband, roce, hybrid, ethernet),
                infiniband > roce && roce > hybrid && hybrid > ethernet);
  }
  const topology::ClusterFile mixed = cluster_of({{NicKind::kInfiniBand, 4}, {NicKind::kRoce, 4}}, speeds);
  const double full = tflops(mixed, large, 1536, 2, holmes), usual = tflops(mixed, large, 1536, 2, megatron);
  report.line("7.5B, 4 IB + 4 RoCE nodes: Holmes' placement over default", "1.4 +- 0.1",
              fmt::format("{:.2f} ({:.0f} : {:.0f} TFLOPS)", full / usual, full, usual),
              full / usual >= 1.3 && full / usual <= 1.5);

  Setup no_adapting = holmes, no_overlap = holmes, neither = holmes;
  no_adapting.even_layers = neither.even_layers = true;
  no_overlap.overlap = neither.overlap = false;
  no_overlap.sharded = neither.sharded = false;
  const double without_adapting = tflops(mixed, large, 1536, 2, no_adapting),
               without_overlap = tflops(mixed, large, 1536, 2, no_overlap),
               without_both = tflops(mixed, large, 1536, 2, neither);
  report.line("7.5B: full, no self-adapting, no overlap, neither, default", "falling",
              fmt::format("{:.1f}, {:.1f}, {:.1f}, {:.1f}, {:.1f}", full, without_adapting, without_overlap,
                          without_both, usual),
              full > without_adapting && without_adapting > without_overlap &&
                  without_overlap > without_both && without_both > usual);
  const std::vector<double> attained{197, 160};
  const auto large_split = split_by_speed(48, attained, {1, 1}, 1),
             small_split = split_by_speed(30, attained, {1, 1}, 1);
  report.note(
      "2 parameters fitted: the speed of a GPU beside either NIC, so that 4 nodes of 3.6B give the 197 and "
      "160 "
      "TFLOPS that Holmes measured. Every plan has the micro-batch that is best for it; rates: 24 GB/s RDMA, "
      "2.9 GB/s Ethernet for a node.");
  report.line("48 layers by attained speeds 197 and 160", "26/22", split_text(large_split),
              split_text(large_split) == "26/22");
  report.line("30 layers by attained speeds 197 and 160", "16/14", split_text(small_split),
              split_text(small_split) == "16/14");
}

}  // namespace tombolo::bench
