// The choices that make a plan: which ranks work together, on how many layers and rows. Searches change
// layouts and score them by the simulator; everything else in a plan follows from its layout.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "planner/search/search.h"

namespace tombolo::planner {

struct Layout {
  struct PipelineSlot {
    std::vector<int> ranks;  ///< launcher ranks that share the layers, on one host
    int layers = 0;          ///< of each model chunk
    friend bool operator==(const PipelineSlot&, const PipelineSlot&) = default;
  };
  struct Replica {
    std::vector<PipelineSlot> slots;  ///< in the order of the layers
    int rows = 0;
    int micro_batch = 0;
    friend bool operator==(const Replica&, const Replica&) = default;
  };
  std::vector<Replica> replicas;
  Schedule schedule = Schedule::kOneForwardOneBackward;
  int chunks = 1;
  Saving saving;

  /// Whether replicas have equal stages, rows and micro-batches and one tensor degree, as frameworks require.
  bool uniform() const;
  friend bool operator==(const Layout&, const Layout&) = default;
};

/// The layout of a plan, whose ranks must be among the context's.
Layout layout_of(const SearchContext& context, const Plan& plan);
/// The plan of a layout, without groups, prediction and notes, and where the job leaves open how many layers
/// are computed again (layers_again.h), with that open. Launcher ranks that no slot takes are left out: the
/// plan numbers the others anew, in the same order.
Plan plan_of(const SearchContext& context, const Job& job, const Layout& layout);

/// Scores layouts of one job by memory, lower bound and simulator.
class Scorer {
 public:
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  Scorer(const SearchContext& context, const Job& job) : context_(context), job_(job) {}

  /// The simulated seconds of a step; kNever where the layout's schedule is not open, where it is not
  /// divisible, cannot be expressed by the job's framework, does not fit in memory, does not take less than
  /// `limit`, or has hosts communicate that no link joins.
  double seconds(const Layout& layout, double limit = kNever);
  /// The plan with its prediction; the layout must fit in memory.
  Plan plan(const Layout& layout) const;
  /// The number of layouts simulated so far.
  std::int64_t simulated() const noexcept { return simulated_; }
  const SearchContext& context() const noexcept { return context_; }
  const Job& job() const noexcept { return job_; }

 private:
  bool sound(const Layout& layout) const;
  const SearchContext& context_;
  const Job& job_;
  std::int64_t simulated_ = 0;
};

}  // namespace tombolo::planner
