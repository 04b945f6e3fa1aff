// The description of what one *_perf program measures. A program is one Collective and a call of run_perf().
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

#include "tombolo/tombolo.hpp"

namespace tombolo::bench {

/// Stands for an operator that each rank makes with a factor of its own, as in nccl-tests ("mulsum").
inline constexpr tomboloRedOp_t kMulSum = tomboloNumOps;

/// The elements of a rank's buffers at one size, as nccl-tests lays them out.
struct Shape {
  std::size_t count;    ///< the argument of the call, and the table's "count"
  std::size_t send;     ///< elements in the send buffer
  std::size_t receive;  ///< elements in the receive buffer
  /// In place both lie in one buffer: the input `rank * input_step` elements into it, the result
  /// `rank * result_step`.
  std::size_t input_step, result_step;

  std::size_t largest() const noexcept { return send > receive ? send : receive; }
};

/// Which of the two buffers is divided into one part per rank.
enum class Partitioning {
  kWhole,     ///< neither: each rank has the whole size as input and as result
  kJoins,     ///< one part is the input, all parts are the result
  kDivides,   ///< all parts are the input, one is the result
  kExchanges  ///< all parts are the input, other parts are the result
};

/// The shape for `bytes` of the command line. A part is a multiple of 16 bytes, rounded down as in
/// nccl-tests, so that few bytes for many ranks become none.
Shape shape_of(Partitioning partitioning, std::size_t bytes, std::size_t element, int ranks) noexcept;

/// Where the value of a result's element must come from.
struct Origin {
  enum Kind {
    kUntouched,  ///< the value before the call
    kCopy,       ///< `rank`'s input at `index`
    kReduced     ///< the reduction of all ranks' inputs at `index`
  } kind;
  std::size_t index = 0;
  int rank = 0;
};

/// The rank whose result Collective::origin describes, and the call that made it.
struct RankContext {
  std::size_t count;  ///< Shape::count
  int rank, ranks, root;
};

/// One call of one rank.
struct Call {
  const api::Communicator& communicator;
  std::byte* send;
  std::byte* receive;
  std::size_t count;  ///< Shape::count
  tomboloDataType_t type;
  tomboloRedOp_t op;
  int root;
  int rank, ranks;
};

/// What one program measures. The defaults hold for most collectives.
struct Collective {
  std::string_view name;  ///< "all_reduce"
  Partitioning partitioning;
  Origin (*origin)(const RankContext& context, std::size_t index);
  void (*run)(const Call& call);
  /// Two factors: the bytes that the algorithm bandwidth counts, over the size; and the bus bandwidth over
  /// the algorithm bandwidth (nccl-tests' doc/PERFORMANCE.md).
  double (*algorithm_factor)(int ranks) = [](int) { return 1.0; };
  double (*bus_factor)(int ranks) = [](int) { return 1.0; };
  bool reduces = false;         ///< -o has an effect; else the table says "none"
  bool rooted = false;          ///< -r has an effect; else the table says -1
  bool in_place = true;         ///< the result in place is defined; else that case is timed, but not checked
  bool point_to_point = false;  ///< sends and receives, no collective that names its algorithm
  bool in_steps =
      false;  ///< each step sends what the step before received, so that a group holds one call only
  bool power_of_two = false;  ///< the number of ranks must be one
};

std::span<const Collective> all_collectives() noexcept;
/// The collective of that name; null for an unknown one.
const Collective* find_collective(std::string_view name) noexcept;

}  // namespace tombolo::bench
