#include "probe/under_load.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "base/error.h"
#include "probe/analyse/shared_links.h"
#include "probe/analyse/uplinks.h"
#include "probe/rounds/nic_pairs.h"

namespace tombolo::probe {
namespace {

constexpr int kTries = 4;

void raise(double& best, double seen) {
  best = std::max(best, seen);
}

/// Keeps the attempt that moved more in all. The rates of one attempt must stay together.
void keep_better(std::vector<double>& best, std::vector<double> seen) {
  if (sum_of(seen) > sum_of(best)) best = std::move(seen);
}

/// Both directions of a load between groups.
struct GroupSample {
  double alone = 0;
  std::vector<double> together;

  /// Nothing where a pair failed: it worked before, so its failure says nothing about a shared link.
  std::optional<double> rate() const {
    if (std::ranges::find(together, 0.0) != together.end()) return std::nullopt;
    return shared_rate({std::vector<double>(together.size(), alone), together});
  }
};
struct BothDirections {
  GroupSample forward, backward;
};

std::vector<HostGroup> clusters_of(const topology::ClusterFile& cluster,
                                   const std::vector<std::string>& names) {
  std::vector<HostGroup> groups(names.size());
  for (std::size_t h = 0; h < cluster.hosts.size(); ++h) {
    const auto at = std::ranges::find(names, cluster.hosts[h].cluster) - names.begin();
    groups[static_cast<std::size_t>(at)].push_back(h);
  }
  return groups;
}

/// Adds all NICs of a group that the load (of groups, or of an uplink) represents, not only those that took
/// part.
template <typename Load>
void add_members(const topology::ClusterFile& cluster, const HostGroup& group, const Load& load,
                 std::vector<topology::NicName>& members) {
  for (const std::size_t host : group)
    for (const topology::Nic& nic : cluster.hosts[host].nics)
      if (joins(nic, load.kind, load.fabric)) members.push_back({cluster.hosts[host].name, nic.name});
}

/// The load's name, such as "A to B" or "A to B+C by storage".
std::string load_name(const std::string& from, const std::string& to, const std::string& fabric) {
  return fmt::format("{} to {}{}{}", from, to, fabric.empty() ? "" : " by ", fabric);
}

std::vector<BothDirections> run_loads(StepRunner& runner, const std::vector<GroupLoad>& loads) {
  std::vector<BothDirections> samples(loads.size());
  std::vector<std::size_t> doubtful(loads.size());
  for (std::size_t load = 0; load < loads.size(); ++load) {
    doubtful[load] = load;
    samples[load].forward.together.resize(loads[load].pairs.size());
    samples[load].backward.together.resize(loads[load].pairs.size());
  }
  for (int attempt = 0; attempt < kTries && !doubtful.empty(); ++attempt) {
    std::vector<Step> steps;
    for (const std::size_t load : doubtful) {
      steps.push_back({loads[load].pairs.front()});
      steps.push_back(loads[load].pairs);
    }
    if (attempt > 0) runner.expect(steps.size());
    const StepResults results = runner.run(steps, Load::kShared);
    std::size_t index = 0;
    for (const std::size_t load : doubtful) {
      auto& [forward, backward] = samples[load];
      raise(forward.alone, results.forward(index));
      raise(backward.alone, results.backward(index++));
      std::vector<double> out, in;
      for (std::size_t pair = 0; pair < loads[load].pairs.size(); ++pair, ++index) {
        out.push_back(results.forward(index));
        in.push_back(results.backward(index));
      }
      keep_better(forward.together, std::move(out));
      keep_better(backward.together, std::move(in));
    }
    std::erase_if(doubtful, [&](std::size_t load) {
      return !samples[load].forward.rate() && !samples[load].backward.rate();
    });
  }
  return samples;
}

/// The rates that the group of an uplink's load attained with one of the others, out of the group or into it.
UplinkShare share_with(const UplinkLoad& uplink, std::size_t other, bool out,
                       const std::vector<GroupLoad>& loads, const std::vector<BothDirections>& samples) {
  for (std::size_t at = 0; at < loads.size(); ++at) {
    const GroupLoad& load = loads[at];
    if (load.kind != uplink.kind || load.fabric != uplink.fabric) continue;
    const bool first = load.first == uplink.group && load.second == other;
    if (!first && (load.second != uplink.group || load.first != other)) continue;
    const GroupSample& sample = first == out ? samples[at].forward : samples[at].backward;
    return {sample.rate().value_or(0), sample.alone};
  }
  return {};
}

/// Loads at once what a cluster sends to several others, and what it receives from them. If all of that
/// shares one link, this replaces the links that were found with each of them.
void run_uplink(StepRunner& runner, const topology::ClusterFile& cluster,
                const std::vector<HostGroup>& groups, const UplinkLoad& uplink,
                const std::vector<GroupLoad>& loads, const std::vector<BothDirections>& samples,
                ProbedLinks& probed) {
  const auto names = cluster.clusters();
  struct Direction {
    bool out = false;
    std::vector<UplinkShare> shares = {};
    std::vector<double> together = {};
    std::optional<double> rate = {};
  };
  std::array<Direction, 2> ways{{{true}, {false}}};
  for (Direction& way : ways) {
    way.together.resize(uplink.pairs.size());
    for (const std::size_t other : uplink.others)
      way.shares.push_back(share_with(uplink, other, way.out, loads, samples));
  }
  for (int attempt = 0; attempt < kTries; ++attempt) {
    if (attempt > 0) runner.expect(1);
    const StepResults results = runner.run({uplink.pairs}, Load::kShared);
    for (Direction& way : ways) {
      std::vector<double> seen;
      for (std::size_t pair = 0; pair < uplink.pairs.size(); ++pair)
        seen.push_back(way.out ? results.forward(pair) : results.backward(pair));
      keep_better(way.together, std::move(seen));
      way.rate = uplink_rate(uplink, way.shares, way.together);
    }
    if (!ways[0].rate && !ways[1].rate) break;
  }
  std::string all_others;
  for (const std::size_t other : uplink.others) all_others += (all_others.empty() ? "" : "+") + names[other];
  for (const Direction& way : ways) {
    const auto name_with = [&](const std::string& others) {
      return way.out ? load_name(names[uplink.group], others, uplink.fabric)
                     : load_name(others, names[uplink.group], uplink.fabric);
    };
    const double alone = std::ranges::max(way.shares, {}, &UplinkShare::of_single_pair).of_single_pair;
    probed.loads.push_back(
        {name_with(all_others), uplink.pairs.size(), alone, sum_of(way.together), way.rate.has_value()});
    if (!way.rate) continue;
    topology::SharedLink link{name_with(all_others), {}, {}, *way.rate};
    add_members(cluster, groups[uplink.group], uplink, way.out ? link.from : link.to);
    for (const std::size_t other : uplink.others) {
      add_members(cluster, groups[other], uplink, way.out ? link.to : link.from);
      std::erase_if(probed.shared, [&](const auto& one) { return one.name == name_with(names[other]); });
    }
    probed.shared.push_back(std::move(link));
  }
}

/// Adds samples of two hosts' pairs of NICs, one for each direction.
void add_port_samples(const Step& pairs, const PairRates& rates, std::vector<PortSample>& samples) {
  PortSample forward{pairs.front().left, pairs.front().right, {}, {}, {}};
  PortSample backward{pairs.front().right, pairs.front().left, {}, {}, {}};
  for (const NicPair& pair : pairs) {
    const auto alone = *rates.find(pair);
    forward.from_nics.push_back(pair.left_nic);
    forward.to_nics.push_back(pair.right_nic);
    forward.load.alone.push_back(alone.first);
    backward.load.alone.push_back(alone.second);
  }
  backward.from_nics = forward.to_nics;
  backward.to_nics = forward.from_nics;
  forward.load.together.resize(pairs.size());
  backward.load.together.resize(pairs.size());
  samples.push_back(std::move(forward));
  samples.push_back(std::move(backward));
}

/// Splits a step by pairs of hosts, each with its pairs of NICs.
std::vector<Step> host_pairs(const Step& step) {
  std::vector<Step> pairs;
  for (const NicPair& pair : step) {
    if (pairs.empty() || pairs.back().front().left != pair.left) pairs.emplace_back();
    pairs.back().push_back(pair);
  }
  return pairs;
}

/// The step without pairs of NICs that could not be measured alone, and without pairs of hosts that have only
/// one left.
Step measured_pairs(const Step& step, const PairRates& rates) {
  Step kept;
  for (Step& pair : host_pairs(step)) {
    std::erase_if(pair, [&](const NicPair& nics) { return !rates.find(nics); });
    if (pair.size() > 1) kept.insert(kept.end(), pair.begin(), pair.end());
  }
  return kept;
}

std::vector<topology::SharedLink> run_ports(StepRunner& runner, const std::vector<Step>& steps,
                                            const PairRates& rates) {
  std::vector<PortSample> samples;
  for (const Step& step : steps)
    for (const Step& pair : host_pairs(step)) add_port_samples(pair, rates, samples);
  std::vector<topology::SharedLink> found;
  for (int attempt = 0; attempt < kTries && !steps.empty(); ++attempt) {
    if (attempt > 0) runner.expect(steps.size());
    const StepResults results = runner.run(steps, Load::kOwn);
    std::size_t index = 0;
    for (std::size_t at = 0; at < samples.size(); at += 2) {
      std::vector<double> forward, backward;
      for (std::size_t pair = 0; pair < samples[at].from_nics.size(); ++pair, ++index) {
        forward.push_back(results.forward(index));
        backward.push_back(results.backward(index));
      }
      keep_better(samples[at].load.together, std::move(forward));
      keep_better(samples[at + 1].load.together, std::move(backward));
    }
    found = find_shared_ports(runner.hosts(), samples);
    if (found.empty()) break;
  }
  return found;
}

}  // namespace

void PairRates::add(const NicPair& pair, double forward, double backward) {
  rates_[key_of(pair)] = pair.left < pair.right ? std::pair(forward, backward) : std::pair(backward, forward);
}

std::optional<std::pair<double, double>> PairRates::find(const NicPair& pair) const {
  const auto found = rates_.find(key_of(pair));
  if (found == rates_.end()) return std::nullopt;
  if (pair.left < pair.right) return found->second;
  return std::pair(found->second.second, found->second.first);
}

PairRates::Key PairRates::key_of(const NicPair& pair) {
  if (pair.left < pair.right) return {pair.left, pair.left_nic, pair.right, pair.right_nic};
  return {pair.right, pair.right_nic, pair.left, pair.left_nic};
}

void probe_under_load(StepRunner& runner, const topology::ClusterFile& cluster, const PairRates& rates,
                      ProbedLinks& probed) {
  const auto names = cluster.clusters();
  const auto groups = clusters_of(cluster, names);
  auto loads = group_loads(cluster.hosts, groups);
  std::erase_if(loads, [&](const GroupLoad& load) {
    return std::ranges::any_of(load.pairs, [&](const NicPair& pair) { return !rates.find(pair); });
  });
  auto ports = port_steps(cluster.hosts, groups);
  for (Step& step : ports) step = measured_pairs(step, rates);
  std::erase_if(ports, [](const Step& step) { return step.empty(); });
  runner.expect(2 * loads.size() + ports.size());

  const auto samples = run_loads(runner, loads);
  std::vector<GroupLoad> shared;  // in either direction
  for (std::size_t at = 0; at < loads.size(); ++at) {
    const GroupLoad& load = loads[at];
    for (const bool forward : {true, false}) {
      const GroupSample& sample = forward ? samples[at].forward : samples[at].backward;
      const std::size_t from = forward ? load.first : load.second, to = forward ? load.second : load.first;
      const auto rate = sample.rate();
      const std::string name = load_name(names[from], names[to], load.fabric);
      probed.loads.push_back(
          {name, sample.together.size(), sample.alone, sum_of(sample.together), rate.has_value()});
      if (!rate) continue;
      topology::SharedLink link{name, {}, {}, *rate};
      add_members(cluster, groups[from], load, link.from);
      add_members(cluster, groups[to], load, link.to);
      raise_to_alone(probed.links, link, sample.alone);
      probed.shared.push_back(std::move(link));
    }
    if (samples[at].forward.rate() || samples[at].backward.rate()) shared.push_back(load);
  }
  const auto uplinks = uplink_loads(cluster.hosts, groups, shared);
  runner.expect(uplinks.size());
  for (const UplinkLoad& uplink : uplinks)
    run_uplink(runner, cluster, groups, uplink, loads, samples, probed);
  auto found = run_ports(runner, ports, rates);
  std::move(found.begin(), found.end(), std::back_inserter(probed.shared));
}

}  // namespace tombolo::probe
