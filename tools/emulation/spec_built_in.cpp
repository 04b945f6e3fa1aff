#include <algorithm>
#include <charconv>
#include <map>

#include "base/error.h"
#include "base/parse_duration.h"
#include "base/units.h"
#include "tools/emulation/spec_parts.h"

namespace tombolo::emulation {
namespace {

constexpr Duration kMaxRoundTrip =
    std::chrono::seconds(10);  // a relay keeps all frames on the line in memory

// Parses "name:key=value,key=value". `values` holds the known keys with their defaults.
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

// The setting of the Holmes paper: each host has a fast NIC that reaches its own cluster, and a slow one that
// reaches all hosts.
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

// Two clusters, fast inside, with one full-duplex link between them: an all-reduce of S bytes takes at least
// S / rate.
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

// Two hosts with several paths between them, each with a NIC of its own at both ends, a fabric and a rate.
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

}  // namespace

Duration parse_round_trip(std::string_view text, std::string_view what) {
  Duration round_trip = parse_duration(text, what);
  if (round_trip > kMaxRoundTrip) fail(Cause::kInvalidUsage, "{}: '{}' is above 10 s", what, text);
  return round_trip;
}

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

std::optional<Spec> built_in_spec(std::string_view text) {
  const std::string_view name = text.substr(0, text.find(':'));
  if (name == "holmes") return holmes(text);
  if (name == "two-clusters") return two_clusters(text);
  if (name == "two-paths") return two_paths(text);
  return std::nullopt;
}

}  // namespace tombolo::emulation
