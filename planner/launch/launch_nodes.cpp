#include "planner/launch/launch_nodes.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace tombolo::planner {
std::vector<const RankPlacement*> numbered(const Plan& plan, Numbering numbering) {
  std::vector<const RankPlacement*> order;
  order.reserve(plan.ranks.size());
  for (const RankPlacement& place : plan.ranks) order.push_back(&place);
  if (numbering == Numbering::kPlan) return order;
  std::sort(order.begin(), order.end(), [numbering](const RankPlacement* a, const RankPlacement* b) {
    return numbering == Numbering::kStagesOutermost
               ? std::tuple(a->stage, a->replica, a->tensor) < std::tuple(b->stage, b->replica, b->tensor)
               : std::tuple(a->replica, a->stage, a->tensor) < std::tuple(b->replica, b->stage, b->tensor);
  });
  return order;
}

std::vector<Node> nodes_of(const Plan& plan, Numbering numbering) {
  std::vector<Node> nodes;
  std::set<std::string> seen;
  for (const RankPlacement* place : numbered(plan, numbering)) {
    if (nodes.empty() || nodes.back().host != place->host) {
      if (!seen.insert(place->host).second) return {};
      nodes.push_back({place->host, {}});
    }
    nodes.back().devices.push_back(place->device);
  }
  return nodes;
}

bool equally_large(const std::vector<Node>& nodes) noexcept {
  return std::ranges::all_of(
      nodes, [&](const Node& node) { return node.devices.size() == nodes.front().devices.size(); });
}

std::string node_comments(const std::vector<Node>& nodes, const topology::ClusterFile& cluster,
                          std::string_view label) {
  std::string out;
  for (std::size_t rank = 0; rank < nodes.size(); ++rank) {
    const topology::Host* host = cluster.find_host(nodes[rank].host);
    out += fmt::format("#   {}{}  {}{}  devices {}\n", label, rank, nodes[rank].host,
                       host ? fmt::format("  (cluster {})", host->cluster) : "",
                       fmt::join(nodes[rank].devices, ","));
  }
  return out;
}

std::vector<Node> nodes_by_host(const std::vector<const RankPlacement*>& order) {
  std::vector<Node> nodes;
  std::map<std::string, std::size_t> known;
  for (const RankPlacement* place : order) {
    const auto [at, fresh] = known.emplace(place->host, nodes.size());
    if (fresh) nodes.push_back({place->host, {}});
    nodes[at->second].devices.push_back(place->device);
  }
  return nodes;
}

std::string processes_of_node(const std::vector<Node>& nodes) {
  if (equally_large(nodes)) return fmt::format("PROCESSES={}\n", nodes.front().devices.size());
  std::string cases;
  for (std::size_t rank = 0; rank < nodes.size(); ++rank)
    cases += fmt::format("  {}) PROCESSES={} ;;\n", rank, nodes[rank].devices.size());
  return "case \"$NODE_RANK\" in\n" + cases + "esac\n";
}

std::string in_single_quotes(std::string_view text) {
  std::string out;
  for (const char one : text) {
    if (one == '\'')
      out += "'\\''";
    else
      out += one;
  }
  return out;
}

std::string shell_quoted(std::string_view text) {
  return '\'' + in_single_quotes(text) + '\'';
}

std::string master_address(const std::string& name, const topology::ClusterFile& cluster) {
  if (const topology::Host* host = cluster.find_host(name))
    for (const auto& nic : host->nics)
      if (nic.kind == topology::NicKind::kTcp && !nic.addresses.empty()) return nic.addresses.front();
  return name;
}

std::string cluster_environment(const std::vector<Node>& nodes, const topology::ClusterFile& cluster,
                                const std::string& cluster_path, std::string_view number) {
  std::string out = fmt::format(
      "# The plugin takes NICs and fabrics from the plan's cluster file: it must lie on every node.\n"
      "if [ -z \"$TOMBOLO_CLUSTER\" ]; then TOMBOLO_CLUSTER={}; fi\n"
      "export TOMBOLO_CLUSTER\n"
      "if [ \"$NETWORK\" != nccl ] && [ ! -r \"$TOMBOLO_CLUSTER\" ]; then echo \"$0: cannot read "
      "$TOMBOLO_CLUSTER; copy the plan's "
      "cluster file to this node and set TOMBOLO_CLUSTER to its path\" >&2; exit 2; fi\n",
      shell_quoted(cluster_path));
  if (number.empty()) return out;
  std::string names, cases;
  for (const topology::Host& host : cluster.hosts)
    names += fmt::format("{}{}", names.empty() ? "" : "|", shell_quoted(host.name));
  for (std::size_t rank = 0; rank < nodes.size(); ++rank)
    cases += fmt::format("    {}) export TOMBOLO_HOST={} ;;\n", rank, shell_quoted(nodes[rank].host));
  return out + fmt::format(
                   "# This node's name in that file, where its host name is another.\n"
                   "if [ -z \"$TOMBOLO_HOST\" ]; then case \"$(uname -n)\" in\n"
                   "  {}) ;;\n"
                   "  *) case \"{}\" in\n{}  esac ;;\n"
                   "esac; fi\n",
                   names, number, cases);
}

std::string visible_devices(const std::vector<Node>& nodes, std::string_view subject, bool by_name) {
  std::string cases;
  for (std::size_t rank = 0; rank < nodes.size(); ++rank) {
    bool plain = true;
    for (std::size_t i = 0; i < nodes[rank].devices.size(); ++i)
      plain &= nodes[rank].devices[i] == static_cast<int>(i);
    if (plain) continue;
    cases += fmt::format("  {}) export CUDA_VISIBLE_DEVICES={} ;;\n",
                         by_name ? shell_quoted(nodes[rank].host) : std::to_string(rank),
                         fmt::join(nodes[rank].devices, ","));
  }
  return cases.empty() ? cases : fmt::format("case \"{}\" in\n{}esac\n", subject, cases);
}

}  // namespace tombolo::planner
