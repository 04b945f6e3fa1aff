#include "tools/reports/bandwidth_matrix.h"

#include <algorithm>
#include <map>

#include "base/format.h"
#include "base/units.h"
#include "tools/cli/table.h"

namespace tombolo::tools {
namespace {

const topology::Nic* find_nic(const topology::ClusterFile& cluster, const std::string& host,
                              const std::string& nic) {
  const topology::Host* found = cluster.find_host(host);
  if (found == nullptr) return nullptr;
  auto at = std::find_if(found->nics.begin(), found->nics.end(),
                         [&](const auto& each) { return each.name == nic; });
  return at == found->nics.end() ? nullptr : &*at;
}

// There is one table for each kind and fabric, the best kind first.
using Group = std::pair<topology::NicKind, std::string>;

std::string label(const std::string& host, const std::string& nic) {
  return host + " " + nic;
}

}  // namespace

std::string bandwidth_matrix(const topology::ClusterFile& cluster) {
  std::map<Group, std::vector<const topology::Link*>> groups;
  for (const topology::Link& link : cluster.links) {
    const topology::Nic* nic = find_nic(cluster, link.from_host, link.from_nic);
    if (nic != nullptr) groups[{nic->kind, nic->fabric}].push_back(&link);
  }
  std::string text;
  for (const auto& [group, links] : groups) {
    bool emulated = false;
    double fastest = 0, slowest = 0, nearest = 0, farthest = 0;
    std::vector<std::string> ends;
    std::map<std::pair<std::string, std::string>, double> rate;
    for (const topology::Link* link : links) {
      const topology::Nic* nic = find_nic(cluster, link->from_host, link->from_nic);
      emulated = emulated || nic->emulated;
      bool first = rate.empty();
      fastest = first ? link->bytes_per_second : std::max(fastest, link->bytes_per_second);
      slowest = first ? link->bytes_per_second : std::min(slowest, link->bytes_per_second);
      nearest = first ? link->latency_seconds : std::min(nearest, link->latency_seconds);
      farthest = first ? link->latency_seconds : std::max(farthest, link->latency_seconds);
      std::string from = label(link->from_host, link->from_nic);
      std::string to = label(link->to_host, link->to_nic);
      rate[{from, to}] = link->bytes_per_second;
      for (const std::string& end : {from, to}) {
        if (std::find(ends.begin(), ends.end(), end) == ends.end()) ends.push_back(end);
      }
    }
    std::sort(ends.begin(), ends.end());
    text += fmt::format("{}{}{}: {} to {}, one way in {} to {}\n", topology::nic_kind_name(group.first),
                        emulated ? " (emulated)" : "",
                        group.second.empty() ? std::string() : fmt::format(", fabric {}", group.second),
                        format_bit_rate(slowest), format_bit_rate(fastest), format_seconds(nearest),
                        format_seconds(farthest));
    std::vector<std::string> header{"from \\ to"};
    header.insert(header.end(), ends.begin(), ends.end());
    Table table(header);
    for (const std::string& from : ends) {
      std::vector<std::string> row{from};
      for (const std::string& to : ends) {
        auto at = rate.find({from, to});
        row.push_back(at == rate.end() ? "-" : format_bit_rate(at->second));
      }
      table.add(std::move(row));
    }
    text += table.text(0) + "\n";
  }
  return text;
}

}  // namespace tombolo::tools
