#include "tools/emulation/spec.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>
#include <numeric>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "base/parse_duration.h"
#include "base/units.h"
#include "tools/emulation/segments.h"

namespace tombolo::emulation {
namespace {

constexpr std::size_t kMaxHosts = 64;  // each costs a namespace; far beyond what one machine can feed
constexpr std::size_t kMaxNics = 8;    // per host
constexpr int kMaxTwins = 3;           // NICs of one host on one fabric: the addresses leave room for so many
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

// Segments that links join carry one another's packets.
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
  std::map<std::string, std::size_t> joined;
  for (std::size_t i = 0; i < segments.size(); ++i) joined[segments[i]] = i;
  for (const LinkSpec& link : spec.links) {
    for (const std::string& end : {link.first, link.second}) {
      if (!joined.contains(end)) {
        reject(spec, fmt::format("a link names segment '{}', which no NIC is on", end));
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
      if (!nic.behind.empty()) continue;  // beside the other NIC's fabric
      auto [seen, first] = fabric_of_segment.emplace(nic.segment, nic.fabric);
      if (!first && seen->second != nic.fabric) {
        reject(spec, fmt::format("segment '{}' carries two fabrics, '{}' and '{}'; give each its own",
                                 nic.segment, seen->second, nic.fabric));
      }
    }
  }
}

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
    if (link.bits_per_second < kMinRate) {
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

// "name:key=value,key=value", with only the known keys.
std::map<std::string, std::string> built_in_values(std::string_view text,
                                                   std::map<std::string, std::string> values) {
  std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) return values;
  std::string_view rest = text.substr(colon + 1);
  while (!rest.empty()) {
    std::size_t comma = std::min(rest.find(','), rest.size());
    std::string_view item = rest.substr(0, comma);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    std::size_t equals = item.find('=');
    std::string key(item.substr(0, equals));
    if (equals == std::string_view::npos || !values.contains(key)) {
      std::string known;
      for (const auto& [name, value] : values)
        known += fmt::format("{}{}={}", known.empty() ? "" : ",", name, value);
      fail(Cause::kInvalidUsage, "emulation '{}': '{}' is not one of its settings ({})", text, item, known);
    }
    values[key] = std::string(item.substr(equals + 1));
  }
  return values;
}

int even_hosts(const std::string& value, std::string_view spec_name) {
  int hosts = 0;
  auto [rest, status] = std::from_chars(value.data(), value.data() + value.size(), hosts);
  if (status != std::errc{} || rest != value.data() + value.size() || hosts < 2 ||
      hosts > static_cast<int>(kMaxHosts) || hosts % 2 != 0) {
    fail(Cause::kInvalidUsage,
         "emulation '{}': hosts={} is not an even number from 2 to {} (half in each cluster)", spec_name,
         value, kMaxHosts);
  }
  return hosts;
}

// As in the Holmes paper: every host has a fast NIC that reaches its own cluster, and a slow one that reaches
// all.
Spec holmes(std::string_view text) {
  auto values = built_in_values(text, {{"fast", "4gbit"}, {"slow", "100mbit"}, {"hosts", "4"}});
  double fast = parse_bit_rate(values["fast"], "emulation 'holmes': fast");
  double slow = parse_bit_rate(values["slow"], "emulation 'holmes': slow");
  int per_cluster = even_hosts(values["hosts"], "holmes") / 2;
  Spec spec;
  spec.name = "holmes";
  for (bool second : {false, true}) {
    for (int i = 0; i < per_cluster; ++i) {
      HostSpec host;
      host.name = fmt::format("{}{}", second ? "b" : "a", i);
      host.cluster = std::string(1, second ? 'B' : 'A');
      std::string fabric = second ? "B-roce" : "A-ib";
      auto kind = second ? topology::NicKind::kRoce : topology::NicKind::kInfiniBand;
      host.nics.push_back({"fast0", kind, fabric, fabric, fast, true});
      host.nics.push_back({"eth0", topology::NicKind::kTcp, "", "ethernet", slow, true});
      spec.hosts.push_back(std::move(host));
    }
  }
  return spec;
}

constexpr Duration kMaxRoundTrip = std::chrono::seconds(10);  // a relay holds what is under way

Duration parse_round_trip(std::string_view text, std::string_view what) {
  Duration round_trip = parse_duration(text, what);
  if (round_trip > kMaxRoundTrip) fail(Cause::kInvalidUsage, "{}: '{}' is above 10 s", what, text);
  return round_trip;
}

// "0.1%" to 0.001.
double parse_loss(std::string_view text, std::string_view what) {
  double percent = 0;
  auto [rest, status] = std::from_chars(text.data(), text.data() + text.size(), percent);
  if (status != std::errc{} || std::string_view(rest, text.data() + text.size()) != "%" || !(percent >= 0) ||
      percent >= 100) {
    fail(Cause::kInvalidUsage, "{}: '{}' is not a share of packets lost; write 0.1%, and less than 100%",
         what, text);
  }
  return percent / 100;
}

// The settings that every built-in link takes.
LinkSpec long_link(std::string_view name, std::string first, std::string second, double rate,
                   const std::map<std::string, std::string>& values) {
  LinkSpec link;
  link.first = std::move(first);
  link.second = std::move(second);
  link.bits_per_second = rate;
  link.round_trip = parse_round_trip(values.at("rtt"), fmt::format("emulation '{}': rtt", name));
  link.loss = parse_loss(values.at("loss"), fmt::format("emulation '{}': loss", name));
  return link;
}

// For measuring against the bound S / rate: fast inside each cluster, one full-duplex link between the two.
Spec two_clusters(std::string_view text) {
  auto values = built_in_values(text, {{"rate", "1gbit"}, {"hosts", "4"}, {"rtt", "0ms"}, {"loss", "0%"}});
  double rate = parse_bit_rate(values["rate"], "emulation 'two-clusters': rate");
  int per_cluster = even_hosts(values["hosts"], "two-clusters") / 2;
  Spec spec;
  spec.name = "two-clusters";
  for (bool second : {false, true}) {
    for (int i = 0; i < per_cluster; ++i) {
      HostSpec host;
      host.name = fmt::format("{}{}", second ? "b" : "a", i);
      host.cluster = std::string(1, second ? 'B' : 'A');
      host.nics.push_back({"eth0", topology::NicKind::kTcp, "", host.cluster, 10e9, false});
      spec.hosts.push_back(std::move(host));
    }
  }
  spec.links.push_back(long_link("two-clusters", "A", "B", rate, values));
  return spec;
}

// Two hosts with several ways from one to the other, each with its own NIC at both ends, fabric and rate.
Spec two_paths(std::string_view text) {
  auto values = built_in_values(text, {{"rates", "1gbit/250mbit"}, {"rtt", "0ms"}, {"loss", "0%"}});
  Spec spec;
  spec.name = "two-paths";
  spec.hosts = {{"a0", "A", 1, {}}, {"b0", "B", 1, {}}};
  std::string_view rest = values["rates"];
  for (std::size_t path = 0; path == 0 || !rest.empty(); ++path) {
    std::size_t slash = std::min(rest.find('/'), rest.size());
    double rate = parse_bit_rate(rest.substr(0, slash), "emulation 'two-paths': rates");
    rest.remove_prefix(std::min(slash + 1, rest.size()));
    for (HostSpec& host : spec.hosts) {
      host.nics.push_back({fmt::format("eth{}", path), topology::NicKind::kTcp, fmt::format("path{}", path),
                           fmt::format("path{}-{}", path, host.cluster), rate, false});
    }
    spec.links.push_back(long_link("two-paths", spec.hosts[0].nics.back().segment,
                                   spec.hosts[1].nics.back().segment, rate, values));
  }
  return spec;
}

// A text that `parse` reads; its complaints get file, line and field.
template <typename Parse>
auto parsed_at(const JsonCursor& cursor, Parse parse, std::string_view what) {
  try {
    return parse(cursor.text(), what);
  } catch (const Error& error) {
    cursor.reject(error.what());
  }
}

double rate_at(const JsonCursor& cursor) {
  return parsed_at(cursor, parse_bit_rate, "rate");
}

LinkSpec parse_link(const JsonCursor& cursor) {
  cursor.only({"between", "rate", "rtt", "loss", "queue"});
  auto ends = cursor.field("between").elements();
  if (ends.size() != 2) cursor.field("between").reject("expected the names of two segments");
  LinkSpec link;
  link.first = ends[0].text();
  link.second = ends[1].text();
  link.bits_per_second = rate_at(cursor.field("rate"));
  if (auto rtt = cursor.optional("rtt")) link.round_trip = parsed_at(*rtt, parse_round_trip, "rtt");
  if (auto loss = cursor.optional("loss")) link.loss = parsed_at(*loss, parse_loss, "loss");
  if (auto queue = cursor.optional("queue")) {
    link.queue_bytes = parsed_at(*queue, parse_size, "queue");
    if (link.queue_bytes < 2 * kMostFrame || link.queue_bytes > kGiB) {
      queue->reject("a queue from 132K (two of the largest packets) to 1G is needed");
    }
    if (!link.relayed()) queue->reject("only a link with rtt or loss has a queue of its own");
  }
  return link;
}

/// A NIC behind another's port: segment and rate are that one's.
void share_port(const JsonCursor& cursor, const std::vector<NicSpec>& earlier, NicSpec& nic) {
  for (const char* of_the_port : {"segment", "rate", "shaped"}) {
    if (auto given = cursor.optional(of_the_port))
      given->reject("it is that of the NIC that this one is \"behind\"");
  }
  const auto behind = cursor.field("behind");
  nic.behind = behind.text();
  const auto port = std::ranges::find(earlier, nic.behind, &NicSpec::name);
  if (port == earlier.end() || !port->behind.empty())
    behind.reject(fmt::format("'{}' is no earlier NIC of this host with a port of its own", nic.behind));
  if (port->fabric == nic.fabric)
    cursor.reject(fmt::format("it needs another \"fabric\" than '{}', which it is behind", nic.behind));
  nic.segment = port->segment;
  nic.bits_per_second = port->bits_per_second;
  nic.shaped = port->shaped;
}

NicSpec parse_nic(const JsonCursor& cursor, const std::vector<NicSpec>& earlier) {
  cursor.only({"name", "kind", "fabric", "segment", "rate", "shaped", "behind"});
  NicSpec nic;
  nic.name = cursor.field("name").text();
  if (auto kind = cursor.optional("kind")) {
    auto known = topology::nic_kind_from_name(kind->text());
    if (!known) kind->reject(fmt::format("'{}' is none of infiniband, roce, iwarp, tcp", kind->text()));
    nic.kind = *known;
  }
  if (auto fabric = cursor.optional("fabric")) nic.fabric = fabric->text();
  if (cursor.optional("behind")) {
    share_port(cursor, earlier, nic);
    return nic;
  }
  nic.segment = nic.fabric.empty() ? "ethernet" : nic.fabric;
  if (auto segment = cursor.optional("segment")) nic.segment = segment->text();
  nic.bits_per_second = rate_at(cursor.field("rate"));
  if (auto shaped = cursor.optional("shaped")) nic.shaped = shaped->boolean();
  return nic;
}

}  // namespace

Spec Spec::from_text(std::string_view text) {
  std::string_view built_in = text.substr(0, text.find(':'));
  Spec spec;
  if (built_in == "holmes") {
    spec = holmes(text);
  } else if (built_in == "two-clusters") {
    spec = two_clusters(text);
  } else if (built_in == "two-paths") {
    spec = two_paths(text);
  } else if (text.find('/') == std::string_view::npos && !text.ends_with(".json")) {
    fail(Cause::kInvalidUsage,
         "there is no emulation '{}': the built-in ones are holmes, two-clusters and two-paths; a file's "
         "name ends in .json or has a '/' in it",
         text);
  } else {
    return parse(JsonDocument::load(std::string(text)));
  }
  validate(spec);
  return spec;
}

Spec Spec::parse(const JsonDocument& document) {
  JsonCursor root = document.root();
  root.only({"name", "hosts", "links"});
  Spec spec;
  spec.name = root.field("name").text();
  for (const JsonCursor& entry : root.field("hosts").elements()) {
    entry.only({"name", "cluster", "devices", "nics"});
    HostSpec host;
    host.name = entry.field("name").text();
    host.cluster = entry.field("cluster").text();
    if (auto devices = entry.optional("devices")) host.devices = static_cast<int>(devices->integer(1, 64));
    for (const JsonCursor& nic : entry.field("nics").elements())
      host.nics.push_back(parse_nic(nic, host.nics));
    spec.hosts.push_back(std::move(host));
  }
  if (auto links = root.optional("links")) {
    for (const JsonCursor& entry : links->elements()) spec.links.push_back(parse_link(entry));
  }
  validate(spec);
  return spec;
}

std::vector<std::string> Spec::fabrics() const {
  std::vector<std::string> names;
  for (const HostSpec& each : hosts) {
    for (const NicSpec& nic : each.nics) {
      if (std::find(names.begin(), names.end(), nic.fabric) == names.end()) names.push_back(nic.fabric);
    }
  }
  return names;
}

std::vector<std::string> Spec::segments() const {
  std::vector<std::string> names;
  for (const HostSpec& each : hosts) {
    for (const NicSpec& nic : each.nics) {
      if (std::find(names.begin(), names.end(), nic.segment) == names.end()) names.push_back(nic.segment);
    }
  }
  return names;
}

int Spec::devices() const noexcept {
  return std::accumulate(hosts.begin(), hosts.end(), 0,
                         [](int sum, const HostSpec& each) { return sum + each.devices; });
}

const HostSpec& Spec::host(std::string_view host_name) const {
  std::string known;
  for (const HostSpec& each : hosts) {
    if (each.name == host_name) return each;
    known += (known.empty() ? "" : ", ") + each.name;
  }
  fail(Cause::kInvalidUsage, "emulation '{}' has no host '{}'; it has {}", name, host_name, known);
}

std::string Spec::common_fabric(const std::vector<std::string>& host_names) const {
  for (const std::string& fabric : fabrics()) {
    bool everywhere = std::all_of(host_names.begin(), host_names.end(), [&](const std::string& host_name) {
      const auto& nics = host(host_name).nics;
      return std::any_of(nics.begin(), nics.end(), [&](const NicSpec& nic) { return nic.fabric == fabric; });
    });
    if (everywhere) return fabric;
  }
  fail(Cause::kInvalidUsage,
       "emulation '{}': no fabric has a NIC on every host, so that the ranks could not find each other; give "
       "each "
       "host a NIC on a common one",
       name);
}

std::string Spec::address(std::size_t host_index, std::size_t nic_index, bool loopback) const {
  std::vector<std::string> names = fabrics();
  const NicSpec& nic = hosts.at(host_index).nics.at(nic_index);
  auto at = std::find(names.begin(), names.end(), nic.fabric);
  // Of several NICs of one host on one fabric, the second lies 64 (hosts) above, and so on.
  std::size_t twin = 0;
  for (std::size_t i = 0; i < nic_index; ++i) twin += hosts[host_index].nics[i].fabric == nic.fabric ? 1 : 0;
  return fmt::format("{}.77.{}.{}", loopback ? 127 : 10, at - names.begin(),
                     twin * kMaxHosts + host_index + 1);
}

}  // namespace tombolo::emulation
