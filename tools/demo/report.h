// The results of the demo: plain data that the steps fill in, from which report.json, report.html and
// trace.json are written.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/json.h"
#include "planner/model/profile.h"
#include "planner/plan/plan.h"
#include "planner/simulate/simulator.h"
#include "tools/demo/link_rates.h"
#include "topology/files/cluster_file.h"

namespace tombolo::tools::demo {

/// Payload bytes that passed one way between two NICs.
struct LinkUse {
  std::string from_host, from_nic, to_host, to_nic;
  topology::NicKind kind = topology::NicKind::kTcp;
  double bytes = 0;           ///< bytes of the whole run
  double bytes_per_step = 0;  ///< bytes / steps of the run
};

/// One of the compared ways to train the same steps.
struct Run {
  std::string name;   ///< "one-communicator", "per-peer", "holmes": for scripts
  std::string title;  ///< for the page and the screen
  planner::Plan plan;
  planner::Simulation predicted;         ///< the median of the rounds' predictions
  std::vector<double> predicted_rounds;  ///< by round, predicted step seconds
  double measured_step_seconds = 0;      ///< median of steady_seconds
  double tokens_per_second = 0;          ///< tokens of a step / measured_step_seconds
  std::vector<double> step_seconds;      ///< every step of the last round, with the warm-up
  std::vector<double> steady_seconds;    ///< the steps after the warm-up, of all rounds
  std::vector<double> round_seconds;     ///< by round, the median of its steps after the warm-up
  std::vector<double> loss;              ///< by step
  std::vector<LinkUse> links;
  std::vector<planner::Span> measured;  ///< one step as the ranks recorded it; empty = not recorded

  /// (predicted - measured) / measured.
  double prediction_error() const noexcept;
  /// The same for people: "+5 %", "-12 %", "0 %".
  std::string prediction_error_text() const;
};

struct Environment {
  std::string kernel, processor, compiler, version, commit;
  int cores = 0;
  double memory_bytes = 0;
  std::string emulation;  ///< "namespaces" or "loopback"
  std::string emulation_reason;
  std::string started;  ///< UTC, ISO 8601
  double demo_seconds = 0;
};

struct Report {
  topology::ClusterFile cluster;  ///< as probed
  std::string data;               ///< where the text came from
  double data_bytes = 0;
  std::shared_ptr<const planner::Profile> profile;  ///< times of the layers, as measured before planning
  std::string products;                             ///< text: which kernels multiply matrices, and how fast
  double flops_per_second = 0;   ///< attained by the layers of a rank that has a core to itself
  double cores = 0;              ///< number of cores that all ranks share
  double computing_seconds = 0;  ///< computing time of a step by the profile, when all ranks share the cores
  LinkRates rates;               ///< rates of the emulated links
  int warm_up_steps = 0;         ///< number of steps at the beginning of each round that do not count
  std::vector<Run> runs;         ///< the three, in the order of the report
  std::vector<Run> more;         ///< other plans of the same job (--more-plans); may be empty
  std::vector<double> loss;      ///< by step, of the long run
  double train_seconds = 0;      ///< of the long run
  std::string sample;            ///< generated text
  Environment environment;
  std::vector<std::string> files;  ///< names of all that the demo writes into its folder

  static constexpr double kLossTolerance = 1e-4;
  /// The least speedups that the demo should show on an idle machine.
  static constexpr double kExpectedSpeedup = 1.4, kExpectedSpeedupFromPlacement = 1.1;
  static constexpr double kPredictionTolerance = 0.10;

  /// Run 3 over run 1, and run 3 over run 2, in tokens per second; 0 where the runs are not there.
  double speedup() const noexcept;
  double speedup_from_placement() const noexcept;
  /// The run with the most tokens per second; there must be one.
  const Run& fastest() const;
  /// The largest difference of any two runs' losses at the same step.
  double largest_loss_difference() const noexcept;
  /// The same as the end of a sentence: "are equal to the last bit", "differ by at most 2.0e-06", ...
  std::string loss_agreement() const;
  /// The largest |prediction_error|.
  double largest_prediction_error() const noexcept;
  /// Whether the predicted order of all runs and other plans, fastest first, is the measured one. Two of them
  /// count as equal where the medians of their steps differ by less than `tie`.
  bool order_as_predicted(double tie = 0.02) const;
  /// A sentence for each figure that is not as expected, and a last one on what that may mean; empty where
  /// all are.
  std::vector<std::string> remarks() const;

  Json to_json() const;
  /// A page that needs no other file: no scripts, fonts, images or addresses.
  std::string to_html() const;
  /// Chrome trace events: one process per run and per kind of timeline, one thread per rank.
  Json to_chrome_trace() const;
};

}  // namespace tombolo::tools::demo
