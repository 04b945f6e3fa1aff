// The options of `tombolo plan`, and the job that they describe.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/choices.h"
#include "planner/planner.h"
#include "tools/cli/model_options.h"

namespace CLI {
class App;
}

namespace tombolo::tools {

/// By how many per cent predictions of like plans are taken to be uncertain.
inline constexpr double kWithinPercent = 3;

/// The options of `tombolo plan`.
struct PlanOptions {
  std::string cluster, profile;
  ModelOptions model;
  planner::Job job;
  std::string strategy = planner::PlanOptions().strategy, routing = "per-peer", order;
  int ranks = 0;
  double alpha = 1.0, within_percent = kWithinPercent;
  int tensor = 0, context_parallel = 0, expert_parallel = 0;  // 0: left open
  std::string framework, software, schedule, recompute, sharding, context_exchange, device, dtype, moments,
      reserve;
  int chunks = 0;
  // Absent: left open.
  std::optional<bool> shard_optimizer, sequence_parallel, overlap_tensor, overlap_parameters;
  std::optional<int> recompute_layers;
  std::string output, emit, report;
  std::vector<std::string> what_if;
  std::string running, measured;
  std::optional<planner::Job>
      running_job;  // of --running, whose model counts unless one is given, precision and software too
  double steps_left = 1000;
  bool json = false, may_leave_out = false, here = false, unfused_attention = false;
};

void add_plan_options(CLI::App& app, PlanOptions& options);

/// The host of each launcher rank, where --order or --ranks says; empty: one rank per device of the cluster
/// file. Throws kInvalidUsage as map_ranks() does.
std::vector<std::string> rank_hosts_of(const PlanOptions& options, const topology::ClusterFile& cluster);
/// Why the software of the running plan is not taken over: a GPU of the cluster file has no record of it.
/// Empty where it is, or where there is none. Reads the library.
std::string running_software_left(const PlanOptions& options, const topology::ClusterFile& cluster);
/// The job, for the framework that the user named or that fits the model, on the devices of the cluster file.
/// Throws kInvalidUsage where options contradict each other, and for a model that the bundled trainer cannot
/// train.
planner::Job job_of(const PlanOptions& options, const topology::ClusterFile& cluster);
/// What of the search's choices the user has fixed.
planner::FixedChoices fixed_choices(const PlanOptions& options, const planner::Job& job);
/// Why a plan is for its framework, "for Megatron-LM, since ...; --framework takes another"; empty where the
/// user named it.
std::string guessed_framework(const PlanOptions& options, const planner::Model& model,
                              const topology::ClusterFile& cluster);

}  // namespace tombolo::tools
