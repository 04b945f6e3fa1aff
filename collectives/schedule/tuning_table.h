// Which algorithm a collective takes by its size, as measured by tombolo perf --tune on a job of one shape.
// The file is JSON (docs/benchmarks.md); TOMBOLO_TUNING names it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/schedule/algorithm.h"
#include "collectives/schedule/collective.h"
#include "collectives/schedule/job_shape.h"

namespace tombolo::collectives {

/// The name of the way through memory that all ranks of a host see.
inline constexpr std::string_view kHostWay = "host";

/// A way that a call can go.
struct TunedWay {
  const Algorithm* algorithm = nullptr;  ///< null: through the host's memory
  std::size_t segment_bytes = 0;         ///< of a piece at most; 0: as TOMBOLO_SEGMENT says

  std::string_view name() const noexcept { return algorithm == nullptr ? kHostWay : algorithm->name; }
  bool operator==(const TunedWay&) const = default;
};

/// What one way took at one size, the median of some rounds.
struct TimedWay {
  std::size_t bytes = 0;
  TunedWay way;
  double seconds = 0;
  bool operator==(const TimedWay&) const = default;
};

/// Calls of from_bytes to to_bytes, both included, of the longest buffer (size_of_call).
struct TuningRow {
  Collective collective = Collective::kAllReduce;
  std::size_t from_bytes = 0, to_bytes = 0;
  TunedWay way;
  std::vector<TimedWay> measured;  ///< may be empty
  bool operator==(const TuningRow&) const = default;
};

/// Immutable once made. Any thread.
struct TuningTable {
  static constexpr int kVersion = 1;

  JobShape shape;
  std::vector<TuningRow> rows;  ///< by collective and size; those of one collective do not overlap

  /// The row that a call falls into; null where there is none. Rows are looked for by halves.
  const TuningRow* find(Collective collective, std::size_t bytes) const noexcept;

  std::string encode() const;
  /// Throws kInvalidUsage with `source`, line and field: malformed, of another version, an algorithm that the
  /// collective does not have, rows that overlap, the host's memory in a job of several hosts.
  static TuningTable decode(std::string_view text, const std::string& source);
  /// Reads a file. Throws as decode() does, and where it cannot be opened.
  static TuningTable load(const std::string& path);

  bool operator==(const TuningTable&) const = default;
};

/// Of the sizes at which the row's ways were measured the one that is nearest to `bytes`: the way that the
/// row takes first, then the others from the fastest on. Empty where nothing was measured.
std::vector<TimedWay> measured_near(const TuningRow& row, std::size_t bytes);

}  // namespace tombolo::collectives
