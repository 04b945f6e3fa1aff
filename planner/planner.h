// Cluster + model -> plan. Pure functions: no sockets, no clocks.
//
// The room's folders, each built on those before it: model/ (what is trained, and how), plan/ (what each rank
// does, and the cluster as the planner sees it), cost/ (the cost of computing, memory and all-reduces),
// simulate/ (a training step, event by event), search/ (what strategies search with), explain/ (why a plan is
// as it is, and what would change it), strategies/ (one file each) and launch/ (scripts that start a plan).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "planner/model/model.h"
#include "planner/plan/plan.h"
#include "planner/simulate/simulator.h"
#include "topology/files/cluster_file.h"

namespace tombolo::planner {

struct Strategy;

struct PlanOptions {
  std::string strategy = "auto";  ///< a name from the list in strategies/strategy.h
  /// "per-peer" or "shared": the transport that the prediction assumes.
  std::string routing = "per-peer";
  /// Host of each launcher rank, in launcher order; empty = the cluster file's order, one rank per device.
  std::vector<std::string> rank_hosts;
  /// Holmes' alpha: a value above 1 gives faster clusters a little more than their share.
  double alpha = 1.0;
  /// Ways to save memory that may be used: for each layout the first with which it fits is taken. Empty = as
  /// the job says. Among how many replicas experts are divided follows from the job alone.
  std::vector<Saving> savings;
  /// The schedules to try, each with its number of model chunks. Empty = the job's.
  std::vector<std::pair<Schedule, int>> schedules;
  /// Whether replicas may differ, where the strategy and the job's framework can do that.
  bool uneven_replicas = true;
  /// Plans whose step is longer by at most this share of the fastest count as equally fast, and of these the
  /// one is taken that crosses slow links least, leaves memory free and is simplest (explain/choose.h). 0:
  /// the fastest is taken.
  double tolerance = 0;
  /// Whether ranks may stay idle where a step is shorter without them. Strategies that cannot leave ranks
  /// idle refuse it.
  bool may_leave_out = false;
  /// Whether fp16 stands for the job's bf16 where a GPU of the plan has no bf16, and whether exchanges of
  /// ranks that share layers go beside products where all of the plan's GPUs suit that (device_choices.h).
  /// Else both are as the job says. Where ranks may stay idle, plans on the devices alone that have bf16, or
  /// that suit the exchanges, are among those that are tried.
  bool precision_by_devices = false, overlap_by_devices = false;
};

/// Among how many replicas experts may be divided: as the job says, or where that is open all common divisors
/// of the experts and the replicas, where the framework can divide them. None divides them where the job has
/// a profile, or says how many layers are computed again, for neither is modelled with divided experts.
std::vector<int> expert_degrees(const Job& job, std::size_t replicas);

/// The ways to save memory with so many replicas; a single replica cannot shard the optimizer, and where the
/// job leaves open among how many replicas experts are divided, each is with each of expert_degrees(). Never
/// empty.
std::vector<Saving> savings_of(const PlanOptions& options, const Job& job, std::size_t replicas = 2);

/// The plan that is fastest in simulation among those that the strategy considers, that the job's framework
/// can express and that fit in memory. Where the job leaves open how many replicas divide rows' tokens
/// (context parallelism), as few do as any plan fits with, and twice as many as long as whole layers are
/// computed again and a step gets shorter. Where that framework starts equally many ranks on every node and
/// hosts have different numbers, each number is tried, and the other devices are left out. Throws
/// kInvalidUsage when nothing fits, saying what would, and kUnsupported where the framework lacks what the
/// job fixes.
Plan make_plan(const topology::ClusterFile& cluster, const Job& job, const PlanOptions& options);
/// The same with a strategy that need not be in the list.
Plan make_plan(const topology::ClusterFile& cluster, const Job& job, const PlanOptions& options,
               const Strategy& strategy);

}  // namespace tombolo::planner
