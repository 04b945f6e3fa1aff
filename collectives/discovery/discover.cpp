#include "collectives/discovery/discover.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "base/units.h"
#include "collectives/discovery/islands_file.h"
#include "collectives/discovery/survey.h"
#include "collectives/parameters.h"

namespace tombolo::collectives {
namespace {

/// What rank 0 tells the others to do where it has no file.
constexpr std::string_view kSurvey = "survey";
/// What it tells those that measure: to measure all once more, and that all is known.
constexpr std::string_view kAgain = "again";
constexpr std::string_view kSettled = "settled";
constexpr const char* kWhatRank0Found = "what rank 0 found out about the network";
// On a busy machine processes wait for each other for some milliseconds.
constexpr double kLongestHoldUp = 10e-3;
// Hosts that are held up again and again are left where they then are.
constexpr int kMostRepeats = 2, kMostLooks = 6;

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
  if (islands.inside_bytes_per_second <= 0 && islands.count == 1)
    return fmt::format("{} hosts, which count as equally far from each other", hosts.size());
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

std::size_t number_of(const std::string& island) {
  if (island.size() == 1) return static_cast<std::size_t>(island[0] - 'A');
  return std::stoul(island.substr(1)) - 1;
}

std::string text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// The names of the ranks' islands, by those of the hosts.
std::vector<std::string> by_rank(const Hosts& hosts, const std::vector<int>& island_of_host) {
  std::vector<std::string> islands;
  for (const std::size_t host : hosts.of_rank) islands.push_back(name_of(island_of_host[host]));
  return islands;
}

/// How often one pair of each two islands is to measure once more, and to find the same. The rates of three
/// and more are of use, and islands may be a mistake: a host that others held up while it measured looks far
/// from all. Nobody is held up for as long as the longest latencies at each of its round trips, and links so
/// long make another look long.
int looks_needed(const Islands& found, const LinkMatrix& links) {
  if (found.count == 1) return 0;
  if (found.between_latency_seconds < kLongestHoldUp || !seen_by_latency(found, links)) return 2;
  return found.count > 2 ? 1 : 0;
}

/// On host 0, after its survey: the islands that the last looks confirmed. `tell` is heard by follow().
template <typename Tell>
Islands settle(Survey& survey, Tell tell) {
  const LinkMatrix& links = survey.links();
  int step = 0;
  Islands found = find_islands(links);
  if (survey.missing().untried > 0) {
    // Hosts that are too busy to be in time are too busy for their rates to tell of the links.
    found = find_islands(LinkMatrix(links.bytes_per_second.size()));
  } else {
    for (int repeat = 0; repeat < kMostRepeats && unlike_inside(found, links); ++repeat) {
      tell(step++, std::string(kAgain));
      survey.measure();
      found = find_islands(links);
    }
  }
  for (int same = 0, look = 0; look < kMostLooks && same < looks_needed(found, links); ++look) {
    tell(step++, found.encode());
    auto between = survey.measure_between(found);
    const Islands before = std::exchange(found, find_islands(links));
    same = found.of_host == before.of_host ? same + 1 : 0;
    if (found.count > 2 && same > 0) found.between = std::move(between);
  }
  tell(step, std::string(kSettled));
  return found;
}

/// On the other hosts, after their surveys: measures with host 0 until that is settled.
template <typename Hear>
void follow(Survey& survey, std::size_t hosts, Hear hear) {
  for (int step = 0;; ++step) {
    const std::string told = hear(step);
    if (told == kSettled) return;
    if (told == kAgain)
      survey.measure();
    else
      survey.measure_between(Islands::decode(told, hosts, kWhatRank0Found));
  }
}

/// What rank 0 knows from its file, or what the hosts measure.
Discovery find_out(const Hosts& hosts, int rank, transport::Router& router, Store& store,
                   const AwaitOfRank& await, const std::string& prefix, const std::string& file,
                   Known may_be) {
  const std::size_t own = hosts.of_rank[static_cast<std::size_t>(rank)];
  const Clock& clock = *router.options().clock;
  const TimePoint begin = clock.now();
  const auto tell = [&](const std::string& key, const std::string& what) {
    store.set(key, std::as_bytes(std::span(what)));
  };
  const std::string measured_at = prefix + "/measured";
  std::string source;
  std::optional<IslandsFile> kept;
  if (rank == 0) {
    kept.emplace(file, hosts.all, router.options().log);
    const auto known = may_be == Known::kMayBeKept ? kept->load() : std::nullopt;
    tell(prefix, known ? known->encode() : std::string(kSurvey));
    source = fmt::format("as kept in {}", kept->path());
  }
  std::string told = text(await(prefix, 0));
  Discovery made;
  made.source = told == kSurvey ? Discovery::Source::kMeasured : Discovery::Source::kKept;
  if (kept && made.source == Discovery::Source::kKept) made.file = kept->path();
  if (told == kSurvey) {
    if (hosts.leaders[own] == rank) {
      Survey survey(router, store,
                    [&](const std::string& key, std::size_t host) { return await(key, hosts.leaders[host]); },
                    {.prefix = prefix, .host = own, .hosts = hosts.all.size()});
      const auto step_key = [&](int step) { return fmt::format("{}/step/{}", prefix, step); };
      survey.measure();
      if (rank == 0) {
        const Survey::Missing missing = survey.missing();
        const Islands found =
            settle(survey, [&](int step, const std::string& what) { tell(step_key(step), what); });
        source = fmt::format("measured in {}", format_seconds(to_seconds(clock.now() - begin)));
        if (missing.untried + missing.in_vain == 0) {
          kept->save(found);
        } else {
          kept->remove();
          source += fmt::format(", {} pairs not in time and {} in vain, and so not kept", missing.untried,
                                missing.in_vain);
        }
        tell(measured_at, found.encode());
      } else {
        follow(survey, hosts.all.size(), [&](int step) { return text(await(step_key(step), 0)); });
      }
    }
    told = text(await(measured_at, 0));
  }
  made.found = Islands::decode(told, hosts.all.size(), kWhatRank0Found);
  if (rank == 0) {
    router.options().log.info("no cluster file: {}; {}; {}=off takes all hosts for one island",
                              describe(made.found, hosts.all), source, kDiscoverParameter.name);
  }
  made.islands = by_rank(hosts, made.found.of_host);
  return made;
}

}  // namespace

std::vector<std::vector<double>> Discovery::between(const std::vector<int>& ranks) const {
  if (islands.empty() || found.between.empty()) return {};
  std::vector<std::vector<double>> rates;
  for (const int from : ranks) {
    rates.emplace_back();
    for (const int to : ranks)
      rates.back().push_back(found.between[number_of(islands[static_cast<std::size_t>(from)])]
                                          [number_of(islands[static_cast<std::size_t>(to)])]);
  }
  return rates;
}

Discovery discover_islands(const std::vector<RankOfHost>& ranks, int rank, transport::Router& router,
                           Store& store, const AwaitOfRank& await, const std::string& prefix,
                           const std::string& file, Known known) {
  const Hosts hosts(ranks);
  if (hosts.all.size() < 2) return {};
  // They are farther from each other than the ranks inside them.
  if (hosts.all.size() == 2) {
    const bool apart = ranks.size() > 2;
    if (rank == 0) {
      router.options().log.info("no cluster file, and two hosts: {}; {}=off takes all hosts for one island",
                                apart ? "each is an island" : "they are one island", kDiscoverParameter.name);
    }
    Discovery made;
    made.source = Discovery::Source::kTwoHosts;
    made.islands = by_rank(hosts, {0, apart ? 1 : 0});
    return made;
  }
  if (hosts.all.size() > kMostHosts) {
    if (rank == 0) {
      router.options().log.info(
          "no cluster file, and {} hosts: more than {} do not measure; the cluster file that tombolo probe "
          "writes tells which of them are near each other",
          hosts.all.size(), kMostHosts);
    }
    Discovery made;
    made.source = Discovery::Source::kTooManyHosts;
    return made;
  }
  return find_out(hosts, rank, router, store, await, prefix, file, known);
}

}  // namespace tombolo::collectives
