#include "planner/cost/slot_exchange.h"

#include <algorithm>
#include <map>

#include "planner/model/index.h"

namespace tombolo::planner {

namespace {

SlotExchange::Crossing crossing_of(const std::vector<SlotMember>& from, const std::vector<SlotMember>& to,
                                   double bytes) {
  SlotExchange::Crossing crossing{from.front().host, to.front().host, {}, {}, 0, 0, bytes};
  const auto collect = [](const std::vector<SlotMember>& some, std::vector<int>& ranks, int& count) {
    for (const SlotMember& member : some) {
      ranks.push_back(member.rank);
      count += member.sharers;
    }
    std::ranges::sort(ranks);
  };
  collect(from, crossing.from, crossing.from_ranks);
  collect(to, crossing.to, crossing.to_ranks);
  return crossing;
}

}  // namespace

SlotExchange all_to_all(const ClusterView& view, const ComputeProfile& profile,
                        const std::vector<SlotMember>& members, double bytes) {
  SlotExchange exchange;
  if (members.size() < 2) return exchange;
  std::map<int, std::vector<SlotMember>> by_host;
  for (const SlotMember& member : members) by_host[member.host].push_back(member);
  for (const auto& [host, here] : by_host) {
    const Path& inside = view.path(host, host);
    if (here.size() > 1 && inside.bytes_per_second > 0) {
      const double rate = inside.bytes_per_second * profile.inside_share;
      for (const SlotMember& member : here)
        exchange.inside_seconds = std::max(
            exchange.inside_seconds, static_cast<double>(here.size() - 1) * bytes / (rate * member.sharers));
    }
    if (here.size() > 1)
      exchange.wait_seconds = std::max(exchange.wait_seconds, inside.latency_seconds + profile.hop_seconds);
    for (const auto& [other, there] : by_host) {
      if (other == host) continue;
      exchange.crossings.push_back(
          crossing_of(here, there, static_cast<double>(here.size() * there.size()) * bytes));
      exchange.wait_seconds = std::max(exchange.wait_seconds,
                                       view.path(host, other).latency_seconds + profile.network_hop_seconds);
    }
  }
  return exchange;
}

SlotExchange ring_hop(const ClusterView& view, const ComputeProfile& profile,
                      const std::vector<SlotMember>& members, double bytes) {
  SlotExchange exchange;
  if (members.size() < 2) return exchange;
  struct Edges {
    std::vector<SlotMember> from, to;
  };
  std::map<std::pair<int, int>, Edges> between;  // by hosts
  for (std::size_t i = 0; i < members.size(); ++i) {
    const SlotMember &here = members[i], &next = members[(i + 1) % members.size()];
    const Path& path = view.path(here.host, next.host);
    exchange.wait_seconds = std::max(
        exchange.wait_seconds,
        path.latency_seconds + (path.inside_host ? profile.hop_seconds : profile.network_hop_seconds));
    if (!path.inside_host) {
      Edges& edges = between[{here.host, next.host}];
      edges.from.push_back(here);
      edges.to.push_back(next);
    } else if (path.bytes_per_second > 0) {
      const double rate = path.bytes_per_second * profile.inside_share;
      exchange.inside_seconds = std::max(exchange.inside_seconds, bytes / (rate * here.sharers));
    }
  }
  for (const auto& [hosts, edges] : between)
    exchange.crossings.push_back(
        crossing_of(edges.from, edges.to, static_cast<double>(edges.from.size()) * bytes));
  return exchange;
}

double seconds_alone(const SlotExchange& exchange, const ClusterView& view, NicUse nics) {
  std::map<int, double> out, in;
  for (const SlotExchange::Crossing& one : exchange.crossings) {
    const double rate = view.together(one.from_host, one.to_host, one.from_ranks, one.to_ranks, nics);
    if (rate <= 0) continue;
    out[one.from_host] += one.bytes / rate;
    in[one.to_host] += one.bytes / rate;
  }
  double longest = exchange.inside_seconds;
  for (const auto* ways : {&out, &in})
    for (const auto& [host, seconds] : *ways) longest = std::max(longest, seconds);
  return longest + exchange.wait_seconds;
}

}  // namespace tombolo::planner
