#include "collectives/schedule/job_shape.h"

#include <algorithm>
#include <functional>
#include <map>

#include "base/format.h"

namespace tombolo::collectives {
namespace {

/// "4 ranks", "1 rank"
std::string counted(std::size_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string list(const std::vector<std::vector<std::size_t>>& clusters) {
  constexpr std::size_t kMost = 16;
  std::string text;
  std::size_t told = 0;
  for (const auto& cluster : clusters) {
    text += text.empty() ? "" : "; ";
    for (std::size_t i = 0; i < cluster.size(); ++i) {
      if (++told > kMost) return text + "...";
      text += fmt::format("{}{}", i > 0 ? ", " : "", cluster[i]);
    }
  }
  return text;
}

}  // namespace

JobShape JobShape::of(const std::vector<RankLocation>& locations, bool uniform_links) {
  std::map<std::string, std::map<std::string, std::size_t>> ranks;
  for (const RankLocation& one : locations) ++ranks[one.cluster][one.host];
  JobShape shape;
  shape.uniform_links = uniform_links;
  for (const auto& [cluster, hosts] : ranks) {
    auto& sizes = shape.clusters.emplace_back();
    for (const auto& [host, count] : hosts) sizes.push_back(count);
    std::ranges::sort(sizes, std::greater());
  }
  std::ranges::sort(shape.clusters, std::greater());
  return shape;
}

std::size_t JobShape::ranks() const noexcept {
  std::size_t all = 0;
  for (const auto& cluster : clusters) {
    for (const std::size_t host : cluster) all += host;
  }
  return all;
}

std::size_t JobShape::hosts() const noexcept {
  std::size_t all = 0;
  for (const auto& cluster : clusters) all += cluster.size();
  return all;
}

std::string JobShape::describe() const {
  return fmt::format("{} on {} in {} ({} on each host)", counted(ranks(), "rank"), counted(hosts(), "host"),
                     counted(clusters.size(), "cluster"), list(clusters));
}

std::string difference(const JobShape& table, const JobShape& job) {
  if (table == job) return {};
  const auto differs = [&](std::size_t its, std::size_t own, std::string_view what) {
    return fmt::format("it is for {}, and this job has {}", counted(its, what), own);
  };
  if (table.ranks() != job.ranks()) return differs(table.ranks(), job.ranks(), "rank");
  if (table.hosts() != job.hosts()) return differs(table.hosts(), job.hosts(), "host");
  if (table.clusters.size() != job.clusters.size())
    return differs(table.clusters.size(), job.clusters.size(), "cluster");
  if (table.clusters != job.clusters)
    return fmt::format("it is for hosts of {} ranks, and this job has hosts of {} (clusters apart by ;)",
                       list(table.clusters), list(job.clusters));
  return fmt::format("it is for TOMBOLO_ROUTING={}, and this job has {}",
                     table.uniform_links ? "shared" : "per-peer", job.uniform_links ? "shared" : "per-peer");
}

}  // namespace tombolo::collectives
