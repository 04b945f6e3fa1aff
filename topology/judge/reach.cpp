#include "topology/judge/reach.h"

#include <algorithm>
#include <optional>

#include "base/format.h"
#include "topology/system/routes.h"

namespace tombolo::topology {
namespace {

bool is_v6(std::string_view text) {
  return text.find(':') != std::string_view::npos;
}

bool is_local(const std::string& address) {
  return address.find('%') != std::string::npos || address.starts_with("169.254.") ||
         address.starts_with("127.") || address == "::1";
}

/// The longest prefix among `prefixes` in which an address lies.
std::optional<std::string> covering(const std::vector<std::string>& prefixes, const std::string& address) {
  std::optional<std::string> best;
  auto length = [](const std::string& prefix) { return std::atoi(prefix.c_str() + prefix.find('/') + 1); };
  for (const std::string& prefix : prefixes) {
    if (is_within(address, prefix) && (!best || length(prefix) > length(*best))) best = prefix;
  }
  return best;
}

std::vector<std::string> global_addresses(const Nic& nic) {
  std::vector<std::string> all;
  std::copy_if(nic.addresses.begin(), nic.addresses.end(), std::back_inserter(all),
               [](const std::string& address) { return !is_local(address); });
  return all;
}

/// Judges by IP in one direction: from a NIC to an address of another.
Reach one_way(const Nic& from, const Nic& to, const std::string& address) {
  if (auto network = covering(from.networks, address))
    return {Chance::kYes, fmt::format("{} is in {}, the network of {}", address, *network, from.name)};
  if (auto route = covering(from.routes, address))
    return {Chance::kLikely,
            fmt::format("{} has a route to {} through a router ({})", from.name, address, *route)};
  if (from.networks.empty() && from.routes.empty())
    return {Chance::kUnknown, fmt::format("the networks of {} are not known", from.name)};
  return {Chance::kNo, fmt::format("{} has no route to {} of {}", from.name, address, to.name)};
}

/// Judges by IP in both directions. The best address family decides, and within a family the worse direction.
Reach by_ip(const Nic& from, const Nic& to) {
  const auto here = global_addresses(from), there = global_addresses(to);
  if (here.empty() || there.empty()) {
    const Nic& bare = here.empty() ? from : to;
    return {bare.addresses.empty() ? Chance::kUnknown : Chance::kNo,
            fmt::format("{} has no IP address that others can reach", bare.name)};
  }
  std::optional<Reach> best;
  for (const std::string& source : here) {
    for (const std::string& target : there) {
      if (is_v6(source) != is_v6(target)) continue;
      Reach way = one_way(from, to, target), back = one_way(to, from, source);
      if (back.chance > way.chance) way = std::move(back);
      if (!best || way.chance < best->chance) best = std::move(way);
    }
  }
  if (!best) return {Chance::kNo, "one has only IPv4 addresses, the other only IPv6"};
  return *best;
}

Reach by_infiniband(const Nic& from, const Nic& to) {
  const std::string here = subnet_prefix(from), there = subnet_prefix(to);
  if (here.empty() || there.empty())
    return {Chance::kUnknown, fmt::format("{} has no GID", here.empty() ? from.name : to.name)};
  if (here != there)
    return {Chance::kNo,
            fmt::format("InfiniBand subnets {} and {}: nothing passes without an InfiniBand router", here,
                        there)};
  if (here == kDefaultSubnetPrefix)
    return {Chance::kLikely, fmt::format("both have the InfiniBand prefix {}, the default, which separate "
                                         "subnets may share",
                                         here)};
  return {Chance::kYes, fmt::format("both in InfiniBand subnet {}", here)};
}

Reach by_roce(const Nic& from, const Nic& to) {
  const bool v2 = from.roce_v2 && to.roce_v2, v1 = from.roce_v1 && to.roce_v1;
  Reach reach = by_ip(from, to);
  if (v2 || (!from.roce_v1 && !from.roce_v2) || (!to.roce_v1 && !to.roce_v2)) return reach;
  if (!v1) return {Chance::kNo, "one speaks only RoCE v1, the other only RoCE v2"};
  if (reach.chance == Chance::kLikely)
    return {Chance::kNo, "they share only RoCE v1, which passes no router: " + reach.why};
  return reach;
}

}  // namespace

std::string_view chance_name(Chance chance) noexcept {
  switch (chance) {
    case Chance::kYes:
      return "yes";
    case Chance::kLikely:
      return "likely";
    case Chance::kUnknown:
      return "unknown";
    case Chance::kNo:
      return "no";
  }
  return "unknown";
}

Reach judge_reach(const Nic& from, const Nic& to, bool rdma) {
  if (!rdma) return by_ip(from, to);
  if (from.kind != to.kind || !is_rdma(from.kind)) {
    return {Chance::kNo, fmt::format("{} is {}, {} is {}", from.name, nic_kind_name(from.kind), to.name,
                                     nic_kind_name(to.kind))};
  }
  if (from.kind == NicKind::kInfiniBand) return by_infiniband(from, to);
  return from.kind == NicKind::kRoce ? by_roce(from, to) : by_ip(from, to);
}

Reach judge_reach(const Nic& from, const Nic& to) {
  return judge_reach(from, to, from.kind == to.kind && is_rdma(from.kind));
}

}  // namespace tombolo::topology
