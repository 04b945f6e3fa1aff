#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "base/error.h"
#include "tools/emulation/spec_parts.h"

namespace tombolo::emulation {
namespace {

constexpr std::size_t kMaxNics = 8;  // per host
constexpr int kMaxTwins = 3;         // NICs of one host on one fabric, for which the addresses leave room
constexpr std::size_t kMaxFabrics = 250;   // one octet of the address
constexpr std::size_t kMaxInterface = 15;  // IFNAMSIZ - 1
constexpr std::size_t kMaxRelays = 32;     // each costs a process
constexpr double kMinRate = 1e5;           // below 100 kbit/s one packet of 1500 bytes takes over 0.1 s

bool interface_name_ok(std::string_view name) {
  return !name.empty() && name.size() <= kMaxInterface && name != "lo" &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.';
         });
}

// Numbers the groups of segments that links join; segments of one group carry each other's packets.
std::map<std::string, std::size_t> islands_of_segments(const Spec& spec) {
  std::vector<std::string> names = spec.segments();
  std::map<std::string, std::size_t> island;
  for (std::size_t i = 0; i < names.size(); ++i) island[names[i]] = i;
  for (const LinkSpec& link : spec.links) {
    std::size_t keep = island.at(link.first);
    std::size_t gone = island.at(link.second);
    for (auto& [name, index] : island) {
      if (index == gone) index = keep;
    }
  }
  return island;
}

[[noreturn]] void reject(const Spec& spec, const std::string& message) {
  fail(Cause::kInvalidUsage, "emulation '{}': {}", spec.name, message);
}

void validate_links(const Spec& spec) {
  std::vector<std::string> segments = spec.segments();
  std::map<std::string, std::size_t> joined, ends;
  std::set<std::string> with_nics;
  for (const HostSpec& host : spec.hosts)
    for (const NicSpec& nic : host.nics) with_nics.insert(nic.segment);
  for (std::size_t i = 0; i < segments.size(); ++i) joined[segments[i]] = i;
  for (const LinkSpec& link : spec.links)
    for (const std::string& end : {link.first, link.second}) ++ends[end];
  for (const LinkSpec& link : spec.links) {
    for (const std::string& end : {link.first, link.second}) {
      // A switch without NICs joins two others at least; a single link to one is a slip of the pen.
      if (!with_nics.contains(end) && ends[end] < 2) {
        reject(spec, fmt::format("a link names segment '{}', which no NIC and no other link is on", end));
      }
    }
    std::size_t keep = joined[link.first];
    std::size_t gone = joined[link.second];
    if (keep == gone) {
      reject(spec,
             fmt::format("the link {} - {} closes a loop; bridges would flood it", link.first, link.second));
    }
    for (auto& [name, index] : joined) {
      if (index == gone) index = keep;
    }
  }
}

void validate_fabrics(const Spec& spec) {
  auto island = islands_of_segments(spec);
  std::map<std::string, std::size_t> island_of_fabric;
  std::map<std::string, std::string> fabric_of_segment;
  for (const HostSpec& host : spec.hosts) {
    for (const NicSpec& nic : host.nics) {
      auto [at, is_new] = island_of_fabric.emplace(nic.fabric, island.at(nic.segment));
      if (!is_new && at->second != island.at(nic.segment)) {
        reject(spec, fmt::format("fabric '{}' lies on segments that no link joins ('{}' is one)", nic.fabric,
                                 nic.segment));
      }
      if (!nic.behind.empty()) continue;  // it may be on another fabric than the NIC whose port it shares
      auto [seen, first] = fabric_of_segment.emplace(nic.segment, nic.fabric);
      if (!first && seen->second != nic.fabric) {
        reject(spec, fmt::format("segment '{}' carries two fabrics, '{}' and '{}'; give each its own",
                                 nic.segment, seen->second, nic.fabric));
      }
    }
  }
}

}  // namespace

void validate(const Spec& spec) {
  if (spec.hosts.empty()) reject(spec, "it has no hosts");
  if (spec.hosts.size() > kMaxHosts) reject(spec, fmt::format("more than {} hosts", kMaxHosts));
  std::set<std::string> names;
  for (const HostSpec& host : spec.hosts) {
    if (host.name.empty()) reject(spec, "a host has no name");
    if (!names.insert(host.name).second) reject(spec, fmt::format("two hosts are named '{}'", host.name));
    if (host.nics.empty()) reject(spec, fmt::format("host '{}' has no NICs", host.name));
    if (host.nics.size() > kMaxNics) {
      reject(spec, fmt::format("host '{}' has more than {} NICs", host.name, kMaxNics));
    }
    std::set<std::string> interfaces;
    std::map<std::string, int> on_fabric;
    for (const NicSpec& nic : host.nics) {
      if (++on_fabric[nic.fabric] > kMaxTwins) {
        reject(spec, fmt::format("host '{}' has more than {} NICs on fabric '{}'", host.name, kMaxTwins,
                                 nic.fabric));
      }
      if (!interface_name_ok(nic.name)) {
        reject(spec,
               fmt::format("host '{}': '{}' is not an interface name (1 to {} letters, digits, '_', '-', "
                           "'.', and not 'lo')",
                           host.name, nic.name, kMaxInterface));
      }
      if (!interfaces.insert(nic.name).second) {
        reject(spec, fmt::format("host '{}' has two NICs named '{}'", host.name, nic.name));
      }
      if (nic.bits_per_second < kMinRate) {
        reject(spec, fmt::format("host '{}', NIC '{}': a rate of at least 100kbit is needed, not {} bit/s",
                                 host.name, nic.name, nic.bits_per_second));
      }
    }
  }
  for (const LinkSpec& link : spec.links) {
    if (link.bits_per_second < kMinRate || link.back() < kMinRate) {
      reject(spec,
             fmt::format("the link {} - {}: a rate of at least 100kbit is needed", link.first, link.second));
    }
  }
  auto relays = std::count_if(spec.links.begin(), spec.links.end(),
                              [](const LinkSpec& link) { return link.relayed(); });
  if (static_cast<std::size_t>(relays) > kMaxRelays) {
    reject(spec, fmt::format("more than {} links with a round trip or loss", kMaxRelays));
  }
  if (spec.fabrics().size() > kMaxFabrics) reject(spec, fmt::format("more than {} fabrics", kMaxFabrics));
  validate_links(spec);
  validate_fabrics(spec);
  std::vector<std::string> all(names.begin(), names.end());
  spec.common_fabric(all);
}

}  // namespace tombolo::emulation
