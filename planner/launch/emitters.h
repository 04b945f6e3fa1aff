// One function per launcher, in a file of its own; launch.h chooses among them and says what they promise.
#pragma once

#include <string>

#include "planner/plan/plan.h"
#include "topology/files/cluster_file.h"

namespace tombolo::planner {

std::string emit_megatron(const Plan& plan, const topology::ClusterFile& cluster,
                          const std::string& cluster_path);
std::string emit_nemo(const Plan& plan, const topology::ClusterFile& cluster,
                      const std::string& cluster_path);
std::string emit_torchtitan(const Plan& plan, const topology::ClusterFile& cluster,
                            const std::string& cluster_path);
std::string emit_torchrun(const Plan& plan, const topology::ClusterFile& cluster,
                          const std::string& cluster_path);
std::string emit_deepspeed(const Plan& plan, const topology::ClusterFile& cluster,
                           const std::string& cluster_path);
std::string emit_slurm(const Plan& plan, const topology::ClusterFile& cluster,
                       const std::string& cluster_path);
std::string emit_mpi(const Plan& plan, const topology::ClusterFile& cluster, const std::string& cluster_path);

}  // namespace tombolo::planner
