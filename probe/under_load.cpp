#include "probe/under_load.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "base/error.h"
#include "probe/lanes.h"
#include "probe/shared_links.h"
#include "probe/uplinks.h"

namespace tombolo::probe {
namespace {

constexpr int kTries = 4;

void raise(double& best, double seen) {
  best = std::max(best, seen);
}

/// The attempt that moved more in all; the lanes of different ones do not belong together.
void keep_better(std::vector<double>& best, std::vector<double> seen) {
  if (sum_of(seen) > sum_of(best)) best = std::move(seen);
}

/// Both directions of a load between groups.
struct GroupSample {
  double alone = 0;
  std::vector<double> together;

  /// A pair that failed now has worked before, and tells nothing of the others.
  std::optional<double> rate() const {
    if (std::ranges::find(together, 0.0) != together.end()) return std::nullopt;
    return shared_rate({std::vector<double>(together.size(), alone), together});
  }
};
struct BothWays {
  GroupSample there, back;
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

/// Adds all NICs of a group that the load (of groups, or of an uplink) stands for, not only those that took
/// part.
template <typename Load>
void add_members(const topology::ClusterFile& cluster, const HostGroup& group, const Load& load,
                 std::vector<topology::NicName>& members) {
  for (const std::size_t host : group)
    for (const topology::Nic& nic : cluster.hosts[host].nics)
      if (joins(nic, load.kind, load.fabric)) members.push_back({cluster.hosts[host].name, nic.name});
}

/// "A to B", or "A to B+C by storage".
std::string load_name(const std::string& from, const std::string& to, const std::string& fabric) {
  return fmt::format("{} to {}{}{}", from, to, fabric.empty() ? "" : " by ", fabric);
}

std::vector<BothWays> play_loads(Player& player, const std::vector<GroupLoad>& loads) {
  std::vector<BothWays> samples(loads.size());
  std::vector<std::size_t> doubtful(loads.size());
  for (std::size_t load = 0; load < loads.size(); ++load) {
    doubtful[load] = load;
    samples[load].there.together.resize(loads[load].pairs.size());
    samples[load].back.together.resize(loads[load].pairs.size());
  }
  for (int attempt = 0; attempt < kTries && !doubtful.empty(); ++attempt) {
    std::vector<Step> steps;
    for (const std::size_t load : doubtful) {
      steps.push_back({loads[load].pairs.front()});
      steps.push_back(loads[load].pairs);
    }
    if (attempt > 0) player.expect(steps.size());
    const Played played = player.play(steps, Load::kShared);
    std::size_t meeting = 0;
    for (const std::size_t load : doubtful) {
      auto& [there, back] = samples[load];
      raise(there.alone, played.there(meeting));
      raise(back.alone, played.back(meeting++));
      std::vector<double> out, in;
      for (std::size_t pair = 0; pair < loads[load].pairs.size(); ++pair, ++meeting) {
        out.push_back(played.there(meeting));
        in.push_back(played.back(meeting));
      }
      keep_better(there.together, std::move(out));
      keep_better(back.together, std::move(in));
    }
    std::erase_if(doubtful, [&](std::size_t load) {
      return !samples[load].there.rate() && !samples[load].back.rate();
    });
  }
  return samples;
}

/// Of the group of an uplink's load with one of the others, out of the group or into it.
UplinkShare share_with(const UplinkLoad& uplink, std::size_t other, bool out,
                       const std::vector<GroupLoad>& loads, const std::vector<BothWays>& samples) {
  for (std::size_t at = 0; at < loads.size(); ++at) {
    const GroupLoad& load = loads[at];
    if (load.kind != uplink.kind || load.fabric != uplink.fabric) continue;
    const bool first = load.first == uplink.group && load.second == other;
    if (!first && (load.second != uplink.group || load.first != other)) continue;
    const GroupSample& sample = first == out ? samples[at].there : samples[at].back;
    return {sample.rate().value_or(0), sample.alone};
  }
  return {};
}

/// Loads what a cluster sends to several others, and takes from them, at once. Where that shares one link, it
/// takes the place of those that were found with each of them.
void play_uplink(Player& player, const topology::ClusterFile& cluster, const std::vector<HostGroup>& groups,
                 const UplinkLoad& uplink, const std::vector<GroupLoad>& loads,
                 const std::vector<BothWays>& samples, ProbedLinks& probed) {
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
    if (attempt > 0) player.expect(1);
    const Played played = player.play({uplink.pairs}, Load::kShared);
    for (Direction& way : ways) {
      std::vector<double> seen;
      for (std::size_t pair = 0; pair < uplink.pairs.size(); ++pair)
        seen.push_back(way.out ? played.there(pair) : played.back(pair));
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

/// The lanes of two hosts, there and back.
void add_port_samples(const Step& lanes, const PairRates& rates, std::vector<PortSample>& samples) {
  PortSample there{lanes.front().left, lanes.front().right, {}, {}, {}};
  PortSample back{lanes.front().right, lanes.front().left, {}, {}, {}};
  for (const Meeting& lane : lanes) {
    const auto alone = *rates.find(lane);
    there.from_nics.push_back(lane.left_nic);
    there.to_nics.push_back(lane.right_nic);
    there.load.alone.push_back(alone.first);
    back.load.alone.push_back(alone.second);
  }
  back.from_nics = there.to_nics;
  back.to_nics = there.from_nics;
  there.load.together.resize(lanes.size());
  back.load.together.resize(lanes.size());
  samples.push_back(std::move(there));
  samples.push_back(std::move(back));
}

/// The pairs of hosts of a step, each with its lanes.
std::vector<Step> host_pairs(const Step& step) {
  std::vector<Step> pairs;
  for (const Meeting& meeting : step) {
    if (pairs.empty() || pairs.back().front().left != meeting.left) pairs.emplace_back();
    pairs.back().push_back(meeting);
  }
  return pairs;
}

/// Without lanes that the tournament could not measure, and pairs that have a single one left.
Step measured_lanes(const Step& step, const PairRates& rates) {
  Step kept;
  for (Step& pair : host_pairs(step)) {
    std::erase_if(pair, [&](const Meeting& lane) { return !rates.find(lane); });
    if (pair.size() > 1) kept.insert(kept.end(), pair.begin(), pair.end());
  }
  return kept;
}

std::vector<topology::SharedLink> play_ports(Player& player, const std::vector<Step>& steps,
                                             const PairRates& rates) {
  std::vector<PortSample> samples;
  for (const Step& step : steps)
    for (const Step& pair : host_pairs(step)) add_port_samples(pair, rates, samples);
  std::vector<topology::SharedLink> found;
  for (int attempt = 0; attempt < kTries && !steps.empty(); ++attempt) {
    if (attempt > 0) player.expect(steps.size());
    const Played played = player.play(steps, Load::kOwn);
    std::size_t meeting = 0;
    for (std::size_t at = 0; at < samples.size(); at += 2) {
      std::vector<double> there, back;
      for (std::size_t lane = 0; lane < samples[at].from_nics.size(); ++lane, ++meeting) {
        there.push_back(played.there(meeting));
        back.push_back(played.back(meeting));
      }
      keep_better(samples[at].load.together, std::move(there));
      keep_better(samples[at + 1].load.together, std::move(back));
    }
    found = find_shared_ports(player.hosts(), samples);
    if (found.empty()) break;
  }
  return found;
}

}  // namespace

void PairRates::add(const Meeting& meeting, double there, double back) {
  rates_[key_of(meeting)] = meeting.left < meeting.right ? std::pair(there, back) : std::pair(back, there);
}

std::optional<std::pair<double, double>> PairRates::find(const Meeting& meeting) const {
  const auto found = rates_.find(key_of(meeting));
  if (found == rates_.end()) return std::nullopt;
  if (meeting.left < meeting.right) return found->second;
  return std::pair(found->second.second, found->second.first);
}

PairRates::Key PairRates::key_of(const Meeting& meeting) {
  if (meeting.left < meeting.right) return {meeting.left, meeting.left_nic, meeting.right, meeting.right_nic};
  return {meeting.right, meeting.right_nic, meeting.left, meeting.left_nic};
}

void probe_under_load(Player& player, const topology::ClusterFile& cluster, const PairRates& rates,
                      ProbedLinks& probed) {
  const auto names = cluster.clusters();
  const auto groups = clusters_of(cluster, names);
  auto loads = group_loads(cluster.hosts, groups);
  std::erase_if(loads, [&](const GroupLoad& load) {
    return std::ranges::any_of(load.pairs, [&](const Meeting& pair) { return !rates.find(pair); });
  });
  auto ports = port_steps(cluster.hosts, groups);
  for (Step& step : ports) step = measured_lanes(step, rates);
  std::erase_if(ports, [](const Step& step) { return step.empty(); });
  player.expect(2 * loads.size() + ports.size());

  const auto samples = play_loads(player, loads);
  std::vector<GroupLoad> shared;  // in either direction
  for (std::size_t at = 0; at < loads.size(); ++at) {
    const GroupLoad& load = loads[at];
    for (const bool there : {true, false}) {
      const GroupSample& sample = there ? samples[at].there : samples[at].back;
      const std::size_t from = there ? load.first : load.second, to = there ? load.second : load.first;
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
    if (samples[at].there.rate() || samples[at].back.rate()) shared.push_back(load);
  }
  const auto uplinks = uplink_loads(cluster.hosts, groups, shared);
  player.expect(uplinks.size());
  for (const UplinkLoad& uplink : uplinks)
    play_uplink(player, cluster, groups, uplink, loads, samples, probed);
  auto found = play_ports(player, ports, rates);
  std::move(found.begin(), found.end(), std::back_inserter(probed.shared));
}

}  // namespace tombolo::probe
