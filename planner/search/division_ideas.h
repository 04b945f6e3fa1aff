// Divisions of hosts among pipelines, ranked by an estimate, and the layout (layers and rows) that each
// gives.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "planner/search/shape_costs.h"

namespace tombolo::planner {

/// Ranks that may share layers: a pipeline slot that has no layers yet.
struct Unit {
  std::vector<int> ranks;
  int host = 0;
  int type = 0;  ///< type of its host
  int pool = 0;
};

/// The units of one host that go to one pipeline together.
struct HostSlice {
  std::vector<Unit> units;
  std::vector<double> speeds;  ///< layers per second, estimated, by micro-batch
  std::vector<double> heads;   ///< the cost of the output projection on its last unit, in layers
};

/// The pipeline of each slice, by index.
using Assignment = std::vector<int>;

/// Collects divisions and keeps the best by estimate. `context` and `job` must outlive it.
class DivisionIdeas {
 public:
  /// `aligned`: all get equal rows, in micro-batches of one row unless the job says otherwise.
  DivisionIdeas(const SearchContext& context, const Job& job, bool aligned);

  /// A unit of these ranks, which are on one host.
  Unit unit(std::vector<int> ranks, int type) const;
  /// Fills in the speeds of a slice whose units are set.
  void time(HostSlice& slice);
  /// Estimates a division among `pipelines` pipelines by speeds alone, as if layers and rows could be divided
  /// arbitrarily.
  void add(const std::vector<HostSlice>& slices, int pipelines, const Assignment& assignment);
  /// The layouts of those divisions that fit in memory, the best by estimate first; they are not simulated.
  std::vector<Layout> layouts();

 private:
  struct Idea {
    double seconds = 0;
    std::vector<std::vector<Unit>> pipelines;  ///< in the order of the layers
    int micro_batch = 1;
  };

  double layer_seconds(const Unit& unit, int rows);
  double head_seconds(const Unit& unit, int rows);
  std::vector<int> choose_micro_batches() const;
  double least_seconds(int rows) const;
  bool too_slow(double seconds) const { return ideas_.size() >= kIdeas && seconds >= ideas_.rbegin()->first; }
  std::vector<double> tick_seconds(const std::vector<std::vector<Unit>>& pipelines, int rows);
  std::vector<int> share_rows(const std::vector<int>& sizes, const std::vector<double>& ticks,
                              int rows) const;
  double gradient_seconds(const std::vector<std::vector<Unit>>& pipelines);
  std::optional<Layout> assign(const Idea& idea);
  double memory_of(const Unit& unit) const;

  static constexpr std::size_t kIdeas = 400;
  const SearchContext& context_;
  const Job& job_;
  std::vector<Pool> pools_;
  ShapeCosts costs_;
  std::map<int, int> pool_of_;  // by rank
  Shape usual_;                 // the shape for which layers are timed
  bool aligned_;
  std::vector<int> micro_batches_;
  std::vector<int> sizes_;     // slots of each pipeline of the idea at hand
  std::vector<double> ticks_;  // the time between two micro-batches of each
  std::vector<double> heads_;  // the cost of the output projection on the last slot of each, in layers
  std::multimap<double, Idea> ideas_;
};

}  // namespace tombolo::planner
