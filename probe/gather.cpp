#include "probe/gather.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"

namespace tombolo::probe {
namespace {

constexpr const char* kUnknown = "?";

}  // namespace

std::vector<HostRanks> gather_hosts(collectives::Communicator& communicator, const topology::Host& mine) {
  topology::ClusterFile alone;
  alone.hosts.push_back(mine);
  // Detection knows no clusters, but the format requires a name.
  if (mine.cluster.empty()) alone.hosts.back().cluster = kUnknown;
  std::vector<std::string> texts = gather_texts(communicator, alone.to_json().dump());
  std::vector<HostRanks> hosts;
  for (std::size_t r = 0; r < texts.size(); ++r) {
    int rank = static_cast<int>(r);
    auto parsed =
        topology::ClusterFile::parse(JsonDocument::parse(texts[r], fmt::format("rank {}'s host", rank)));
    TOMBOLO_CHECK(parsed.hosts.size() == 1, "rank {} sent {} hosts", rank, parsed.hosts.size());
    if (parsed.hosts[0].cluster == kUnknown) parsed.hosts[0].cluster.clear();
    auto same = std::find_if(hosts.begin(), hosts.end(),
                             [&](const HostRanks& known) { return known.host.name == parsed.hosts[0].name; });
    if (same == hosts.end()) {
      hosts.push_back({parsed.hosts[0], rank, {rank}});
    } else {
      same->ranks.push_back(rank);
    }
  }
  return hosts;
}

}  // namespace tombolo::probe
