// Clusters and models for the searches.
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

/// Attained FLOP/s and memory of a device, and bytes per second between the devices of a host.
struct Spec {
  double flops = 0, memory = 0, inside = 0;
};

/// Hosts named by type, all in one cluster with one NIC each, between any two as many bytes per second.
topology::ClusterFile cluster_of(const std::vector<std::pair<Machines, Spec>>& machines,
                                 double bytes_per_second);

/// A model of LLaMA's kind in fp16, its MLP 8/3 hidden rounded up to `multiple`, `rows` of 2048 tokens per
/// step, trained by Megatron-LM with gradients in fp16; the planner chooses the rest.
planner::Job llama_job(int layers, int hidden, int heads, int multiple, int vocabulary, int rows);

/// With every kind of recomputation.
planner::PlanOptions options_for(std::string_view strategy);

}  // namespace tombolo::bench
