#include "topology/files/cluster_file_fabrics.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "topology/files/fields.h"

namespace tombolo::topology {
namespace {

// The fastest NIC of a fabric inside one cluster, bytes per second; nothing where the rate of some NIC is
// unknown.
using Fastest = std::optional<double>;
using Members = std::map<std::string, std::map<std::string, Fastest, std::less<>>, std::less<>>;

Members members_of(const std::vector<Host>& hosts) {
  Members members;
  for (const Host& host : hosts) {
    for (const Nic& nic : host.nics) {
      const double speed = static_cast<double>(nic.rate_bits_per_second) / 8;
      auto [known, is_new] = members[nic.fabric].try_emplace(host.cluster, speed);
      Fastest& fastest = known->second;
      if (fastest) fastest = std::max(*fastest, speed);
      if (speed == 0) fastest.reset();
    }
  }
  return members;
}

/// Reads the name of a cluster; returns the fabric's fastest NIC there.
Fastest member_of(const JsonCursor& cursor, const std::string& fabric, std::string& cluster,
                  const Members& members, const std::set<std::string>& clusters) {
  cluster = cursor.text();
  if (!clusters.contains(cluster)) {
    cursor.reject(fmt::format("there is no cluster \"{}\"{}", cluster, suggestion(cluster, views(clusters))));
  }
  const auto& inside = members.find(fabric)->second;
  const auto found = inside.find(cluster);
  if (found == inside.end()) {
    cursor.reject(fmt::format("no NIC of cluster \"{}\" is on fabric \"{}\"; clusters that have one: {}",
                              cluster, fabric, fmt::join(views(inside), ", ")));
  }
  return found->second;
}

FabricDefault fabric_of(const JsonCursor& cursor, const Members& members,
                        const std::set<std::string>& clusters) {
  cursor.only({"name", "bytes_per_second", "latency_seconds", "from_cluster", "to_cluster"});
  FabricDefault entry;
  auto name = cursor.optional("name");
  if (name) entry.fabric = name->text();
  const auto found = members.find(entry.fabric);
  if (found == members.end()) {
    if (!name) {
      cursor.reject(
          "without \"name\" this is the fabric that all plain Ethernet shares, but no NIC is on it");
    }
    name->reject(fmt::format("no NIC is on a fabric \"{}\"{}", entry.fabric,
                             suggestion(entry.fabric, views(members))));
  }
  entry.bytes_per_second = bandwidth_of(cursor.field("bytes_per_second"));
  entry.latency_seconds = latency_of(cursor.field("latency_seconds"));
  const auto from = cursor.optional("from_cluster"), to = cursor.optional("to_cluster");
  if (from.has_value() != to.has_value()) {
    (from ? *from : *to)
        .reject("give both \"from_cluster\" and \"to_cluster\", or neither for the fabric as a whole");
  }
  Fastest fastest;
  if (from) {
    fastest = member_of(*from, entry.fabric, entry.from_cluster, members, clusters);
    const Fastest other = member_of(*to, entry.fabric, entry.to_cluster, members, clusters);
    if (!fastest || (other && *other < *fastest)) fastest = other;
  } else {
    fastest = 0;
    for (const auto& [cluster, inside] : found->second) {
      if (fastest) fastest = inside ? std::optional(std::max(*fastest, *inside)) : std::nullopt;
    }
  }
  // A rate in bits is easily written where an attained speed in bytes is meant.
  if (fastest && entry.bytes_per_second > *fastest) {
    cursor.field("bytes_per_second")
        .reject(
            fmt::format("{} bytes per second are more than the fastest NIC there can carry: {} Gbit/s are {} "
                        "bytes per second",
                        entry.bytes_per_second, *fastest * 8 / 1e9, *fastest));
  }
  return entry;
}

}  // namespace

std::vector<FabricDefault> fabrics_of(const JsonCursor& list, const std::vector<Host>& hosts) {
  const Members members = members_of(hosts);
  std::set<std::string> clusters;
  for (const Host& host : hosts) clusters.insert(host.cluster);
  std::vector<FabricDefault> all;
  std::set<std::tuple<std::string, std::string, std::string>> seen;
  for (const auto& element : list.elements()) {
    FabricDefault entry = fabric_of(element, members, clusters);
    if (!seen.emplace(entry.fabric, entry.from_cluster, entry.to_cluster).second) {
      element.reject(entry.from_cluster.empty()
                         ? fmt::format("fabric \"{}\" is given twice", entry.fabric)
                         : fmt::format("fabric \"{}\" from cluster \"{}\" to \"{}\" is given twice",
                                       entry.fabric, entry.from_cluster, entry.to_cluster));
    }
    all.push_back(std::move(entry));
  }
  return all;
}

}  // namespace tombolo::topology
