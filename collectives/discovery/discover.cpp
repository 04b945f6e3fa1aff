#include "collectives/discovery/discover.h"

#include <algorithm>
#include <optional>
#include <span>

#include "base/units.h"
#include "collectives/discovery/islands_file.h"
#include "collectives/discovery/survey.h"
#include "collectives/parameters.h"

namespace tombolo::collectives {
namespace {

/// What rank 0 tells the others to do where it has no file.
constexpr std::string_view kSurvey = "survey";
/// Each connects with every other one.
constexpr std::size_t kMostHosts = 128;

std::string name_of(int island) {
  return island < 26 ? std::string(1, static_cast<char>('A' + island)) : fmt::format("I{}", island + 1);
}

/// "A (a0, a1), B (b0, b1)"
std::string list(const Islands& islands, const std::vector<HostIdentity>& hosts) {
  constexpr int kMost = 8;
  std::string all;
  for (int island = 0; island < islands.count; ++island) {
    std::string names;
    int count = 0;
    for (std::size_t host = 0; host < hosts.size(); ++host) {
      if (islands.of_host[host] != island || count++ >= kMost) continue;
      names += fmt::format("{}{}", names.empty() ? "" : ", ", hosts[host].name);
    }
    if (count > kMost) names += fmt::format(" and {} more", count - kMost);
    all += fmt::format("{}{} ({})", all.empty() ? "" : ", ", name_of(island), names);
  }
  return all;
}

std::string describe(const Islands& islands, const std::vector<HostIdentity>& hosts) {
  if (islands.count == 1)
    return fmt::format("{} hosts that are equally far from each other, {}", hosts.size(),
                       format_bit_rate(islands.inside_bytes_per_second));
  return fmt::format("{} islands, {}; inside {}, between them {} and {}", islands.count, list(islands, hosts),
                     format_bit_rate(islands.inside_bytes_per_second),
                     format_bit_rate(islands.between_bytes_per_second),
                     format_seconds(islands.between_latency_seconds));
}

/// The job's hosts, in the order of their lowest ranks, which lead them.
struct Hosts {
  explicit Hosts(const std::vector<RankOfHost>& ranks) {
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      const auto found = std::ranges::find(all, ranks[rank].host, &HostIdentity::name);
      of_rank.push_back(static_cast<std::size_t>(found - all.begin()));
      if (found != all.end()) continue;
      all.push_back({ranks[rank].host, ranks[rank].addresses});
      leaders.push_back(static_cast<int>(rank));
    }
  }

  std::vector<HostIdentity> all;
  std::vector<int> leaders;
  std::vector<std::size_t> of_rank;
};

std::string text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

std::vector<std::string> discover_islands(const std::vector<RankOfHost>& ranks, int rank,
                                          transport::Router& router, Store& store, const std::string& prefix,
                                          const std::string& file, Deadline deadline) {
  const Hosts hosts(ranks);
  if (hosts.all.size() < 2) return {};
  if (hosts.all.size() > kMostHosts) {
    if (rank == 0) {
      router.options().log.info(
          "no cluster file, and {} hosts: more than {} do not measure; the cluster file that tombolo probe "
          "writes "
          "tells which of them are near each other",
          hosts.all.size(), kMostHosts);
    }
    return {};
  }
  const std::size_t own = hosts.of_rank[static_cast<std::size_t>(rank)];
  const Clock& clock = *router.options().clock;
  const TimePoint begin = clock.now();
  const auto tell = [&](const std::string& key, const std::string& what) {
    store.set(key, std::as_bytes(std::span(what)));
  };
  const std::string measured_at = prefix + "/measured";
  std::optional<IslandsFile> kept;
  if (rank == 0) {
    kept.emplace(file, hosts.all, router.options().log);
    const auto known = kept->load();
    tell(prefix, known ? known->encode() : std::string(kSurvey));
  }
  std::string told = text(store.get(prefix, deadline));
  const bool measures = told == kSurvey;
  if (measures) {
    if (hosts.leaders[own] == rank) {
      Survey survey(router, store, {prefix, own, hosts.all.size(), SurveyOptions::kPatience, deadline});
      const LinkMatrix links = survey.measure();
      if (rank == 0) {
        const Islands found = find_islands(links);
        kept->save(found);
        tell(measured_at, found.encode());
      }
    }
    told = text(store.get(measured_at, deadline));
  }
  const Islands found = Islands::decode(told, hosts.all.size(), "what rank 0 found out about the network");
  if (rank == 0) {
    router.options().log.info(
        "no cluster file: {}; {}; {}=off takes all hosts for one island", describe(found, hosts.all),
        measures ? fmt::format("measured in {}", format_seconds(to_seconds(clock.now() - begin)))
                 : fmt::format("as kept in {}", kept->path()),
        kDiscoverParameter.name);
  }
  // They are farther from each other than the ranks inside them.
  const bool by_host = found.count == 1 && hosts.all.size() == 2 && ranks.size() > 2;
  std::vector<std::string> islands;
  for (const std::size_t host : hosts.of_rank)
    islands.push_back(name_of(by_host ? static_cast<int>(host) : found.of_host[host]));
  return islands;
}

}  // namespace tombolo::collectives
