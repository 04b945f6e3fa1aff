#include "planner/simulate/step_network.h"

#include <algorithm>
#include <array>

#include "planner/model/index.h"

namespace tombolo::planner {

std::size_t StepNetwork::Ends::Hash::operator()(const Ends& ends) const noexcept {
  const HostPair::Hash hash;
  // An odd factor keeps the pairs of senders apart from those of hosts.
  return hash({ends.from_host, ends.to_host}) +
         0x9e3779b97f4a7c15U * hash({ends.from_senders, ends.to_senders});
}

StepNetwork::StepNetwork(const Plan& plan, const ClusterView& view, FluidEngine& engine)
    : plan_(plan), view_(view), engine_(engine), use_(traits(plan.job.framework).nics) {
  if (use_ == NicUse::kFirst) return;
  slots_.resize(view.cluster().hosts.size());
  ranks_of_slot_.resize(plan.ranks.size());
  for (const auto& pipeline : plan.ranks_by_slot())
    for (const std::vector<int>& ranks : pipeline) {
      slots_[at(view.host_index(plan.ranks[at(ranks.front())].host))].push_back(ranks.front());
      ranks_of_slot_[at(ranks.front())] = ranks;
    }
}

int StepNetwork::senders(const std::vector<int>& ranks) {
  if (use_ == NicUse::kFirst || ranks.size() == 1) return ranks.front();
  const auto [known, added] =
      group_numbers_.try_emplace(ranks, static_cast<int>(plan_.ranks.size() + groups_.size()));
  if (added) groups_.push_back(ranks);
  return known->second;
}

TransferActivities StepNetwork::add(const TransferEnd& from, const TransferEnd& to, double bytes) {
  Route route(from, to);
  return add(route, bytes);
}

void StepNetwork::find(Route& route) {
  if (route.known_) return;
  const Path& path = view_.path(route.from_.host, route.to_.host);
  if (path.inside_host)
    route.inside_ = inside(route.from_, route.to_);
  else
    route.between_ = &between(route.from_, route.to_, path);
  route.known_ = true;
}

TransferActivities StepNetwork::add(Route& route, double bytes) {
  find(route);
  if (route.between_ == nullptr) {
    const Inside& link = route.inside_;
    longest_.raise(link.latencies);
    const Activity sent = link.bytes_per_second > 0
                              ? engine_.add(bytes, link.bytes_per_second, {link.out, link.in})
                              : engine_.add_delay(0);
    return {sent, sent};
  }
  longest_.raise(route.between_->latencies);
  std::vector<Lane>& lanes = route.between_->lanes;
  TransferActivities all;
  if (lanes.size() > 1) all = {engine_.add_delay(0), engine_.add_delay(0)};
  for (Lane& lane : lanes) {
    lane.bytes += bytes * lane.share;
    const Activity flow = engine_.add(bytes * lane.share, lane.bytes_per_second, lane.resources);
    if (lanes.size() == 1) return {flow, flow};
    engine_.order(all.first, flow);
    engine_.order(flow, all.last);
  }
  return all;
}

TransferActivities StepNetwork::add(const AlikeTransfer& transfer, double bytes) {
  longest_.raise(transfer.latencies);
  const std::vector<AlikePart>& parts = transfer.parts;
  TransferActivities all;
  if (parts.size() != 1) all = {engine_.add_delay(0), engine_.add_delay(0)};
  if (parts.empty()) engine_.order(all.first, all.last);
  for (const AlikePart& part : parts) {
    const Activity flow = engine_.add_alike(bytes * part.share, part.limit, part.uses);
    if (parts.size() == 1) return {flow, flow};
    engine_.order(all.first, flow);
    engine_.order(flow, all.last);
  }
  return all;
}

void StepNetwork::add_parts(const TransferEnd& from, const TransferEnd& to, AlikeTransfers& alike) {
  Route route(from, to);
  find(route);
  alike.add_latencies(route.between_ != nullptr ? route.between_->latencies : route.inside_.latencies);
  if (route.between_ != nullptr) {
    for (const Lane& lane : route.between_->lanes)
      alike.add_part(lane.share, lane.bytes_per_second, lane.resources);
  } else if (const Inside& link = route.inside_; link.bytes_per_second > 0) {
    alike.add_part(1, link.bytes_per_second, std::array{link.out, link.in});
  }
}

Latencies StepNetwork::latencies(int from_host, int to_host) const {
  const double one = latency(from_host, to_host);
  return {view_.host(from_host).cluster == view_.host(to_host).cluster ? one : 0, one};
}

StepNetwork::Between& StepNetwork::between(const TransferEnd& from, const TransferEnd& to, const Path& path) {
  const bool first = use_ == NicUse::kFirst;
  const auto [entry, added] =
      between_.try_emplace(Ends{from.host, first ? 0 : from.senders, to.host, first ? 0 : to.senders});
  Between& between = entry->second;
  if (!added) return between;
  between.from_host = from.host;
  between.to_host = to.host;
  between.latencies = latencies(from.host, to.host);
  if (first) {
    between.lanes.push_back(lane(path, from.host, to.host, {path.from_nic}, {path.to_nic}));
    return between;
  }
  const std::vector<Nics> out = cells_of(from.host, from.senders, *path.from_nics),
                          in = cells_of(to.host, to.senders, *path.to_nics);
  const std::size_t count = std::max(out.size(), in.size());
  double all = 0;
  for (std::size_t i = 0; i < count; ++i) {
    between.lanes.push_back(lane(path, from.host, to.host, out[i % out.size()], in[i % in.size()]));
    all += between.lanes.back().bytes_per_second;
  }
  for (Lane& one : between.lanes) one.share = one.bytes_per_second / all;
  return between;
}

std::vector<StepNetwork::Nics> StepNetwork::cells_of(int host, int senders, const Nics& nics) {
  const Cells& all = cells(host, nics);
  std::vector<bool> used(all.cells.size(), false);
  const auto use = [&](int rank) {
    for (const std::size_t cell : all.of_slot.at(rank)) used[cell] = true;
  };
  if (at(senders) < plan_.ranks.size())
    use(senders);
  else
    for (const int rank : groups_[at(senders) - plan_.ranks.size()]) use(rank);
  std::vector<Nics> result;
  for (std::size_t cell = 0; cell < used.size(); ++cell)
    if (used[cell]) result.push_back(all.cells[cell]);
  return result;
}

const StepNetwork::Cells& StepNetwork::cells(int host, const Nics& nics) {
  const auto [entry, added] = cells_.try_emplace({host, nics});
  Cells& all = entry->second;
  if (!added) return all;
  std::map<int, std::vector<int>> slots_by_nic;
  const topology::Host& owner = view_.host(host);
  const std::vector<std::vector<int>>& by_device = view_.device_nics(host, nics);
  for (const int slot : slots_[at(host)])
    for (const int rank : ranks_of_slot_[at(slot)]) {
      // Of a slot on several hosts only the ranks on the first count, as everywhere in this simulation.
      if (plan_.ranks[at(rank)].host != owner.name) continue;
      for (const int nic : by_device[at(plan_.ranks[at(rank)].device)])
        if (auto& slots = slots_by_nic[nic]; slots.empty() || slots.back() != slot) slots.push_back(slot);
    }
  std::map<std::vector<int>, std::size_t> numbers;
  for (const auto& [nic, slots] : slots_by_nic) {
    const auto [number, is_new] = numbers.try_emplace(slots, all.cells.size());
    if (is_new) {
      all.cells.emplace_back();
      for (const int slot : slots) all.of_slot[slot].push_back(number->second);
    }
    all.cells[number->second].push_back(nic);
  }
  return all;
}

/// What the pairs of these NICs attain together. A shared link that all of them cross is a resource that they
/// share with others; one that some cross only limits those.
StepNetwork::Lane StepNetwork::lane(const Path& path, int from_host, int to_host, Nics from, Nics to) {
  const std::size_t pairs = std::max(from.size(), to.size());
  double rate = 0, bursts = 0;
  struct Crossed {
    double bytes_per_second = 0;
    std::size_t pairs = 0;
  };
  std::map<int, Crossed> crossed;
  for (std::size_t i = 0; i < pairs; ++i) {
    const int out = from[i % from.size()], in = to[i % to.size()];
    // Where the cluster file has no link between these two, they count as the first pair.
    const auto known = view_.link(from_host, out, to_host, in);
    const double attained = known ? known->bytes_per_second : path.bytes_per_second;
    rate += attained;
    bursts += std::min(burst(from_host, out), burst(to_host, in));
    for (const int shared : view_.shared_between(from_host, out, to_host, in)) {
      crossed[shared].bytes_per_second += attained;
      ++crossed[shared].pairs;
    }
  }
  Lane lane;
  std::vector<Resource> shared;
  for (const auto& [link, part] : crossed) {
    const double most = view_.cluster().shared_links[at(link)].bytes_per_second;
    if (part.pairs == pairs) shared.push_back(shared_link(link));
    rate -= std::max(0.0, part.bytes_per_second - most);
  }
  rate = std::max(rate, path.bytes_per_second);
  lane.bytes_per_second = std::min({rate, most(from_host, from, true), most(to_host, to, false)});
  const auto [pair, added] = pairs_.try_emplace({from_host, from, to_host, to}, 0);
  if (added) pair->second = engine_.add_resource(rate, bursts);
  lane.resources = {nics(from_host, from, true), nics(to_host, to, false), pair->second};
  lane.resources.insert(lane.resources.end(), shared.begin(), shared.end());
  lane.from = std::move(from);
  lane.to = std::move(to);
  return lane;
}

StepNetwork::Inside StepNetwork::inside(const TransferEnd& from, const TransferEnd& to) {
  const Path& path = view_.path(from.host, to.host);
  if (path.bytes_per_second <= 0) return {};
  const RankPlacement& source = plan_.ranks[at(from.rank)];
  if (view_.host(from.host).devices[at(source.device)].kind == topology::DeviceKind::kGpu) {
    // GPUs have links of their own, and those of one slot send together.
    const double rate = path.bytes_per_second * std::min(from.sharers, to.sharers);
    const Resource out = port(from, true);
    return {rate, out, port(to, false), {}};
  }
  const auto [bus, added] = buses_.try_emplace(from.host, 0);
  if (added) bus->second = engine_.add_resource(path.bytes_per_second);
  return {path.bytes_per_second, bus->second, FluidEngine::kNone, latencies(from.host, from.host)};
}

std::vector<Flow> StepNetwork::flows() const {
  std::map<std::tuple<int, int, int, int>, double> bytes;
  for (const auto& [ends, between] : between_)
    for (const Lane& lane : between.lanes) {
      const std::size_t pairs = std::max(lane.from.size(), lane.to.size());
      for (std::size_t i = 0; i < pairs; ++i)
        bytes[{between.from_host, between.to_host, lane.from[i % lane.from.size()],
               lane.to[i % lane.to.size()]}] += lane.bytes / static_cast<double>(pairs);
    }
  std::vector<Flow> flows;
  flows.reserve(bytes.size());
  for (const auto& [ends, sent] : bytes) {
    const auto& [from_host, to_host, from_nic, to_nic] = ends;
    flows.push_back({from_host, from_nic, to_host, to_nic, sent});
  }
  return flows;
}

/// What leaves (`out`) or reaches these NICs of a host.
FluidEngine::Resource StepNetwork::nics(int host, const Nics& nics, bool out) {
  const auto [entry, added] = nics_.try_emplace({host, nics, out}, 0);
  if (added) {
    double bursts = 0;
    for (const int nic : nics) bursts += burst(host, nic);
    entry->second = engine_.add_resource(most(host, nics, out), bursts);
  }
  return entry->second;
}

/// What these NICs attain in one direction. One of which the cluster file tells nothing counts as the fastest
/// of its kind on the host, whichever transfer comes first: a search meets them in another order than a
/// simulation.
double StepNetwork::most(int host, const Nics& nics, bool out) const {
  const std::vector<topology::Nic>& all = view_.host(host).nics;
  const auto known = [&](int nic) { return out ? view_.egress(host, nic) : view_.ingress(host, nic); };
  double rate = 0;
  for (const int nic : nics) {
    double one = known(nic);
    const bool told = one > 0;
    for (int other = 0; !told && at(other) < all.size(); ++other)
      if (all[at(other)].kind == all[at(nic)].kind) one = std::max(one, known(other));
    rate += one;
  }
  return rate;
}

FluidEngine::Resource StepNetwork::shared_link(int index) {
  const auto [entry, added] = shared_links_.try_emplace(index, 0);
  if (added) entry->second = engine_.add_resource(view_.cluster().shared_links[at(index)].bytes_per_second);
  return entry->second;
}

/// The resource for what leaves (`out`) or reaches the GPUs of a slot inside their host.
FluidEngine::Resource StepNetwork::port(const TransferEnd& end, bool out) {
  const auto [entry, added] = ports_.try_emplace({end.rank, out}, 0);
  if (added)
    entry->second = engine_.add_resource(view_.path(end.host, end.host).bytes_per_second * end.sharers);
  return entry->second;
}

/// The size of the NIC's token bucket. 0 where the NIC attains clearly less than its nominal rate, because
/// then the bucket is not what limits it.
double StepNetwork::burst(int host, int index) const {
  const topology::Nic& given = view_.host(host).nics[at(index)];
  const double nominal = static_cast<double>(given.rate_bits_per_second) / 8;
  const double attained = std::max(view_.egress(host, index), view_.ingress(host, index));
  return attained >= 0.75 * nominal ? given.burst_bytes : 0;
}

}  // namespace tombolo::planner
