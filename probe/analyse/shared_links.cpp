#include "probe/analyse/shared_links.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "base/error.h"

namespace tombolo::probe {
namespace {

// Two pairs on one link attain half each. This limit leaves room on both sides for the noise of a busy
// machine.
constexpr double kClearlyLess = 0.75;
// Pairs that are loaded at once do not end at the same moment, so their sum comes out a little too high.
constexpr double kSameSpeed = 1.2;
// A NIC pair that is slower than this share of the fastest would lose too little to it on one port to be
// noticed.
constexpr double kTooSlowToTell = 0.4;

/// The NIC pairs of a sample that lost speed. A single one shares with no other. Of two pairs whose sum is
/// too little, both lost: two streams on one port seldom get equal rates, and one may keep nearly all of it.
LoadSample pairs_that_lost(const PortSample& sample, std::set<std::size_t>& from, std::set<std::size_t>& to) {
  std::vector<std::size_t> pairs;
  LoadSample able, lost;
  for (std::size_t pair = 0; pair < sample.from_nics.size(); ++pair) {
    if (sample.load.alone[pair] < kTooSlowToTell * *std::ranges::max_element(sample.load.alone)) continue;
    pairs.push_back(pair);
    able.alone.push_back(sample.load.alone[pair]);
    able.together.push_back(sample.load.together[pair]);
  }
  const bool both = pairs.size() == 2 && shared_rate(able).has_value();
  for (const std::size_t pair : pairs) {
    const double alone = sample.load.alone[pair], together = sample.load.together[pair];
    if (together <= 0 || (!both && together >= kClearlyLess * alone)) continue;  // 0: it failed
    from.insert(sample.from_nics[pair]);
    to.insert(sample.to_nics[pair]);
    lost.alone.push_back(alone);
    lost.together.push_back(together);
  }
  return lost;
}

/// What one host lost in speed when it was measured with one other host.
struct Loss {
  std::size_t other = 0;
  std::set<std::size_t> mine, theirs;  // NICs
  std::optional<double> rate;          // nothing where its NICs do not share
};

std::vector<topology::NicName> names_of(const topology::Host& host, const std::set<std::size_t>& nics) {
  std::vector<topology::NicName> names;
  for (const std::size_t nic : nics) names.push_back({host.name, host.nics[nic].name});
  return names;
}

/// All NICs of other hosts that these NICs can reach.
std::vector<topology::NicName> reached_by(const std::vector<topology::Host>& hosts, std::size_t mine,
                                          const std::set<std::size_t>& nics) {
  std::vector<topology::NicName> names;
  for (std::size_t h = 0; h < hosts.size(); ++h) {
    if (h == mine) continue;
    for (const topology::Nic& nic : hosts[h].nics) {
      const bool reached = std::ranges::any_of(nics, [&](std::size_t own) {
        const topology::Nic& ours = hosts[mine].nics[own];
        return ours.kind == nic.kind && ours.fabric == nic.fabric;
      });
      if (reached && nic.usable) names.push_back({hosts[h].name, nic.name});
    }
  }
  return names;
}

std::string listed(const std::vector<topology::NicName>& names) {
  std::string text = names.front().host;
  for (const auto& name : names) text += (&name == &names.front() ? " " : "+") + name.nic;
  return text;
}

bool shares_with_all(const std::vector<Loss>& seen) {
  return std::ranges::all_of(seen, [](const Loss& one) { return one.rate.has_value(); });
}

/// The NICs that lost speed with every other host; sets `rate` to the most that they carried together.
std::set<std::size_t> always_lost(const std::vector<Loss>& seen, double& rate) {
  std::set<std::size_t> nics = seen.front().mine;
  for (const Loss& one : seen) {
    std::erase_if(nics, [&](std::size_t nic) { return !one.mine.contains(nic); });
    rate = std::max(rate, *one.rate);
  }
  return nics;
}

}  // namespace

double sum_of(const std::vector<double>& all) {
  return std::accumulate(all.begin(), all.end(), 0.0);
}

std::optional<double> shared_rate(const LoadSample& sample) {
  TOMBOLO_CHECK(sample.together.size() == sample.alone.size(), "{} pairs together, {} alone",
                sample.together.size(), sample.alone.size());
  if (sample.alone.size() < 2) return std::nullopt;
  if (std::ranges::any_of(sample.alone, [](double rate) { return rate <= 0; })) return std::nullopt;
  const double together = sum_of(sample.together);
  if (together <= 0 || together >= kClearlyLess * sum_of(sample.alone)) return std::nullopt;
  const double best = *std::ranges::max_element(sample.alone);
  // A link does not carry less because more pairs use it, so the hosts were busy with something else.
  if (together < kClearlyLess * best) return std::nullopt;
  return together > kSameSpeed * best ? together : best;
}

std::vector<topology::SharedLink> find_shared_ports(const std::vector<topology::Host>& hosts,
                                                    const std::vector<PortSample>& samples) {
  std::map<std::size_t, std::vector<Loss>> sending, receiving;
  for (const PortSample& sample : samples) {
    std::set<std::size_t> from, to;
    const auto rate = shared_rate(pairs_that_lost(sample, from, to));
    sending[sample.from].push_back({sample.to, from, to, rate});
    receiving[sample.to].push_back({sample.from, to, from, rate});
  }
  std::vector<topology::SharedLink> found;
  for (const auto* side : {&sending, &receiving}) {
    const bool out = side == &sending;
    for (const auto& [host, seen] : *side) {
      if (!shares_with_all(seen)) continue;
      double rate = 0;
      const std::set<std::size_t> nics = always_lost(seen, rate);
      if (nics.size() < 2) continue;
      topology::SharedLink link;
      link.bytes_per_second = rate;
      auto mine = names_of(hosts[host], nics);
      auto others = reached_by(hosts, host, nics);
      if (seen.size() == 1) {
        const Loss& only = seen.front();
        // The port is reported once, for the sender, and not at all where other hosts show whether the far
        // end shares.
        if (!out || receiving[only.other].size() > 1) continue;
        others = names_of(hosts[only.other], only.theirs);
      }
      link.name = fmt::format("{} {}", listed(mine), out ? "out" : "in");
      if (seen.size() == 1) link.name = fmt::format("{} to {}", listed(mine), listed(others));
      link.from = out ? mine : others;
      link.to = out ? others : mine;
      found.push_back(std::move(link));
    }
  }
  return found;
}

void raise_to_alone(std::vector<topology::Link>& links, const topology::SharedLink& shared, double alone) {
  // The most that each NIC attains outside the shared link.
  std::map<std::pair<std::string, std::string>, double> out, in;
  const auto crosses = [&](const topology::Link& link) {
    return shared.carries(link.from_host, link.from_nic, link.to_host, link.to_nic);
  };
  for (const topology::Link& link : links) {
    if (crosses(link)) continue;
    double& most_out = out[{link.from_host, link.from_nic}];
    double& most_in = in[{link.to_host, link.to_nic}];
    most_out = std::max(most_out, link.bytes_per_second);
    most_in = std::max(most_in, link.bytes_per_second);
  }
  const auto capped = [](double rate, const auto& most, const std::string& host, const std::string& nic) {
    const auto found = most.find({host, nic});
    return found == most.end() ? rate : std::min(rate, found->second);
  };
  for (topology::Link& link : links) {
    if (!crosses(link)) continue;
    const double able =
        capped(capped(alone, out, link.from_host, link.from_nic), in, link.to_host, link.to_nic);
    link.bytes_per_second = std::max(link.bytes_per_second, able);
  }
}

}  // namespace tombolo::probe
