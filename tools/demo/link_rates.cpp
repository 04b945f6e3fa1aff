#include "tools/demo/link_rates.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "base/error.h"
#include "base/units.h"
#include "planner/planner.h"
#include "tools/demo/layer_speed.h"
#include "tools/demo/options.h"
#include "topology/files/cluster_file.h"

namespace tombolo::tools::demo {
namespace {

constexpr double kSlowest = Options::kSlowestEthernet, kFastest = Options::kFastestEthernet;
constexpr int kHalvings = 40;
constexpr double kPayload = 0.949;  // share of payload on a wire, with packets of 1,500 bytes: 1,448 of 1,526
constexpr double kLatency = 1e-4;   // seconds; the time that emulated hosts need to wake each other

/// Four hosts in launcher's order, all connected by Ethernet.
topology::ClusterFile ethernet_only(double bits_per_second, double cores, const planner::Profile& profile) {
  topology::ClusterFile cluster;
  cluster.shared_processor.emplace();
  cluster.shared_processor->cores = cores;
  for (const char* name : {"a0", "b0", "a1", "b1"}) {
    topology::Host host;
    host.name = name;
    host.cluster = name[0];
    topology::Nic nic;
    nic.name = "eth0";
    host.nics = {nic};
    topology::Device device;
    device.name = "cpu";
    host.devices = {device};
    cluster.shared_processor->hosts.push_back(host.name);
    cluster.hosts.push_back(host);
  }
  for (const auto& from : cluster.hosts)
    for (const auto& to : cluster.hosts)
      if (from.name != to.name)
        cluster.links.push_back(
            {from.name, "eth0", to.name, "eth0", kPayload * bits_per_second / 8, kLatency, false});
  return with_speed(std::move(cluster), profile, demo_job().micro_batch);
}

double two_digits(double value) {
  const double unit = std::pow(10, std::floor(std::log10(value)) - 1);
  return std::round(value / unit) * unit;
}

}  // namespace

std::string LinkRates::emulation() const {
  return fmt::format("holmes:fast={:.0f}kbit,slow={:.0f}kbit", fast / 1e3, ethernet / 1e3);
}

double computing_seconds(const planner::Profile& profile, double cores) {
  const planner::Job job = demo_job();
  const auto part = [&](std::string_view kind) {
    const auto times = profile.times({}, kind, 1, job.micro_batch);
    TOMBOLO_CHECK(times.has_value(), "micro_batch={}", job.micro_batch);
    return *times;
  };
  const planner::LayerTimes layer = part(profile.kind_of(0)), embedding = part(planner::Profile::kEmbedding),
                            head = part(planner::Profile::kHead);
  const double passes = job.model.layers * (layer.forward + layer.backward) + embedding.forward +
                        embedding.backward + head.forward + head.backward;
  const double updates = job.data * (job.model.layers * layer.update + embedding.update + head.update);
  const double micro_batches = static_cast<double>(job.global_batch) / job.micro_batch;
  return (micro_batches * passes + updates) / std::min(cores, static_cast<double>(job.pipeline * job.data));
}

LinkRates choose_link_rates(const planner::Profile& profile, double cores, std::optional<double> given) {
  LinkRates rates;
  rates.given = given.has_value();
  if (given) {
    rates.ethernet = *given;
  } else {
    const double wanted = HolmesSetting::kStepOverComputing * computing_seconds(profile, cores);
    planner::Job job = demo_job();
    job.profile = std::make_shared<const planner::Profile>(profile);
    planner::PlanOptions options;
    options.strategy = "megatron";
    options.routing = "shared";
    options.rank_hosts = {"a0", "b0", "a1", "b1"};
    const planner::Plan plan = planner::make_plan(ethernet_only(kFastest, cores, profile), job, options);
    double slow = kSlowest, fast = kFastest;
    for (int halving = 0; halving < kHalvings; ++halving) {
      const double middle = std::sqrt(slow * fast);
      const bool too_slow =
          planner::simulate(plan, ethernet_only(middle, cores, profile), {.spans = false}).step_seconds >
          wanted;
      (too_slow ? slow : fast) = middle;
    }
    rates.ethernet = two_digits(fast);
    rates.at_bound = slow == kSlowest || fast == kFastest;
  }
  rates.fast = HolmesSetting::kFastOverEthernet * rates.ethernet;
  return rates;
}

std::string describe(const LinkRates& rates) {
  const std::string ratio = fmt::format("the fast NICs have {:.0f} times that, as 200 to 25 Gbit/s",
                                        HolmesSetting::kFastOverEthernet);
  if (rates.given)
    return fmt::format("Ethernet has {}, as --ethernet asks for; {}", format_bit_rate(rates.ethernet / 8),
                       ratio);
  if (rates.at_bound)
    return fmt::format(
        "Ethernet has {}, the nearest that can be emulated to what this machine's computing asks for; {}",
        format_bit_rate(rates.ethernet / 8), ratio);
  return fmt::format(
      "Ethernet has {}, so that on this machine a step over Ethernet alone takes {:.1f} times its computing, "
      "as Holmes measured for "
      "3.6 billion parameters on eight nodes of 8 A100 (arXiv 2312.03549); {}",
      format_bit_rate(rates.ethernet / 8), HolmesSetting::kStepOverComputing, ratio);
}

}  // namespace tombolo::tools::demo
