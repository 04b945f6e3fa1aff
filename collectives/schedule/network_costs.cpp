#include "collectives/schedule/network_costs.h"

#include <cmath>

namespace tombolo::collectives {
namespace {

/// The nearest whole number, of which figures of real links are no more than so many.
std::uint64_t whole(double value) noexcept {
  constexpr double kMost = 1e10;
  return static_cast<std::uint64_t>(std::clamp(std::round(value), 1.0, kMost));
}

}  // namespace

std::string_view level_name(Level level) noexcept {
  constexpr std::string_view kNames[] = {"inside-hosts", "inside-clusters", "between-clusters"};
  return kNames[static_cast<std::size_t>(level)];
}

LinkCost LinkCost::of(double latency_seconds, double bytes_per_second) noexcept {
  return {whole(latency_seconds * 1e9), whole(1e12 / bytes_per_second)};
}

void NetworkCosts::set_uplink(double bytes_per_second) noexcept {
  uplink_byte_ps = bytes_per_second > 0 ? whole(1e12 / bytes_per_second) : 0;
}

JobCosts::JobCosts(const RankMap& ranks, const NetworkCosts& network)
    : network_(network), ranks_(static_cast<std::uint64_t>(ranks.size)) {
  const bool far = ranks.clusters.size() > 1 && !ranks.uniform_links;
  per_host_ = ranks.hosts.front().front();
  for (const auto& cluster : ranks.hosts) {
    for (const std::size_t one : cluster)
      if (one != per_host_) per_host_ = 1;
  }
  all_hosts_ = (ranks_ + per_host_ - 1) / per_host_;
  largest_ = smallest_ = ranks_;
  if (!far) return;
  clusters_ = ranks.clusters.size();
  largest_ = 1;
  for (const auto& cluster : ranks.clusters) {
    largest_ = std::max<std::uint64_t>(largest_, cluster.size());
    smallest_ = std::min<std::uint64_t>(smallest_, cluster.size());
  }
}

Nanoseconds JobCosts::around(std::uint64_t bytes, Nanoseconds work) const noexcept {
  const std::uint64_t between = clusters_ > 1 ? clusters_ : 0;
  const std::uint64_t across_hosts = all_hosts_ > 1 ? all_hosts_ - between : 0;
  return between * hop(Level::kBetween, bytes) + across_hosts * hop(Level::kCluster, bytes) +
         (ranks_ - between - across_hosts) * hop(Level::kHost, bytes) + ranks_ * work;
}

Nanoseconds JobCosts::around_cluster(std::uint64_t bytes, Nanoseconds work) const noexcept {
  const std::uint64_t across_hosts = hosts() > 1 ? hosts() : 0;
  return across_hosts * hop(Level::kCluster, bytes) + (largest_ - across_hosts) * hop(Level::kHost, bytes) +
         largest_ * work;
}

Nanoseconds JobCosts::one_to_all(std::uint64_t bytes) const noexcept {
  const std::uint64_t leave_host = per_host_ * (ranks_ - per_host_);
  const std::uint64_t leave_cluster =
      std::max(largest_ * (ranks_ - largest_), smallest_ * (ranks_ - smallest_));
  return latency(farthest()) + messages(2) +
         std::max({messages(ranks_ - 1), wire(Level::kHost, (per_host_ - 1) * bytes),
                   wire(Level::kCluster, leave_host * bytes), wire(Level::kBetween, leave_cluster * bytes)});
}

Nanoseconds JobCosts::one_to_cluster(std::uint64_t bytes) const noexcept {
  return latency(inside()) + messages(2) +
         std::max({messages(largest_ - 1), wire(Level::kHost, (per_host_ - 1) * bytes),
                   wire(Level::kCluster, per_host_ * (largest_ - per_host_) * bytes)});
}

Nanoseconds JobCosts::rounds(std::uint64_t count, std::uint64_t bytes, Nanoseconds work) const noexcept {
  const auto on_host = std::min(count, static_cast<std::uint64_t>(std::bit_width(per_host_) - 1));
  return on_host * (hop(Level::kHost, bytes) + work) +
         (count - on_host) * (hop(inside(), per_host_ * bytes) + work);
}

void tune_to_links(Tuning& tuning, const RankMap& ranks, const JobCosts* known) noexcept {
  const bool crosses = ranks.clusters.size() > 1;
  tuning.latency_bytes = crosses && known != nullptr ? known->filling(Level::kBetween) : 0;
  tuning.crossing_bytes = known != nullptr || !crosses ? tuning.latency_bytes : kCrossingBytesOfLongLinks;
}

}  // namespace tombolo::collectives
