// The measurements of a short run of the real job: the trainer writes them, or a framework its log
// (training_log.h); calibration and the report read them. The trainer's JSON is documented in
// docs/planning.md.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "planner/simulate/pass_clock.h"
#include "planner/simulate/simulator.h"

namespace tombolo::planner {

/// The seconds of a step that a rank's thread, or its device, spent on each kind of work.
struct RankSeconds {
  double forward = 0, backward = 0;  ///< of all micro-batches
  double update = 0;                 ///< the optimizer's: clearing gradients, their norm, the parameters

  double computing() const noexcept { return forward + backward + update; }
};

/// The seconds of a step in which a rank that computes on a processor had a core.
struct ProcessorSeconds {
  RankSeconds computing;
  double sending = 0;  ///< sending and receiving, in all threads
};

struct MeasuredRun {
  static constexpr int kVersion = 1;

  struct Rank {
    std::string host;
    int stage = 0, replica = 0;
    RankSeconds seconds;  ///< per step: medians over the steps after the warm-up
    double wait = 0;      ///< seconds per step in which the computing thread waits for another rank
    double reduce = 0;    ///< seconds per step in which gradients are reduced, beside the computing
    std::optional<ProcessorSeconds> processor;  ///< if it computes on a processor, and that was measured
    PassClock clock = PassClock::kHost;         ///< by which `seconds` were told
  };

  std::vector<double> step_seconds;  ///< of every step, in order
  int warm_up = 0;                   ///< the number of first steps that do not count
  std::vector<Rank> ranks;           ///< by rank; empty where only the steps are known (a framework's log)
  std::vector<LinkBytes> links;      ///< per step, as the ranks counted what they sent
  int global_batch = 0;              ///< rows per step; 0: not told
  int context = 0, devices = 0;      ///< tokens of a row, and devices that train; 0: not told
  double flops_per_second = 0;       ///< of the model, per GPU, as the framework counted; 0: not told
  std::vector<std::string> notes;    ///< of what was left out in reading it: whole sentences

  /// How many steps of a run of `steps` are left out of the medians: a fifth, and at least one if there are
  /// several.
  static int warm_up_of(int steps) noexcept;
  /// Median over the steps after the warm-up.
  double median_step() const;

  /// Reads what `tombolo train --measured` wrote (JSON). Throws kInvalidUsage naming file, line and field.
  static MeasuredRun load(const std::string& path);
  static MeasuredRun parse(const JsonDocument& document);
  Json to_json() const;
};

}  // namespace tombolo::planner
