#include "planner/launch/network_environment.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <map>
#include <set>

#include "base/units.h"
#include "planner/launch/launch_nodes.h"
#include "planner/plan/cluster_view.h"
#include "planner/simulate/simulator.h"

namespace tombolo::planner {

namespace {

constexpr double kMiB = 1024.0 * 1024.0;

bool all_by_rdma(const Plan& plan, std::string_view kind) {
  bool any = false;
  for (const Group& group : plan.groups) {
    if (group.kind != kind) continue;
    any = true;
    if (!topology::is_rdma(group.nic_kind)) return false;
  }
  return any;
}

/// The name of an Ethernet NIC that all hosts have.
std::string common_ethernet(const std::vector<std::string>& hosts, const topology::ClusterFile& cluster) {
  std::map<std::string, std::size_t> hosts_with;
  for (const std::string& name : hosts)
    if (const topology::Host* host = cluster.find_host(name))
      for (const auto& nic : host->nics)
        if (nic.kind == topology::NicKind::kTcp) ++hosts_with[nic.name];
  for (const auto& [nic, with] : hosts_with)
    if (with == hosts.size()) return nic;
  return {};
}

/// "=mlx5_0:1,mlx5_1:1": the RDMA ports that the cluster file lists, where they are the same on all hosts.
std::string common_rdma_ports(const std::vector<std::string>& hosts, const topology::ClusterFile& cluster) {
  std::set<std::string> lists;
  for (const std::string& name : hosts) {
    std::string list;
    if (const topology::Host* host = cluster.find_host(name))
      for (const auto& nic : host->nics)
        if (!nic.rdma_device.empty() && topology::is_rdma(nic.kind))
          list +=
              fmt::format("{}{}:{}", list.empty() ? "=" : ",", nic.rdma_device, std::max(1, nic.rdma_port));
    lists.insert(list);
  }
  return lists.size() == 1 ? *lists.begin() : "";
}

std::string setting(std::string_view name, double value, std::string_view reason) {
  return fmt::format("export {0}=\"${{{0}:-{1:.0f}}}\"  # {2}\n", name, value, reason);
}

/// The power of two, in MiB, that is no less than so many bytes.
double power_of_two(double bytes, double least, double most) {
  const double units = std::max(1.0, std::ceil(bytes / kMiB));
  return std::clamp(static_cast<double>(std::bit_ceil(static_cast<std::uint64_t>(units))) * kMiB, least,
                    most);
}

/// Sizes buffers for what is under way on the long link. The arithmetic is that of docs/pytorch.md, "Long
/// links"; nothing is set where NCCL's defaults hold it.
std::string long_link_settings(const NetworkNeeds& needs) {
  constexpr double kNcclBuffer = 4 * kMiB;     // NCCL_BUFFSIZE's default
  constexpr double kMostBuffer = 64 * kMiB;    // each channel of each connection allocates it, on the GPU too
  constexpr double kReplay = 64 * kMiB;        // TOMBOLO_TCP_REPLAY's default
  constexpr double kNcclChunk = 128 * 1024.0;  // NCCL_P2P_NET_CHUNKSIZE's default
  constexpr double kMostChunk = 2 * kMiB;
  if (!needs.long_link) return {};
  const NetworkNeeds::LongLink& link = *needs.long_link;
  // Every rank of a host has connections of its own, which share the link.
  const double under_way = link.bytes_under_way() / needs.ranks_per_host;
  const double chunk =
      std::clamp(static_cast<double>(std::bit_ceil(static_cast<std::uint64_t>(std::max(1.0, under_way / 8)))),
                 kNcclChunk, kMostChunk);
  std::string settings;
  if (chunk > kNcclChunk)
    settings += setting("NCCL_P2P_NET_CHUNKSIZE", chunk,
                        "activations between stages: eight slots of that size are under way");
  if (const double channels = std::ceil(under_way / (8 * chunk)); chunk > kNcclChunk && channels > 1)
    settings += setting("NCCL_NCHANNELS_PER_NET_PEER", std::min(8.0, channels),
                        "channels of one send, each with its slots");
  const double buffer = power_of_two(under_way, kNcclBuffer, kMostBuffer);
  if (buffer > kNcclBuffer)
    settings += setting("NCCL_BUFFSIZE", buffer, "gradients: a channel carries so many bytes per round trip");
  if (const double channels = std::ceil(under_way / buffer); channels > 1)
    settings += setting("NCCL_MIN_NCHANNELS", std::min(16.0, channels), "the rest, by further channels");
  if (link.kind == topology::NicKind::kTcp && 2 * under_way > kReplay)
    settings += setting("TOMBOLO_TCP_REPLAY", power_of_two(2 * under_way, kReplay, 16 * kMostBuffer),
                        "the plugin: what may wait for the peer's acknowledgement");
  if (settings.empty()) return {};
  return fmt::format(
             "# From {} to {} {} with a round trip of {} keep {:.1f} MB under way, {:.1f} MB per rank of a "
             "host:\n",
             link.from, link.to, format_bit_rate(link.bytes_per_second),
             format_seconds(link.round_trip_seconds), link.bytes_under_way() / 1e6, under_way / 1e6) +
         settings;
}

constexpr std::string_view kWhyPorts =
    "    # NCCL_IB_HCA: the ports that the cluster file lists and no others, such as those of storage.\n";

/// How NCCL's own networks are set up where the plugin does not carry: the lines of a case, each setting with
/// its reason.
std::string own_network(const NetworkNeeds& needs, const std::string& ports) {
  if (needs.rdma_everywhere)
    return fmt::format("{}    export NCCL_NET_PLUGIN=none NCCL_NET=IB{} ;;\n", ports.empty() ? "" : kWhyPorts,
                       ports.empty() ? "" : " NCCL_IB_HCA=" + shell_quoted(ports));
  return "    # One TCP stream fills little of a long link: 4 threads of 4 sockets for each connection.\n"
         "    export NCCL_NET_PLUGIN=none NCCL_NET=Socket NCCL_SOCKET_NTHREADS=4 NCCL_NSOCKS_PERTHREAD=4 "
         ";;\n";
}

}  // namespace

NetworkNeeds network_needs(const Plan& plan, const topology::ClusterFile& cluster) {
  NetworkNeeds needs;
  const std::vector<std::string> hosts = hosts_of(plan);
  const ClusterView view(cluster, "per-peer", hosts);
  std::map<std::string, int> first_of;  // by cluster
  std::map<std::string, int> ranks;
  for (const RankPlacement& place : plan.ranks) ++ranks[place.host];
  for (const auto& [host, count] : ranks) needs.ranks_per_host = std::max(needs.ranks_per_host, count);
  needs.rdma_everywhere = true;
  for (const std::string& name : hosts) {
    const int index = view.host_index(name), first = view.host_index(hosts.front());
    first_of.emplace(view.host(index).cluster, index);
    const auto kind = index == first ? std::nullopt : view.kind_between(first, index);
    if (index != first && (!kind || !topology::is_rdma(*kind))) needs.rdma_everywhere = false;
  }
  needs.data_by_rdma = all_by_rdma(plan, "data");
  needs.pipeline_by_rdma = all_by_rdma(plan, "pipeline");
  needs.experts_by_rdma = all_by_rdma(plan, "expert");
  for (const auto& [from, from_host] : first_of)
    for (const auto& [to, to_host] : first_of) {
      if (from == to || !view.linked(from_host, to_host) || !view.linked(to_host, from_host)) continue;
      const Path& there = view.path(from_host, to_host);
      const double round_trip = there.latency_seconds + view.path(to_host, from_host).latency_seconds;
      const NetworkNeeds::LongLink link{from, to, there.bytes_per_second, round_trip, there.kind};
      if (!needs.long_link || link.bytes_under_way() > needs.long_link->bytes_under_way())
        needs.long_link = link;
    }
  return needs;
}

std::string group_networks(const NetworkNeeds& needs) {
  if (needs.rdma_everywhere) return {};
  constexpr std::array kOfReplicas{"dp", "dp_cp", "tp_dp", "tp_dp_cp", "ep_dp", "intra_dp_cp", "intra_ep_dp"};
  constexpr std::array kOfStages{"pp", "mp", "embd", "pos_embd"};
  constexpr std::array kOfExperts{"ep", "ep_tp"};
  std::string out;
  const auto add = [&](const auto& groups) {
    for (const char* group : groups) out += fmt::format("{}:\n  net_name: IB\n", group);
  };
  if (needs.data_by_rdma) add(kOfReplicas);
  if (needs.pipeline_by_rdma) add(kOfStages);
  if (needs.experts_by_rdma) add(kOfExperts);
  return out;
}

std::string network_environment(const Plan& plan, const topology::ClusterFile& cluster, bool may_mix) {
  const NetworkNeeds needs = network_needs(plan, cluster);
  const std::vector<std::string> hosts = hosts_of(plan);
  const std::string ports = common_rdma_ports(hosts, cluster);
  const bool mixes = may_mix && !group_networks(needs).empty();
  std::string out = fmt::format(
      "# NETWORK says how NCCL communicates: tombolo (the default), by the plugin, whose folder must be on\n"
      "# LD_LIBRARY_PATH (libnccl-net-tombolo.so); nccl, by {}{}.\n"
      "NETWORK=\"${{NETWORK:-tombolo}}\"; export NETWORK\n"
      "case \"$NETWORK\" in\n"
      "  tombolo)\n"
      "    # NCCL_NET_PLUGIN: by name, which every release of NCCL takes. NCCL_NET: that a plugin which does "
      "not\n"
      "    # start is an error, and not another network. NCCL_NET_PLUGIN_REF_COUNT: that NCCL 2.28 and 2.29 "
      "keep\n"
      "    # the plugin loaded between two communicators.\n"
      "    export NCCL_NET_PLUGIN=tombolo NCCL_NET=Tombolo NCCL_NET_PLUGIN_REF_COUNT=1 ;;\n"
      "  nccl)\n"
      "{}",
      needs.rdma_everywhere ? "its own RDMA"
                            : "its own TCP, the only one that reaches from everywhere to everywhere",
      mixes ? ";\n# mixed, by its own RDMA in groups that stay where that reaches, and by the plugin in the "
              "others"
            : "",
      own_network(needs, ports));
  if (mixes)
    out += fmt::format(
        "  mixed)\n"
        "    # NCCL_NET, which holds for all groups, is unset, so that each group's own name counts.\n"
        "{}    export NCCL_NET_PLUGIN=tombolo NCCL_NET_PLUGIN_REF_COUNT=1{}\n"
        "    unset NCCL_NET ;;\n",
        ports.empty() ? "" : kWhyPorts, ports.empty() ? "" : " NCCL_IB_HCA=" + shell_quoted(ports));
  out += fmt::format(
      "  *) echo \"$0: NETWORK is $NETWORK, expected tombolo{}nccl\" >&2; exit 2 ;;\n"
      "esac\n",
      mixes ? ", mixed or " : " or ");
  if (plan.routing == "shared")
    out += "# The plan assumes one NIC kind for all; the plugin routes per peer, which is no slower.\n";
  if (const std::string nic = common_ethernet(hosts, cluster); !nic.empty())
    out += fmt::format(
        "# The Ethernet NIC that all hosts have: for the connections by which NCCL's ranks find each other, "
        "and\n"
        "# for Gloo's.\n"
        "export NCCL_SOCKET_IFNAME={0} GLOO_SOCKET_IFNAME={0}\n",
        shell_quoted(nic));
  else
    out +=
        "# NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME: set them on each node to its Ethernet NIC; no name is "
        "common.\n";
  return out + long_link_settings(needs);
}

}  // namespace tombolo::planner
