#include "planner/simulate/step_network.h"

#include <algorithm>

#include "planner/model/index.h"

namespace tombolo::planner {

FluidEngine::Activity StepNetwork::add(const TransferEnd& from, const TransferEnd& to, double bytes) {
  const Path& path = view_.path(from.host, to.host);
  if (path.inside_host) return add_inside(from, to, bytes);
  const auto [entry, added] = between_.try_emplace(HostPair{from.host, to.host});
  Between& between = entry->second;
  if (added) {
    between.flow = {from.host, path.from_nic, to.host, path.to_nic, 0};
    between.pair = engine_.add_resource(
        path.bytes_per_second, std::min(burst(from.host, path.from_nic), burst(to.host, path.to_nic)));
    between.out = nic(from.host, path.from_nic, true);
    between.in = nic(to.host, path.to_nic, false);
  }
  between.flow.bytes += bytes;
  way_.assign({between.out, between.in, between.pair});
  for (const int link : path.shared) way_.push_back(shared_link(link));
  return engine_.add(bytes, path.bytes_per_second, way_);
}

FluidEngine::Activity StepNetwork::add_inside(const TransferEnd& from, const TransferEnd& to, double bytes) {
  const Path& path = view_.path(from.host, to.host);
  if (path.bytes_per_second <= 0) return engine_.add_delay(0);
  const RankPlacement& source = plan_.ranks[at(from.rank)];
  if (view_.host(from.host).devices[at(source.device)].kind == topology::DeviceKind::kGpu) {
    // GPUs have links of their own, and those of one slot send together.
    const double rate = path.bytes_per_second * std::min(from.sharers, to.sharers);
    return engine_.add(bytes, rate, {port(from, true), port(to, false)});
  }
  const auto [bus, added] = buses_.try_emplace(from.host, 0);
  if (added) bus->second = engine_.add_resource(path.bytes_per_second);
  return engine_.add(bytes, path.bytes_per_second, {bus->second});
}

double StepNetwork::longest_latency() const {
  double longest = 0;
  for (const auto& [hosts, between] : between_)
    longest = std::max(longest, latency(between.flow.from_host, between.flow.to_host));
  for (const auto& [host, bus] : buses_) longest = std::max(longest, latency(host, host));
  return longest;
}

std::vector<Flow> StepNetwork::flows() const {
  std::vector<Flow> flows;
  flows.reserve(between_.size());
  for (const auto& [hosts, between] : between_) flows.push_back(between.flow);
  std::ranges::sort(flows, {}, [](const Flow& flow) { return std::pair(flow.from_host, flow.to_host); });
  return flows;
}

FluidEngine::Resource StepNetwork::nic(int host, int index, bool out) {
  const auto [entry, added] = nics_.try_emplace({host, index, out}, 0);
  if (added)
    entry->second = engine_.add_resource(out ? view_.egress(host, index) : view_.ingress(host, index),
                                         burst(host, index));
  return entry->second;
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
