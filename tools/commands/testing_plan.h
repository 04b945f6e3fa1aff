// A cluster of two hosts by InfiniBand and two by RoCE, and how tests run `tombolo plan` on it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "planner/testing/testing.h"
#include "tools/cli/testing_command.h"

namespace tombolo::tools {

class PlanCommand : public CommandTest {
 protected:
  PlanCommand() {
    auto cluster = planner::testing::make_cluster({{"a", 2, 1, topology::NicKind::kInfiniBand, 4e8, 25e9},
                                                   {"b", 2, 1, topology::NicKind::kRoce, 4e8, 25e9}},
                                                  1.2e7, 1e-4);
    for (auto& host : cluster.hosts)
      for (auto& nic : host.nics) nic.emulated = true;
    cluster.save(file("cluster.json"));
  }

  /// Makes all devices of the cluster file GPUs of that name.
  void have_gpus(const char* name) {
    auto cluster = topology::ClusterFile::load(file("cluster.json"));
    for (auto& host : cluster.hosts)
      for (auto& one : host.devices) {
        one.kind = topology::DeviceKind::kGpu;
        one.name = name;
        one.flops_per_second = 1e12;
      }
    cluster.save(file("cluster.json"));
  }

  int run_plan(std::vector<std::string> more) {
    more.insert(more.begin(), {"plan", "--cluster", file("cluster.json"), "--model",
                               "layers=8,hidden=128,heads=4,context=128,vocabulary=256", "--batch", "32"});
    return run(std::move(more));
  }
};

}  // namespace tombolo::tools
