#include "planner/cost/expert_exchange.h"

#include <algorithm>
#include <map>

#include "planner/model/index.h"

namespace tombolo::planner {

ExpertExchange expert_exchange(const Job& job, const ClusterView& view, const ComputeProfile& profile,
                               const std::vector<ExpertMember>& members, double rows) {
  ExpertExchange exchange;
  if (members.size() < 2) return exchange;
  const Model& model = job.model;
  const double tokens = rows * model.context / job.context_parallel;
  const double to_one = job.expert_load() * tokens * model.experts_per_token * model.hidden *
                        model.bytes_per_value / static_cast<double>(members.size());
  std::map<int, std::vector<ExpertMember>> by_host;
  for (const ExpertMember& member : members) by_host[member.host].push_back(member);
  for (const auto& [host, here] : by_host) {
    const Path& inside = view.path(host, host);
    if (here.size() > 1 && inside.bytes_per_second > 0) {
      const double rate = inside.bytes_per_second * profile.inside_share;
      for (const ExpertMember& member : here)
        exchange.inside_seconds = std::max(
            exchange.inside_seconds, static_cast<double>(here.size() - 1) * to_one / (rate * member.sharers));
    }
    if (here.size() > 1)
      exchange.wait_seconds = std::max(exchange.wait_seconds, inside.latency_seconds + profile.hop_seconds);
    for (const auto& [other, there] : by_host) {
      if (other == host) continue;
      ExpertExchange::Crossing crossing;
      crossing.from_host = host;
      crossing.to_host = other;
      const auto collect = [](const std::vector<ExpertMember>& some, std::vector<int>& ranks, int& count) {
        for (const ExpertMember& member : some) {
          ranks.push_back(member.rank);
          count += member.sharers;
        }
        std::ranges::sort(ranks);
      };
      collect(here, crossing.from, crossing.from_ranks);
      collect(there, crossing.to, crossing.to_ranks);
      crossing.bytes = static_cast<double>(here.size() * there.size()) * to_one;
      exchange.crossings.push_back(std::move(crossing));
      exchange.wait_seconds = std::max(exchange.wait_seconds,
                                       view.path(host, other).latency_seconds + profile.network_hop_seconds);
    }
  }
  return exchange;
}

double seconds_alone(const ExpertExchange& exchange, const ClusterView& view, NicUse nics) {
  std::map<int, double> out, in;
  for (const ExpertExchange::Crossing& one : exchange.crossings) {
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

int expert_exchanges(Recompute recompute, bool forward) noexcept {
  return !forward && recompute == Recompute::kFull ? 4 : 2;
}

}  // namespace tombolo::planner
