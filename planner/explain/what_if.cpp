#include "planner/explain/what_if.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <set>

#include "base/error.h"
#include "base/units.h"
#include "planner/model/index.h"
#include "planner/plan/cluster_view.h"

namespace tombolo::planner {
namespace {

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  for (const char one : text) {
    if (one != ' ' && one != '\t') {
      word += one;
    } else if (!word.empty()) {
      words.push_back(std::move(word));
      word.clear();
    }
  }
  if (!word.empty()) words.push_back(std::move(word));
  return words;
}

double parse_number(std::string_view text, std::string_view& rest) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return NAN;
  rest = text.substr(static_cast<std::size_t>(end - text.data()));
  return value;
}

double parse_latency(std::string_view text, std::string_view change) {
  std::string_view unit;
  const double value = parse_number(text, unit);
  const double scale = unit == "s" ? 1 : unit == "ms" ? 1e-3 : unit == "us" ? 1e-6 : NAN;
  const double seconds = value * scale;
  if (!(seconds >= 0 && seconds < 60))
    fail(Cause::kInvalidUsage,
         "what-if \"{}\": latency \"{}\": expected a time from 0 to 60 s with its unit, as 2ms or 50us",
         change, text);
  return seconds;
}

Change parse_change(std::string_view text) {
  const std::vector<std::string> words = words_of(text);
  Change change;
  if (words.size() == 2 && words[0] == "lose") {
    change.kind = Change::Kind::kLose;
    change.name = words[1];
    return change;
  }
  if ((words.size() == 4 || words.size() == 5) && words[0] == "link") {
    change.kind = Change::Kind::kLink;
    change.name = words[1];
    change.to = words[2];
    change.bytes_per_second = parse_bit_rate(words[3], fmt::format("what-if \"{}\": rate", text)) / 8;
    if (!(change.bytes_per_second > 0))
      fail(Cause::kInvalidUsage, "what-if \"{}\": rate \"{}\": expected more than 0, as 10Gbit", text,
           words[3]);
    if (words.size() == 5) change.latency_seconds = parse_latency(words[4], text);
    return change;
  }
  if (words.size() == 3 && words[0] == "speed") {
    change.kind = Change::Kind::kSpeed;
    change.name = words[1];
    std::string_view rest;
    change.factor = parse_number(words[2], rest);
    if (!(change.factor > 0 && change.factor <= 1000) || !rest.empty())
      fail(Cause::kInvalidUsage, "what-if \"{}\": factor \"{}\": expected a number above 0 and at most 1000",
           text, words[2]);
    return change;
  }
  fail(Cause::kInvalidUsage,
       "what-if \"{}\": expected \"lose NAME\", \"link FROM TO RATE [LATENCY]\" or \"speed NAME FACTOR\", "
       "each "
       "NAME a host or a cluster",
       text);
}

/// The index of the host of that name, or the indices of the cluster's hosts.
std::vector<std::size_t> hosts_named(const topology::ClusterFile& cluster, const std::string& name) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < cluster.hosts.size(); ++i)
    if (cluster.hosts[i].name == name) return {i};
  for (std::size_t i = 0; i < cluster.hosts.size(); ++i)
    if (cluster.hosts[i].cluster == name) found.push_back(i);
  if (!found.empty()) return found;
  std::vector<std::string> hosts;
  for (const auto& host : cluster.hosts) hosts.push_back(host.name);
  fail(Cause::kInvalidUsage, "what-if: \"{}\" is neither a host ({}) nor a cluster ({}) of the cluster file",
       name, fmt::join(hosts, ", "), fmt::join(cluster.clusters(), ", "));
}

void lose(topology::ClusterFile& cluster, const Change& change) {
  std::vector<std::string> names;
  for (const std::size_t index : hosts_named(cluster, change.name))
    names.push_back(cluster.hosts[index].name);
  const auto gone = [&](const std::string& name) { return std::ranges::find(names, name) != names.end(); };
  std::erase_if(cluster.hosts, [&](const topology::Host& host) { return gone(host.name); });
  std::erase_if(cluster.links,
                [&](const topology::Link& link) { return gone(link.from_host) || gone(link.to_host); });
  for (topology::SharedLink& link : cluster.shared_links)
    for (auto* ends : {&link.from, &link.to})
      std::erase_if(*ends, [&](const topology::NicName& end) { return gone(end.host); });
  std::erase_if(cluster.shared_links,
                [](const topology::SharedLink& link) { return link.from.empty() || link.to.empty(); });
  if (cluster.shared_processor) std::erase_if(cluster.shared_processor->hosts, gone);
  const auto clusters = cluster.clusters();
  const auto unknown = [&](const std::string& name) {
    return !name.empty() && std::ranges::find(clusters, name) == clusters.end();
  };
  std::erase_if(cluster.fabrics, [&](const topology::FabricDefault& fabric) {
    return unknown(fabric.from_cluster) || unknown(fabric.to_cluster);
  });
  if (cluster.hosts.empty())
    fail(Cause::kInvalidUsage, "what-if: without \"{}\" the cluster file has no host left", change.name);
}

