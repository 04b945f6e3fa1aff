#include "probe/rounds/schedule.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "probe/rounds/nic_pairs.h"
#include "transport/measure/round_robin.h"

namespace tombolo::probe {
namespace {

/// The pairs of NICs between two hosts, the best first, without those of which a better pair has taken a NIC.
Step disjoint_nic_pairs(const std::vector<topology::Host>& hosts, std::size_t left, std::size_t right) {
  Step step;
  std::set<std::size_t> left_taken, right_taken;
  for (const auto& [left_nic, right_nic] : nic_pairs(hosts[left], hosts[right])) {
    if (left_taken.contains(left_nic) || right_taken.contains(right_nic)) continue;
    left_taken.insert(left_nic);
    right_taken.insert(right_nic);
    step.push_back({left, right, left_nic, right_nic});
  }
  return step;
}

/// How many rounds of a round robin pair every participant with two others, where there are so many.
std::size_t rounds_for_two(std::size_t participants) {
  if (participants <= 2) return 1;
  return participants % 2 == 0 ? 2 : 3;  // with an odd number, one participant is left out in each round
}

}  // namespace

std::vector<Step> pair_steps(const std::vector<topology::Host>& hosts) {
  std::vector<Step> steps;
  for (const auto& round : transport::measure::round_robin(static_cast<int>(hosts.size()))) {
    std::vector<Step> of_round;
    for (auto [first, second] : round) {
      auto left = static_cast<std::size_t>(first);
      auto right = static_cast<std::size_t>(second);
      auto pairs = nic_pairs(hosts[left], hosts[right]);
      // The order is reversed, so that the slow NICs of all pairs are measured together, and so are the fast
      // ones.
      std::reverse(pairs.begin(), pairs.end());
      if (of_round.size() < pairs.size()) of_round.resize(pairs.size());
      for (std::size_t n = 0; n < pairs.size(); ++n) {
        of_round[n].push_back({left, right, pairs[n].first, pairs[n].second});
      }
    }
    for (auto& step : of_round) steps.push_back(std::move(step));
  }
  return steps;
}

std::vector<GroupLoad> group_loads(const std::vector<topology::Host>& hosts,
                                   const std::vector<HostGroup>& groups) {
  std::vector<GroupLoad> loads;
  for (std::size_t first = 0; first < groups.size(); ++first) {
    for (std::size_t second = first + 1; second < groups.size(); ++second) {
      std::map<std::pair<topology::NicKind, std::string>, GroupLoad> by_fabric;
      const std::size_t count = std::min(groups[first].size(), groups[second].size());
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t left = groups[first][i], right = groups[second][i];
        for (const auto& [left_nic, right_nic] : nic_pairs(hosts[left], hosts[right])) {
          const topology::Nic& nic = hosts[left].nics[left_nic];
          GroupLoad& load = by_fabric[{nic.kind, nic.fabric}];
          // each host takes part by one NIC
          if (!load.pairs.empty() && load.pairs.back().left == left) continue;
          load.first = first;
          load.second = second;
          load.kind = nic.kind;
          load.fabric = nic.fabric;
          load.pairs.push_back({left, right, left_nic, right_nic});
        }
      }
      for (auto& [fabric, load] : by_fabric) {
        if (load.pairs.size() > 1) loads.push_back(std::move(load));
      }
    }
  }
  return loads;
}

std::vector<Step> port_steps(const std::vector<topology::Host>& hosts, const std::vector<HostGroup>& groups) {
  std::vector<HostGroup> pairing;  // in each of these groups, hosts are paired with each other
  HostGroup alone;
  for (const HostGroup& group : groups) {
    if (group.size() > 1) {
      pairing.push_back(group);
    } else {
      alone.insert(alone.end(), group.begin(), group.end());
    }
  }
  if (alone.size() > 1) pairing.push_back(std::move(alone));

  std::vector<Step> steps;
  for (const HostGroup& group : pairing) {
    const auto rounds = transport::measure::round_robin(static_cast<int>(group.size()));
    const std::size_t count = std::min(rounds.size(), rounds_for_two(group.size()));
    if (steps.size() < count) steps.resize(count);
    for (std::size_t round = 0; round < count; ++round) {
      for (const auto& [first, second] : rounds[round]) {
        Step of_pair = disjoint_nic_pairs(hosts, group[static_cast<std::size_t>(first)],
                                          group[static_cast<std::size_t>(second)]);
        if (of_pair.size() < 2) continue;
        std::move(of_pair.begin(), of_pair.end(), std::back_inserter(steps[round]));
      }
    }
  }
  std::erase_if(steps, [](const Step& step) { return step.empty(); });
  return steps;
}

}  // namespace tombolo::probe
