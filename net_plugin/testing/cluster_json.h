// Cluster files for tests of the tuner.
#pragma once

#include <string>
#include <vector>

#include "base/format.h"

namespace tombolo::net_plugin::testing_support {

/// Clusters "C0", "C1", ... of so many hosts with one Ethernet NIC each; by default any two attain
/// `inside_rate` in a cluster and `between_rate` otherwise, bytes per second. `more` is added to the file's
/// members, as `, "shared_links": [...]`.
struct ClusterJson {
  std::vector<int> hosts;
  double inside_rate = 1e10, inside_latency = 5e-6;
  double between_rate = 1.25e8, between_latency = 0.01;
  std::string more{};

  std::string text() const {
    std::string listed, fabrics;
    for (std::size_t cluster = 0; cluster < hosts.size(); ++cluster) {
      for (int host = 0; host < hosts[cluster]; ++host) {
        listed += fmt::format(
            R"({}{{"name": "c{}h{}", "cluster": "C{}", "nics": [{{"name": "eth0", "kind": "tcp", "address": "10.{}.0.{}"}}], "devices": []}})",
            listed.empty() ? "" : ",\n", cluster, host, cluster, cluster, host + 1);
      }
      for (std::size_t other = 0; other < hosts.size(); ++other) {
        const bool same = cluster == other;
        fabrics += fmt::format(
            R"({}{{"from_cluster": "C{}", "to_cluster": "C{}", "bytes_per_second": {}, "latency_seconds": {}}})",
            fabrics.empty() ? "" : ",\n", cluster, other, same ? inside_rate : between_rate,
            same ? inside_latency : between_latency);
      }
    }
    return fmt::format("{{\"tombolo_cluster\": 1, \"hosts\": [{}], \"fabrics\": [{}]{}}}\n", listed, fabrics,
                       more);
  }
};

}  // namespace tombolo::net_plugin::testing_support
