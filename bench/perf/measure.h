// Times one collective at one size, and checks its results.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/perf/collective.h"
#include "bench/perf/flags.h"

namespace tombolo::bench {

enum class Placement { kOutOfPlace, kInPlace };

/// One line of the table.
struct Point {
  Shape shape;
  tomboloDataType_t type;
  tomboloRedOp_t op;
  int root;  ///< -1 where there is none
};

/// Times are seconds per call. Unless noted otherwise they are combined over the ranks as -a says.
struct Measurement {
  double seconds = 0;  ///< mean over the iterations
  double median = 0, least = 0;
  double cpu_seconds = 0;          ///< processor time of this rank's thread; with -C only
  std::vector<double> iterations;  ///< times on this rank
  std::string algorithm;           ///< the engine's name for it
  /// With --explain, on rank 0: the engine's JSON after such a call; empty for sends and receives.
  std::string explanation;
  /// Number of wrong elements on all ranks; absent where nothing was checked.
  std::optional<std::int64_t> wrong;
  int failed_checks = 0;  ///< ranks that found wrong elements
};

/// Measures on one rank, with its buffers. Collective: all ranks make the same calls.
class Measurer {
 public:
  Measurer(const Collective& collective, const Flags& flags, const api::Communicator& communicator);

  Measurement measure(const Point& point, Placement placement);
  /// Seconds of a call out of place on this rank, the mean of so many iterations. Not for kMulSum.
  double seconds_of(const Point& point, int iterations);
  /// Whether a call out of place is right, unless nothing is to be checked: ranks that found wrong elements.
  int check_of(const Point& point);

 private:
  struct Free {
    void operator()(std::byte* memory) const noexcept { std::free(memory); }
  };
  using Buffer = std::unique_ptr<std::byte[], Free>;
  static Buffer allocate(std::size_t bytes);

  Call call(const Point& point, Placement placement, std::size_t number) const;
  /// One iteration: as many calls as -m says.
  void iterate(const Point& point, Placement placement, std::size_t iteration) const;
  void time(const Point& point, Placement placement, Measurement& measurement) const;
  void check(const Point& point, Placement placement, Measurement& measurement);

  const Collective& collective_;
  const Flags& flags_;
  const api::Communicator& communicator_;
  int rank_, ranks_;
  Buffer send_, receive_, expected_;
  tomboloRedOp_t op_ = tomboloSum;  // of the calls: this rank's own one where the point's is kMulSum
  std::uint64_t checks_ = 0;
};

}  // namespace tombolo::bench
