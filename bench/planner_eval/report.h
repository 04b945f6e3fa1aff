// bench/planner_eval/ owns the evaluation of the planner: it compares predictions and searches with
// measurements that others published, with random clusters and with large ones, one file per source. This
// header is what these files share: the options, and the report, which shows each figure with the wanted and
// the seen value.
#pragma once

#include <fmt/format.h>

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace tombolo::bench {

class EvaluationReport {
 public:
  /// Begins a section; lines and notes go to the latest.
  void section(std::string title);
  /// One figure. `met` says whether `seen` is within `wanted`.
  void line(std::string name, std::string wanted, std::string seen, bool met);
  /// A note, such as the source of a figure, or that data are missing.
  void note(std::string text);

  bool all_met() const noexcept { return all_met_; }
  std::string table() const;
  std::string markdown() const;
  nlohmann::json json() const;

 private:
  struct Line {
    std::string name, wanted, seen;
    bool met = true;
  };
  struct Section {
    std::string title;
    std::vector<Line> lines;
    std::vector<std::string> notes;
  };
  std::vector<Section> sections_;
  bool all_met_ = true;
};

/// Spearman's rank correlation, in [-1, 1]; equal values share their mean rank.
double rank_correlation(const std::vector<double>& one, const std::vector<double>& other);
double mean_absolute_error(const std::vector<double>& predicted, const std::vector<double>& measured);

struct EvaluationOptions {
  std::string data;              ///< folder of the measurements
  double annealing_seconds = 5;  ///< time for Pipette's annealing
  int trials = 200;              ///< random clusters; a quarter as many small ones
  unsigned seed = 1;             ///< seed of the random clusters
  int rows = 2048;               ///< per step of what is planned for two halls
  int most_ranks = 1024;         ///< largest cluster whose planning is timed
  bool details = false;          ///< every run of the measurements, not only sums
};

/// The note of a section whose file or folder is not there. It names that as it is called within the data
/// folder, since the report is read elsewhere too.
std::string skipped_without(const std::string& path, const EvaluationOptions& options);

/// Each of these evaluates the planner on one source of facts.
void evaluate_pipette(const EvaluationOptions& options, EvaluationReport& report);
void evaluate_sailor(const EvaluationOptions& options, EvaluationReport& report);
void evaluate_amp(const EvaluationOptions& options, EvaluationReport& report);
void evaluate_flashflex(const EvaluationOptions& options, EvaluationReport& report);
void evaluate_random(const EvaluationOptions& options, EvaluationReport& report);
void evaluate_scale(const EvaluationOptions& options, EvaluationReport& report);
void evaluate_vtrain(const EvaluationOptions& options, EvaluationReport& report);
void evaluate_playbook(const EvaluationOptions& options, EvaluationReport& report);
void evaluate_megatron_a100(const EvaluationOptions& options, EvaluationReport& report);
void evaluate_megatron_readme(const EvaluationOptions& options, EvaluationReport& report);
void evaluate_nemo_h100(const EvaluationOptions& options, EvaluationReport& report);
void evaluate_torchtitan_a100(const EvaluationOptions& options, EvaluationReport& report);
void evaluate_holmes(const EvaluationOptions& options, EvaluationReport& report);

}  // namespace tombolo::bench
