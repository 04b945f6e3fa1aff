#include "topology/files/cluster_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "topology/files/library.h"

namespace tombolo::topology {

const Host* ClusterFile::find_host(std::string_view name) const noexcept {
  auto found = std::find_if(hosts.begin(), hosts.end(), [&](const Host& host) { return host.name == name; });
  return found != hosts.end() ? &*found : nullptr;
}

std::vector<std::string> ClusterFile::clusters() const {
  std::vector<std::string> names;
  for (const Host& host : hosts) {
    if (std::find(names.begin(), names.end(), host.cluster) == names.end()) names.push_back(host.cluster);
  }
  return names;
}

bool SharedLink::carries(std::string_view from_host, std::string_view from_nic, std::string_view to_host,
                         std::string_view to_nic) const noexcept {
  const auto holds = [](const std::vector<NicName>& ends, std::string_view host, std::string_view nic) {
    return std::ranges::any_of(ends, [&](const NicName& end) { return end.host == host && end.nic == nic; });
  };
  return from_host != to_host && holds(from, from_host, from_nic) && holds(to, to_host, to_nic);
}

ClusterFile ClusterFile::load(const std::string& path) {
  ClusterFile file = parse(JsonDocument::load(path));
  file.source = path;
  return file;
}

void ClusterFile::save(const std::string& path) const {
  write_json_file(path, to_json());
}

const Parameter kClusterParameter{
    "TOMBOLO_CLUSTER", ParameterType::kText, "",
    "Path of a cluster file (docs/cluster-file.md) that says what the hosts and "
    "their NICs are. Unset: this machine's NICs are detected."};
const Parameter kHostParameter{"TOMBOLO_HOST", ParameterType::kText, "",
                               "Name of the host in the cluster file on which this process runs. Unset: the "
                               "machine's host name."};

std::optional<ClusterFile> cluster_file_from_environment() {
  std::string path = kClusterParameter.text();
  if (path.empty()) return std::nullopt;
  return ClusterFile::load(path);
}

const std::vector<const Parameter*>& topology_parameters() {
  static const std::vector<const Parameter*> all{&kClusterParameter, &kHostParameter, &kLibraryParameter};
  return all;
}

}  // namespace tombolo::topology
