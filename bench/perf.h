// What all *_perf programs share: nccl-tests' flags, its table, timing, verification, and a JSON file of
// medians. A program is one Collective and a call of run_perf().
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "tombolo/tombolo.hpp"

namespace tombolo::bench {

/// One measured collective. Sizes are as nccl-tests counts them: the bytes that one rank's result or input
/// has.
class Collective {
 public:
  virtual ~Collective() = default;
  /// "all_reduce"
  virtual std::string_view name() const = 0;
  /// Bus bandwidth over algorithm bandwidth, as nccl-tests' PERFORMANCE.md defines it.
  virtual double bus_factor(int ranks) const = 0;
  /// Whether the operator matters; else the table shows "none".
  virtual bool reduces() const = 0;
  struct Buffers {
    std::byte* send;
    std::byte* receive;  ///< equal to send: in place
    std::size_t count;   ///< elements
  };
  virtual void run(const api::Communicator& communicator, const Buffers& buffers, tomboloDataType_t type,
                   tomboloRedOp_t op) const = 0;
  /// What element `index` of a rank's result must be; rank r's input is value_of(index, r, op).
  virtual double expected(std::size_t index, int rank, int ranks, tomboloRedOp_t op) const = 0;
};

/// Small whole numbers (ones and twos for products), different on every rank.
double value_of(std::size_t index, int rank, tomboloRedOp_t op) noexcept;

/// Parses the command line, runs, prints on rank 0. The exit code: 0, or 1 for errors and wrong results.
int run_perf(const Collective& collective, int argc, char** argv);

}  // namespace tombolo::bench
