#include "tools/emulation/declared_links.h"

#include <algorithm>
#include <limits>
#include <set>

#include "base/format.h"

namespace tombolo::emulation {
namespace {

/// The segments that are joined with the link's first one where the link is not there. Links make no loops.
std::set<std::string> first_side(const Spec& spec, const LinkSpec& without) {
  std::set<std::string> side{without.first};
  for (bool grew = true; grew;) {
    grew = false;
    for (const LinkSpec& link : spec.links) {
      if (&link == &without || side.contains(link.first) == side.contains(link.second)) continue;
      side.insert({link.first, link.second});
      grew = true;
    }
  }
  return side;
}

}  // namespace

topology::ClusterFile with_declared_links(const Spec& spec, topology::ClusterFile cluster) {
  std::vector<std::set<std::string>> sides;
  for (const LinkSpec& link : spec.links) {
    sides.push_back(first_side(spec, link));
    topology::SharedLink there, back;
    for (const HostSpec& host : spec.hosts) {
      for (const NicSpec& nic : host.nics) {
        // NICs of other fabrics reach none of these.
        const bool first = sides.back().contains(nic.segment);
        (first ? there.from : there.to).push_back({host.name, nic.name});
      }
    }
    back.from = there.to;
    back.to = there.from;
    there.name = fmt::format("{} to {}", link.first, link.second);
    back.name = fmt::format("{} to {}", link.second, link.first);
    there.bytes_per_second = link.bits_per_second / 8;
    back.bytes_per_second = link.back() / 8;
    cluster.shared_links.push_back(std::move(there));
    cluster.shared_links.push_back(std::move(back));
  }
  for (const HostSpec& from : spec.hosts) {
    for (const HostSpec& to : spec.hosts) {
      if (&from == &to) continue;
      for (const NicSpec& one : from.nics) {
        for (const NicSpec& other : to.nics) {
          if (one.fabric != other.fabric) continue;
          double rate = std::min(one.bits_per_second, other.bits_per_second);
          Duration latency{};
          bool between = false;
          for (std::size_t i = 0; i < spec.links.size(); ++i) {
            const bool leaves_first = sides[i].contains(one.segment);
            if (leaves_first == sides[i].contains(other.segment)) continue;
            between = true;
            rate = std::min(rate, leaves_first ? spec.links[i].bits_per_second : spec.links[i].back());
            latency += spec.links[i].round_trip / 2;
          }
          if (between)
            cluster.links.push_back(
                {from.name, one.name, to.name, other.name, rate / 8, to_seconds(latency), false});
        }
      }
    }
  }
  return cluster;
}

}  // namespace tombolo::emulation
