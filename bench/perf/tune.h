// --tune: measures every way that the engine's collective can go, size by size, and writes the table of the
// fastest, which TOMBOLO_TUNING names for later jobs.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "bench/perf/measure.h"

namespace tombolo::bench {

/// A way that a call can go.
struct Way {
  std::string algorithm;          ///< the engine's name
  std::size_t segment_bytes = 0;  ///< of a piece at most; 0: as TOMBOLO_SEGMENT says, or it cuts nothing
  bool operator==(const Way&) const = default;
};

struct TimedWay {
  Way way;
  double seconds = 0;  ///< of a call, the median of the rounds, on the slowest rank
};

/// What one size showed.
struct TunedSize {
  std::size_t bytes = 0;       ///< as in the table
  Way automatic;               ///< what the engine takes without a table
  std::vector<TimedWay> ways;  ///< from the fastest on
  /// The fastest, unless what the engine takes anyway takes no more than kWorthIt longer.
  Way chosen() const;
};

/// A way replaces the engine's own where that takes this share longer: medians of few rounds differ by so
/// much.
inline constexpr double kWorthIt = 0.05;

/// Rows of a tuning table (docs/benchmarks.md) for these sizes, in ascending order: the border between two is
/// their geometric mean, and neighbours of one way become one row. Below the least size and above the
/// greatest there are none.
nlohmann::json rows_of(std::string_view collective, const std::vector<TunedSize>& sizes);

/// A tuning table for jobs of that shape. `before`: another one, or null, whose rows of other collectives it
/// keeps.
nlohmann::json table_with(const nlohmann::json& before, const nlohmann::json& shape,
                          std::string_view collective, const nlohmann::json& rows);

/// "#    1048576  two-level 812.4, ring in 128 KiB 901.2 -> two-level", in microseconds
std::string line_of(const TunedSize& size);

/// Measures on one rank. Collective: all ranks make the same calls.
class Tuner {
 public:
  Tuner(const Flags& flags, const api::Communicator& communicator, Measurer& measurer);

  /// Throws kInvalidUsage, on every rank, where rank 0 has the file already and it is no table, or one for
  /// another job. To be called before anything is measured, so that nothing is in vain.
  void read_file();
  /// All ways of one size, in turns. Adds the ranks that found wrong results to `failed_checks`.
  TunedSize measure(const Point& point, std::size_t bytes, int& failed_checks);
  /// Writes the file on rank 0, and lets the communicator choose by it. Returns a line for people, on rank 0.
  std::string write(const std::vector<TunedSize>& sizes);

 private:
  std::vector<Way> ways_of(const std::string& explanation, std::size_t bytes) const;
  /// From here on calls of so many bytes go that way.
  void take(const Way& way, std::size_t bytes) const;

  const Flags& flags_;
  const api::Communicator& communicator_;
  Measurer& measurer_;
  std::string before_;      ///< rank 0: the file's text
  std::string collective_;  ///< the engine's name; known once a size was measured
};

}  // namespace tombolo::bench
