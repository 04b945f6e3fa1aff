#include "probe/gather.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"

namespace tombolo::probe {

std::vector<std::string> gather_texts(collectives::Communicator& communicator, const std::string& mine) {
  constexpr std::uint64_t kMost = 1U << 20;
  std::uint64_t length = mine.size();
  if (length > kMost)
    fail(Cause::kInvalidUsage, "a text of {} bytes is too long to gather (at most {})", length, kMost);
  std::vector<std::uint64_t> lengths(static_cast<std::size_t>(communicator.size()));
  communicator.all_gather(&length, lengths.data(), 1, collectives::DataType::kUint64);
  std::uint64_t longest = *std::max_element(lengths.begin(), lengths.end());
  TOMBOLO_CHECK(longest <= kMost, "longest={}", longest);
  std::vector<char> padded(longest);
  std::copy(mine.begin(), mine.end(), padded.begin());
  std::vector<char> all(longest * lengths.size());
  if (longest > 0) communicator.all_gather(padded.data(), all.data(), longest, collectives::DataType::kUint8);
  std::vector<std::string> texts;
  for (std::size_t r = 0; r < lengths.size(); ++r) {
    TOMBOLO_CHECK(lengths[r] <= longest, "rank {} length={}", r, lengths[r]);
    texts.emplace_back(all.data() + r * longest, lengths[r]);
  }
  return texts;
}

std::vector<LedHost> gather_hosts(collectives::Communicator& communicator, const topology::Host& mine) {
  topology::ClusterFile alone;
  alone.hosts.push_back(mine);
  std::vector<std::string> texts = gather_texts(communicator, alone.to_json().dump());
  std::vector<LedHost> hosts;
  for (std::size_t r = 0; r < texts.size(); ++r) {
    int rank = static_cast<int>(r);
    auto parsed =
        topology::ClusterFile::parse(JsonDocument::parse(texts[r], fmt::format("rank {}'s host", rank)));
    TOMBOLO_CHECK(parsed.hosts.size() == 1, "rank {} sent {} hosts", rank, parsed.hosts.size());
    auto same = std::find_if(hosts.begin(), hosts.end(),
                             [&](const LedHost& known) { return known.host.name == parsed.hosts[0].name; });
    if (same == hosts.end()) {
      hosts.push_back({parsed.hosts[0], rank, {rank}});
    } else {
      same->ranks.push_back(rank);
    }
  }
  return hosts;
}

}  // namespace tombolo::probe
