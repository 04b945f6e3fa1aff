#include "topology/files/fleet_between.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "topology/files/fields.h"

namespace tombolo::topology {

namespace {

std::size_t end_of(const JsonCursor& cursor, const FleetIndices& indices) {
  const std::string name = cursor.text();
  const auto found = indices.find(name);
  if (found == indices.end()) {
    cursor.reject(fmt::format("there is no cluster \"{}\"{}", name, suggestion(name, views(indices))));
  }
  return found->second;
}

/// What all pairs of NICs between two clusters attain together, in one direction; 0 where nothing is said.
double total_of(const JsonCursor& cursor, NicKind kind, const Library& library) {
  const auto gbps = cursor.optional("total_gbps"), attained = cursor.optional("total_bytes_per_second");
  if (gbps && attained) {
    attained->reject(
        "give \"total_gbps\", which is nominal, or \"total_bytes_per_second\", which is attained, not both");
  }
  if (gbps) return static_cast<double>(rate_of(*gbps)) / 8 * library.share(kind).share;
  return attained ? bandwidth_of(*attained) : 0;
}

FleetBetween between_of(const JsonCursor& cursor, const std::vector<FleetCluster>& clusters,
                        const FleetIndices& indices, const Library& library) {
  cursor.only({"from", "to", "kind", "rate_gbps", "bytes_per_second", "total_gbps", "total_bytes_per_second",
               "latency_seconds"});
  FleetBetween between{
      end_of(cursor.field("from"), indices), end_of(cursor.field("to"), indices), NicKind::kTcp, {}, 0};
  if (between.from == between.to) {
    cursor.field("to").reject(
        "expected two different clusters; what a cluster attains inside stands in its \"fabric\"");
  }
  if (const auto value = cursor.optional("kind")) between.kind = kind_of(*value);
  std::uint64_t rate = std::numeric_limits<std::uint64_t>::max();
  for (const std::size_t end : {between.from, between.to}) {
    const auto found = clusters[end].fastest.find(between.kind);
    if (found == clusters[end].fastest.end()) {
      cursor.reject(fmt::format(
          "cluster \"{}\" has no NIC of kind {}; add one to its \"nics\", as {{\"name\": \"{}\"}}",
          clusters[end].name, nic_kind_name(between.kind),
          is_rdma(between.kind) ? "ConnectX-7" : "Ethernet 25G"));
    }
    rate = std::min(rate, found->second);
  }
  between.total_bytes_per_second = total_of(cursor, between.kind, library);
  const bool pair_given = cursor.optional("rate_gbps") || cursor.optional("bytes_per_second");
  if (!pair_given && between.total_bytes_per_second == 0) (void)cursor.field("rate_gbps");
  between.speed = speed_of(cursor, between.kind, rate, library);
  if (between.total_bytes_per_second == 0) return between;
  if (pair_given && between.speed.bytes_per_second > between.total_bytes_per_second) {
    cursor.reject(fmt::format(
        "one pair of NICs attains {} bytes per second, but all pairs together only {}; give the pair at most "
        "the total, or leave the pair's rate out",
        between.speed.bytes_per_second, between.total_bytes_per_second));
  }
  between.speed.bytes_per_second = std::min(between.speed.bytes_per_second, between.total_bytes_per_second);
  return between;
}

/// The NICs of that kind of all hosts of a cluster.
std::vector<NicName> nics_of(const FleetCluster& cluster, NicKind kind) {
  std::vector<NicName> names;
  for (const std::string& host : cluster.hosts)
    for (const Nic& nic : cluster.nics)
      if (nic.kind == kind) names.push_back({host, nic.name});
  return names;
}

}  // namespace

FleetSpeed speed_of(const JsonCursor& cursor, NicKind kind, std::uint64_t rate, const Library& library) {
  const UsualShare& usual = library.share(kind);
  const double nominal = static_cast<double>(rate) / 8;
  FleetSpeed speed{nominal * usual.share, usual.latency_seconds};
  const auto gbps = cursor.optional("rate_gbps"), attained = cursor.optional("bytes_per_second");
  if (gbps && attained) {
    attained->reject(
        "give \"rate_gbps\", which is nominal, or \"bytes_per_second\", which is attained, not both");
  }
  if (gbps) speed.bytes_per_second = std::min(nominal, static_cast<double>(rate_of(*gbps)) / 8) * usual.share;
  if (attained) {
    speed.bytes_per_second = bandwidth_of(*attained);
    if (speed.bytes_per_second > nominal) {
      attained->reject(
          fmt::format("{} bytes per second are more than the {} NICs there can carry: {} Gbit/s are {} "
                      "bytes per second",
                      speed.bytes_per_second, nic_kind_name(kind), nominal * 8 / 1e9, nominal));
    }
  }
  if (const auto value = cursor.optional("latency_seconds")) speed.latency_seconds = latency_of(*value);
  return speed;
}

std::vector<FleetBetween> all_between(const JsonCursor& root, const std::vector<FleetCluster>& clusters,
                                      const FleetIndices& indices, const Library& library) {
  std::vector<FleetBetween> all;
  std::set<std::tuple<std::size_t, std::size_t, NicKind>> given;
  const auto list = root.optional("between");
  if (!list) return all;
  for (const auto& element : list->elements()) {
    all.push_back(between_of(element, clusters, indices, library));
    const FleetBetween& last = all.back();
    if (!given.emplace(last.from, last.to, last.kind).second) {
      element.reject(fmt::format("what joins \"{}\" to \"{}\" by {} is given twice", clusters[last.from].name,
                                 clusters[last.to].name, nic_kind_name(last.kind)));
    }
  }
  for (std::size_t i = 0, entries = all.size(); i < entries; ++i) {
    FleetBetween back = all[i];
    std::swap(back.from, back.to);
    if (!given.contains({back.from, back.to, back.kind})) all.push_back(back);
  }
  return all;
}

void check_joined(const JsonCursor& root, const std::vector<FleetCluster>& clusters,
                  const std::vector<FleetBetween>& betweens) {
  Joined any(clusters.size());
  for (const FleetBetween& each : betweens) any.join(each.from, each.to);
  for (std::size_t c = 1; c < clusters.size(); ++c) {
    if (any.root(c) == 0) continue;
    const auto list = root.optional("between");
    (list ? *list : root)
        .reject(fmt::format(
            "nothing joins cluster \"{}\" to cluster \"{}\"; add {{\"from\": \"{}\", \"to\": \"{}\", "
            "\"rate_gbps\": ...}} to \"between\"",
            clusters[c].name, clusters[0].name, clusters[0].name, clusters[c].name));
  }
}

SharedLink shared_link_of(const FleetBetween& between, const std::vector<FleetCluster>& clusters) {
  const FleetCluster &from = clusters[between.from], &to = clusters[between.to];
  return {fmt::format("{} to {} by {}", from.name, to.name, nic_kind_name(between.kind)),
          nics_of(from, between.kind), nics_of(to, between.kind), between.total_bytes_per_second};
}

}  // namespace tombolo::topology
