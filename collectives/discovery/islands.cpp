#include "collectives/discovery/islands.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "transport/measure/round_robin.h"

namespace tombolo::collectives {
namespace {

using Matrix = std::vector<std::vector<double>>;

constexpr double kMessage = 1 << 20;  // bytes, whose time is the distance of two hosts
// Below this, latencies tell more of the two hosts' processors than of what lies between them.
constexpr double kLeastLatency = 0.5e-3;
// The distance of hosts that could not be measured: farther than any that can.
constexpr double kInVain = 100;
// Between the longest link inside an island and the shortest one outside.
constexpr double kLeastJump = 2;

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Hosts that are joined by links much shorter than those between the groups, by single linkage: the hosts
/// are joined by ever longer links, and what the longer ones join are the groups. Who is held up measures a
/// pair as farther than it is, and never as nearer, so that a few such pairs change nothing where others lead
/// around them. The border lies where the links' lengths jump most. At least half of the links are inside:
/// two hosts that happen to be quick do not make an island of each other one.
std::vector<std::vector<std::size_t>> groups_of(const Matrix& distance) {
  struct Link {
    double length;
    std::size_t one, other;
  };
  const std::size_t hosts = distance.size();
  std::vector<Link> all, joining;
  for (std::size_t i = 0; i < hosts; ++i) {
    for (std::size_t j = i + 1; j < hosts; ++j) all.push_back({(distance[i][j] + distance[j][i]) / 2, i, j});
  }
  std::ranges::stable_sort(all, {}, &Link::length);
  const auto join = [hosts](std::span<const Link> links, std::vector<Link>* needed) {
    std::vector<std::size_t> group(hosts);
    std::iota(group.begin(), group.end(), 0);
    for (const Link& link : links) {
      const std::size_t kept = std::min(group[link.one], group[link.other]),
                        gone = std::max(group[link.one], group[link.other]);
      if (kept == gone) continue;
      std::ranges::replace(group, gone, kept);
      if (needed != nullptr) needed->push_back(link);
    }
    return group;
  };
  join(all, &joining);
  std::size_t border = joining.size();
  double jump = kLeastJump;
  for (std::size_t at = std::max<std::size_t>((joining.size() + 1) / 2, 1); at < joining.size(); ++at) {
    const double length = joining[at].length, before = joining[at - 1].length;
    if (length < kMuchNearer * joining[at / 2].length || length < jump * before) continue;
    jump = length / before;
    border = at;
  }
  const auto group = join(std::span(joining).first(border), nullptr);
  std::vector<std::vector<std::size_t>> groups(hosts);
  for (std::size_t host = 0; host < hosts; ++host) groups[group[host]].push_back(host);
  std::erase_if(groups, [](const auto& one) { return one.empty(); });
  return groups;
}

std::vector<std::vector<std::size_t>> groups_by_latency(Matrix latency) {
  for (auto& row : latency) {
    for (double& one : row) one = std::max(one, kLeastLatency);
  }
  return groups_of(latency);
}

/// Seconds.
Matrix distances(const LinkMatrix& links) {
  const std::size_t hosts = links.bytes_per_second.size();
  Matrix distance(hosts, std::vector<double>(hosts));
  double farthest = 1e-3;
  for (std::size_t i = 0; i < hosts; ++i) {
    for (std::size_t j = 0; j < hosts; ++j) {
      if (i == j || links.bytes_per_second[i][j] <= 0) continue;
      distance[i][j] = links.latency_seconds[i][j] + kMessage / links.bytes_per_second[i][j];
      farthest = std::max(farthest, distance[i][j]);
    }
  }
  for (std::size_t i = 0; i < hosts; ++i) {
    for (std::size_t j = 0; j < hosts; ++j) {
      if (i == j || distance[i][j] > 0) continue;
      const bool in_vain = links.bytes_per_second[i][j] < 0;
      distance[i][j] = std::max({farthest, links.latency_seconds[i][j], in_vain ? kInVain : 0});
    }
  }
  return distance;
}

}  // namespace

void LinkMatrix::learn_rate(std::size_t from, std::size_t to, double rate) {
  double& known = bytes_per_second[from][to];
  known = known == 0 ? rate : std::max(known, rate);
}

void LinkMatrix::learn_latency(std::size_t one, std::size_t other, double seconds) {
  if (seconds <= 0) return;
  double& known = latency_seconds[one][other];
  known = known <= 0 ? seconds : std::min(known, seconds);
  latency_seconds[other][one] = known;
}

Islands find_islands(const LinkMatrix& links) {
  const std::size_t hosts = links.bytes_per_second.size();
  Islands islands;
  islands.of_host.assign(hosts, 0);
  for (const auto& group : groups_of(distances(links))) {
    for (const std::size_t host : group) islands.of_host[host] = islands.count;
    ++islands.count;
  }
  std::vector<double> inside, between, inside_latency, between_latency;
  for (std::size_t i = 0; i < hosts; ++i) {
    for (std::size_t j = 0; j < hosts; ++j) {
      if (i == j || links.bytes_per_second[i][j] <= 0) continue;
      const bool same = islands.of_host[i] == islands.of_host[j];
      (same ? inside : between).push_back(links.bytes_per_second[i][j]);
      (same ? inside_latency : between_latency).push_back(links.latency_seconds[i][j]);
    }
  }
  islands.inside_bytes_per_second = median(std::move(inside));
  islands.between_bytes_per_second = median(std::move(between));
  islands.inside_latency_seconds = median(std::move(inside_latency));
  islands.between_latency_seconds = median(std::move(between_latency));
  return islands;
}

bool unlike_inside(const Islands& islands, const LinkMatrix& links) {
  const Matrix distance = distances(links);
  std::vector<double> shortest(static_cast<std::size_t>(islands.count)), longest(shortest);
  for (std::size_t i = 0; i < distance.size(); ++i) {
    for (std::size_t j = i + 1; j < distance.size(); ++j) {
      const int island = islands.of_host[i];
      if (island != islands.of_host[j] || links.bytes_per_second[i][j] <= 0 ||
          links.bytes_per_second[j][i] <= 0)
        continue;
      const double length = (distance[i][j] + distance[j][i]) / 2;
      double &least = shortest[static_cast<std::size_t>(island)],
             &most = longest[static_cast<std::size_t>(island)];
      least = least == 0 ? length : std::min(least, length);
      most = std::max(most, length);
    }
  }
  for (std::size_t island = 0; island < shortest.size(); ++island) {
    if (longest[island] > kMuchNearer * shortest[island]) return true;
  }
  return false;
}

bool seen_by_latency(const Islands& islands, const LinkMatrix& links) {
  const auto groups = groups_by_latency(links.latency_seconds);
  if (groups.size() != static_cast<std::size_t>(islands.count)) return false;
  return std::ranges::all_of(groups, [&](const auto& group) {
    return std::ranges::all_of(
        group, [&](std::size_t host) { return islands.of_host[host] == islands.of_host[group.front()]; });
  });
}

std::vector<std::vector<std::pair<int, int>>> survey_rounds(const Matrix& latency_seconds) {
  using transport::measure::round_robin;
  const auto groups = groups_by_latency(latency_seconds);
  std::vector<std::vector<std::pair<int, int>>> rounds;
  const auto add = [&](std::size_t round, std::size_t one, std::size_t other) {
    if (rounds.size() <= round) rounds.resize(round + 1);
    rounds[round].emplace_back(std::min(one, other), std::max(one, other));
  };
  for (const auto& group : groups) {
    const auto own = round_robin(static_cast<int>(group.size()));
    const std::size_t step = (own.size() + kMostRounds - 1) / kMostRounds;
    for (std::size_t round = 0; round < own.size(); round += step) {
      for (const auto& [one, other] : own[round])
        add(round / step, group[static_cast<std::size_t>(one)], group[static_cast<std::size_t>(other)]);
    }
  }
  const std::size_t begin = rounds.size();
  const auto across = round_robin(static_cast<int>(groups.size()));
  for (std::size_t round = 0; round < std::min(across.size(), kMostRounds); ++round) {
    for (const auto& [one, other] : across[round])
      add(begin + round, groups[static_cast<std::size_t>(one)].front(),
          groups[static_cast<std::size_t>(other)].front());
  }
  return rounds;
}

std::vector<std::vector<std::pair<int, int>>> rounds_between(const Islands& islands, int look) {
  std::vector<std::vector<int>> members(static_cast<std::size_t>(islands.count));
  for (std::size_t host = 0; host < islands.of_host.size(); ++host)
    members[static_cast<std::size_t>(islands.of_host[host])].push_back(static_cast<int>(host));
  const auto speaker = [&](int island) {
    const auto& of_island = members[static_cast<std::size_t>(island)];
    return of_island[static_cast<std::size_t>(look) % of_island.size()];
  };
  auto rounds = transport::measure::round_robin(islands.count);
  for (auto& round : rounds) {
    for (auto& [one, other] : round) {
      const int left = speaker(one), right = speaker(other);
      one = std::min(left, right);
      other = std::max(left, right);
    }
  }
  return rounds;
}

std::string Islands::encode() const {
  Json json{{"tombolo_islands", 1},
            {"of_host", of_host},
            {"inside_bytes_per_second", inside_bytes_per_second},
            {"between_bytes_per_second", between_bytes_per_second},
            {"inside_latency_seconds", inside_latency_seconds},
            {"between_latency_seconds", between_latency_seconds}};
  if (!between.empty()) json["between"] = between;
  return json.dump();
}

Islands Islands::decode(const std::string& text, std::size_t hosts, const std::string& where) {
  Islands islands;
  try {
    const Json json = parse_peer_json(text, where);
    if (json.at("tombolo_islands") != 1)
      fail(Cause::kRemote, "{}: version {}, expected 1", where, json.at("tombolo_islands").dump());
    islands.of_host = json.at("of_host").get<std::vector<int>>();
    islands.inside_bytes_per_second = json.at("inside_bytes_per_second");
    islands.between_bytes_per_second = json.at("between_bytes_per_second");
    islands.inside_latency_seconds = json.value("inside_latency_seconds", 0.0);  // earlier builds' lack it
    islands.between_latency_seconds = json.at("between_latency_seconds");
    if (json.contains("between")) islands.between = json["between"].get<std::vector<std::vector<double>>>();
  } catch (const Json::exception& error) {
    fail(Cause::kRemote, "{}: {}", where, error.what());
  }
  if (islands.of_host.size() != hosts)
    fail(Cause::kRemote, "{}: {} hosts, expected {}", where, islands.of_host.size(), hosts);
  for (const int island : islands.of_host) {
    if (island < 0 || island > islands.count)
      fail(Cause::kRemote, "{}: island {} after {}", where, island, islands.count);
    islands.count = std::max(islands.count, island + 1);
  }
  const auto count = static_cast<std::size_t>(islands.count);
  const auto is_row = [count](const std::vector<double>& row) {
    return row.size() == count &&
           std::ranges::all_of(row, [](double rate) { return std::isfinite(rate) && rate >= 0; });
  };
  if (!islands.between.empty() &&
      (islands.between.size() != count || !std::ranges::all_of(islands.between, is_row)))
    fail(Cause::kRemote, "{}: rates between islands that are not those of {}", where, count);
  return islands;
}

}  // namespace tombolo::collectives
