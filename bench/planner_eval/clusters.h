// Clusters and models for the evaluation of searches.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "planner/planner.h"

namespace tombolo::bench {

/// Hosts of one type.
struct Machines {
  std::string type;
  int hosts = 1, devices = 8;
};

/// The attained FLOP/s and the memory of a device, and the bytes per second between the devices of a host.
struct Spec {
  double flops = 0, memory = 0, inside = 0;
};

/// A cluster of hosts that are named by type, with one NIC each and equal bytes per second between any two.
topology::ClusterFile cluster_of(const std::vector<std::pair<Machines, Spec>>& machines,
                                 double bytes_per_second);

/// A model of LLaMA's kind in fp16, with an MLP of 8/3 hidden rounded up to `multiple`, and `rows` rows of
/// 2048 tokens per step, trained by a framework without limits, with gradients in fp16. The planner chooses
/// the rest.
planner::Job llama_job(int layers, int hidden, int heads, int multiple, int vocabulary, int rows);

/// Options of that strategy, with every kind of recomputation allowed.
planner::PlanOptions options_for(std::string_view strategy);

}  // namespace tombolo::bench