/// Host and NIC, from and to.
using LinkEnds = std::array<std::string, 4>;

/// Sets the links of a cluster file that a change names.
class LinkSetter {
 public:
  LinkSetter(topology::ClusterFile& cluster, const topology::ClusterFile& before, const Change& change)
      : cluster_(cluster), usual_(before), change_(change) {
    for (std::size_t i = 0; i < cluster.links.size(); ++i) {
      const topology::Link& link = cluster.links[i];
      known_.emplace(LinkEnds{link.from_host, link.from_nic, link.to_host, link.to_nic}, i);
    }
  }

  void set(const topology::Host& from, const topology::Nic& from_nic, const topology::Host& to,
           const topology::Nic& to_nic) {
    const LinkEnds ends{from.name, from_nic.name, to.name, to_nic.name};
    changed_.insert(ends);
    if (const auto known = known_.find(ends); known != known_.end()) {
      topology::Link& link = cluster_.links[known->second];
      link.bytes_per_second = change_.bytes_per_second;
      if (change_.latency_seconds >= 0) link.latency_seconds = change_.latency_seconds;
      link.measured = false;
      return;
    }
    double latency = std::max(0.0, change_.latency_seconds);
    if (const auto usual = usual_.find(from.name, from_nic.name, to.name, to_nic.name);
        usual && change_.latency_seconds < 0)
      latency = usual->latency_seconds;  // the fabric's default
    known_.emplace(ends, cluster_.links.size());
    cluster_.links.push_back(
        {from.name, from_nic.name, to.name, to_nic.name, change_.bytes_per_second, latency, false});
  }

  bool changed(const LinkEnds& ends) const { return changed_.contains(ends); }

 private:
  topology::ClusterFile& cluster_;
  topology::LinkTable usual_;
  const Change& change_;
  std::map<LinkEnds, std::size_t> known_;  // indices of the cluster's links
  std::set<LinkEnds> changed_;
};

void link(topology::ClusterFile& cluster, const Change& change) {
  const topology::ClusterFile before = cluster;
  const ClusterView view(before, "per-peer", {});
  LinkSetter links(cluster, before, change);
  const auto tails = hosts_named(before, change.name), heads = hosts_named(before, change.to);
  std::size_t linked = 0;
  for (const std::size_t tail : tails) {
    for (const std::size_t head : heads) {
      if (tail == head) continue;
      const auto nics = view.nics_between(static_cast<int>(tail), static_cast<int>(head));
      const auto &from = before.hosts[tail], &to = before.hosts[head];
      if (!nics)
        fail(Cause::kInvalidUsage,
             "what-if: no two NICs of {} and {} are of one kind and fabric, so that they cannot be linked; "
             "give "
             "them such NICs in the cluster file",
             from.name, to.name);
      for (const int tail_nic : *nics->from)
        for (const int head_nic : *nics->to) {
          const auto& out = from.nics[at(tail_nic)];
          const auto& in = to.nics[at(head_nic)];
          links.set(from, out, to, in);
          links.set(to, in, from, out);
        }
      ++linked;
    }
  }
  if (linked == 0)
    fail(Cause::kInvalidUsage, "what-if: \"link {} {}\" names one host only", change.name, change.to);
  // If the change names every pair of a shared link, it is that link which changes.
  for (topology::SharedLink& shared : cluster.shared_links) {
    const bool named = std::ranges::all_of(shared.from, [&](const topology::NicName& out) {
      return std::ranges::all_of(shared.to, [&](const topology::NicName& in) {
        return out.host == in.host || links.changed({out.host, out.nic, in.host, in.nic});
      });
    });
    if (named) shared.bytes_per_second = change.bytes_per_second;
  }
}

}  // namespace

std::vector<Change> parse_changes(std::string_view text) {
  std::vector<Change> changes;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(';', begin), text.size());
    changes.push_back(parse_change(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return changes;
}

topology::ClusterFile with_changes(const topology::ClusterFile& cluster, const std::vector<Change>& changes) {
  topology::ClusterFile changed = cluster;
  for (const Change& change : changes) {
    switch (change.kind) {
      case Change::Kind::kLose:
        lose(changed, change);
        break;
      case Change::Kind::kLink:
        link(changed, change);
        break;
      case Change::Kind::kSpeed:
        for (const std::size_t index : hosts_named(changed, change.name))
          for (auto& device : changed.hosts[index].devices) device.flops_per_second *= change.factor;
        break;
    }
  }
  return changed;
}

}  // namespace tombolo::planner
