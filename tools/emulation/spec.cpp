#include "tools/emulation/spec.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/json.h"
#include "tools/emulation/spec_parts.h"

namespace tombolo::emulation {

Spec Spec::from_text(std::string_view text) {
  if (const auto spec = built_in_spec(text)) {
    validate(*spec);
    return *spec;
  }
  if (text.find('/') == std::string_view::npos && !text.ends_with(".json")) {
    fail(Cause::kInvalidUsage,
         "there is no emulation '{}': the built-in ones are holmes, two-clusters and two-paths; a file's "
         "name ends in .json or has a '/' in it",
         text);
  }
  return parse(JsonDocument::load(std::string(text)));
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
  for (const LinkSpec& link : links) {
    for (const std::string& end : {link.first, link.second}) {
      if (std::find(names.begin(), names.end(), end) == names.end()) names.push_back(end);
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
  // When a host has several NICs on one fabric, the address of the second is 64 (kMaxHosts) above that of the
  // first, and so on.
  std::size_t twin = 0;
  for (std::size_t i = 0; i < nic_index; ++i) twin += hosts[host_index].nics[i].fabric == nic.fabric ? 1 : 0;
  return fmt::format("{}.77.{}.{}", loopback ? 127 : 10, at - names.begin(),
                     twin * kMaxHosts + host_index + 1);
}

}  // namespace tombolo::emulation
