// What one *_perf program measures. A program is one Collective and a call of run_perf().
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

#include "tombolo/tombolo.hpp"

namespace tombolo::bench {

/// Elements of a rank's buffers at one size, as nccl-tests lays them out.
struct Shape {
  std::size_t count;    ///< what the call is given, and the table's "count"
  std::size_t send;     ///< elements in the send buffer
  std::size_t receive;  ///< elements in the receive buffer
  /// In place both lie in one buffer: the input `rank * input_step` elements into it, the result
  /// `rank * result_step`.
  std::size_t input_step, result_step;

  std::size_t largest() const noexcept { return send > receive ? send : receive; }
};

/// Which of the two buffers is cut into one part per rank.
enum class Layout {
  kWhole,     ///< neither: every rank has the whole size as input and as result
  kJoins,     ///< a part goes in, all parts come out
  kDivides,   ///< all parts go in, one comes out
  kExchanges  ///< all parts go in, others come out
};

/// The shape for `bytes` of the command line. A part is a multiple of 16 bytes, rounded down as nccl-tests
/// does: few bytes for many ranks are none.
Shape shape_of(Layout layout, std::size_t bytes, std::size_t element, int ranks) noexcept;

/// What an element of a result must be.
struct Origin {
  enum Kind {
    kUntouched,  ///< what it was before
    kCopy,       ///< `rank`'s input at `index`
    kReduced     ///< the reduction of all ranks' inputs at `index`
  } kind;
  std::size_t index = 0;
  int rank = 0;
};

/// Where a result lies, for Collective::origin.
struct Place {
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

/// One program's. What is not said of a collective is as it is for most.
struct Collective {
  std::string_view name;  ///< "all_reduce"
  Layout layout;
  Origin (*origin)(const Place& place, std::size_t index);
  void (*run)(const Call& call);
  /// Bytes that bandwidths count, over the size, and the bus's over these: nccl-tests' doc/PERFORMANCE.md.
  double (*algorithm_factor)(int ranks) = [](int) { return 1.0; };
  double (*bus_factor)(int ranks) = [](int) { return 1.0; };
  bool reduces = false;         ///< -o matters; else the table says "none"
  bool rooted = false;          ///< -r matters; else the table says -1
  bool in_place = true;         ///< a result in place is defined; else it is timed, but not checked
  bool point_to_point = false;  ///< sends and receives, no collective that names its algorithm
  bool in_steps = false;        ///< a step sends what the last one received: no group can hold several calls
  bool power_of_two = false;    ///< the number of ranks must be one
};

std::span<const Collective> all_collectives() noexcept;
/// Null for a name that is none.
const Collective* find_collective(std::string_view name) noexcept;

}  // namespace tombolo::bench
