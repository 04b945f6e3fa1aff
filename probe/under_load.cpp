#include "probe/under_load.h"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "base/error.h"
#include "probe/shared_links.h"

namespace tombolo::probe {
namespace {

constexpr int kTries = 4;

void raise(double& best, double seen) {
  best = std::max(best, seen);
}

/// The attempt that moved more in all; the lanes of different ones do not belong together.
void keep_better(std::vector<double>& best, std::vector<double> seen) {
  const auto sum = [](const std::vector<double>& all) {
    return std::accumulate(all.begin(), all.end(), 0.0);
  };
  if (sum(seen) > sum(best)) best = std::move(seen);
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
  double sum() const {
    double all = 0;
    for (const double one : together) all += one;
    return all;
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

/// All NICs of a group that the load stands for, not only those that took part.
std::vector<topology::NicName> members_of(const topology::ClusterFile& cluster, const HostGroup& group,
                                          const GroupLoad& load) {
  std::vector<topology::NicName> all;
  for (const std::size_t host : group) {
    for (const topology::Nic& nic : cluster.hosts[host].nics) {
      const bool carries = nic.usable && !nic.addresses.empty();
      if (carries && nic.kind == load.kind && nic.fabric == load.fabric)
        all.push_back({cluster.hosts[host].name, nic.name});
    }
  }
  return all;
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
    const Played played = player.play(steps);
    std::size_t meeting = 0;
    for (const std::size_t load : doubtful) {
      auto& [there, back] = samples[load];
      raise(there.alone, played.there(meeting));
      raise(back.alone, played.back(meeting++));
      for (std::size_t pair = 0; pair < there.together.size(); ++pair, ++meeting) {
        raise(there.together[pair], played.there(meeting));
        raise(back.together[pair], played.back(meeting));
      }
    }
    std::erase_if(doubtful, [&](std::size_t load) {
      return !samples[load].there.rate() && !samples[load].back.rate();
    });
  }
  return samples;
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
    const Played played = player.play(steps);
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
  for (std::size_t at = 0; at < loads.size(); ++at) {
    const GroupLoad& load = loads[at];
    for (const bool there : {true, false}) {
      const GroupSample& sample = there ? samples[at].there : samples[at].back;
      const std::size_t from = there ? load.first : load.second, to = there ? load.second : load.first;
      const auto rate = sample.rate();
      const std::string name =
          fmt::format("{} to {}{}{}", names[from], names[to], load.fabric.empty() ? "" : " by ", load.fabric);
      probed.loads.push_back({name, sample.together.size(), sample.alone, sample.sum(), rate.has_value()});
      if (!rate) continue;
      probed.shared.push_back(
          {name, members_of(cluster, groups[from], load), members_of(cluster, groups[to], load), *rate});
      raise_to_alone(probed.links, probed.shared.back(), sample.alone);
    }
  }
  auto found = play_ports(player, ports, rates);
  std::move(found.begin(), found.end(), std::back_inserter(probed.shared));
}

}  // namespace tombolo::probe
