#include <algorithm>

#include "base/error.h"
#include "tools/launch/launcher.h"

namespace tombolo::tools {
namespace {

int devices_of(const topology::Host& host) {
  return std::max<int>(1, static_cast<int>(host.devices.size()));
}

std::vector<std::string> block(const std::vector<topology::Host>& hosts, int ranks) {
  int devices = 0;
  for (const auto& host : hosts) devices += devices_of(host);
  int count = static_cast<int>(hosts.size());
  std::vector<std::string> order;
  for (int h = 0; h < count; ++h) {
    // With more ranks than devices each host gets an equal run, and the first hosts one more where the number
    // is not divisible.
    int here = ranks <= devices ? devices_of(hosts[h]) : ranks / count + (h < ranks % count ? 1 : 0);
    for (int i = 0; i < here && static_cast<int>(order.size()) < ranks; ++i) order.push_back(hosts[h].name);
  }
  return order;
}

// Takes one device of each cluster in turn: a0 b0 a1 b1.
std::vector<std::string> interleaved(const std::vector<topology::Host>& hosts, int ranks) {
  std::vector<std::string> clusters;
  for (const auto& host : hosts) {
    if (std::find(clusters.begin(), clusters.end(), host.cluster) == clusters.end())
      clusters.push_back(host.cluster);
  }
  std::vector<std::vector<std::string>> devices(clusters.size());
  for (const auto& host : hosts) {
    auto at = std::find(clusters.begin(), clusters.end(), host.cluster) - clusters.begin();
    for (int d = 0; d < devices_of(host); ++d) devices[static_cast<std::size_t>(at)].push_back(host.name);
  }
  std::vector<std::string> cycle;
  std::size_t longest = 0;
  for (const auto& each : devices) longest = std::max(longest, each.size());
  for (std::size_t i = 0; i < longest; ++i) {
    for (const auto& each : devices) {
      if (i < each.size()) cycle.push_back(each[i]);
    }
  }
  std::vector<std::string> order;
  for (int r = 0; r < ranks; ++r) order.push_back(cycle[static_cast<std::size_t>(r) % cycle.size()]);
  return order;
}

std::vector<std::string> named(std::string_view list, const std::vector<topology::Host>& hosts, int ranks) {
  std::vector<std::string> order;
  while (!list.empty()) {
    std::size_t comma = std::min(list.find(','), list.size());
    order.emplace_back(list.substr(0, comma));
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  for (const std::string& name : order) {
    if (std::none_of(hosts.begin(), hosts.end(), [&](const auto& host) { return host.name == name; })) {
      std::string known;
      for (const auto& host : hosts) known += (known.empty() ? "" : ", ") + host.name;
      fail(Cause::kInvalidUsage, "rank order: '{}' is neither block, interleaved, nor a host; hosts are {}",
           name, known);
    }
  }
  if (static_cast<int>(order.size()) != ranks) {
    fail(Cause::kInvalidUsage, "rank order: {} hosts are named for {} ranks; name one per rank", order.size(),
         ranks);
  }
  return order;
}

}  // namespace

std::vector<std::string> map_ranks(std::string_view order, const std::vector<topology::Host>& hosts,
                                   int ranks) {
  if (ranks < 1) fail(Cause::kInvalidUsage, "{} ranks: at least one is needed", ranks);
  if (hosts.empty()) fail(Cause::kInvalidUsage, "rank order: there are no hosts");
  if (order.empty() || order == "block") return block(hosts, ranks);
  if (order == "interleaved") return interleaved(hosts, ranks);
  return named(order, hosts, ranks);
}

}  // namespace tombolo::tools
