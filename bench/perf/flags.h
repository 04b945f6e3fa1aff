// The command line of nccl-tests, as far as it applies to host memory.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tombolo/tombolo.h"

namespace tombolo::bench {

/// nccl-tests' -a: how the times of the ranks are combined.
enum class Average { kRankZero, kMean, kLeast, kMost };
/// nccl-tests' -z, without 0, which blocking calls cannot do.
enum class Blocking {
  kBarrierEachCall = 1,      ///< a barrier after every call, in the reported time
  kNoBarrier = 2,            ///< each call returns when its rank is done
  kBarrierEachIteration = 3  ///< a barrier after every iteration, not in the reported time
};

struct Flags {
  std::size_t minimum_bytes = 0, maximum_bytes = 0, step_bytes = 0;
  std::size_t step_factor = 1;  ///< above 1: instead of step_bytes
  int threads = 1, devices = 1;
  int iterations = 20, warmup_iterations = 1, aggregated = 1;
  int cycles = 1;  ///< 0: until interrupted
  int checks = 1;
  std::vector<tomboloDataType_t> types;
  std::vector<tomboloRedOp_t> ops;
  std::optional<int> root = 0;  ///< none: every rank in turn
  Average average = Average::kMean;
  Blocking blocking = Blocking::kNoBarrier;
  bool parallel_init = false;
  bool cpu_time = false, timestamps = false;
  bool per_iteration = false;
  int per_iteration_skip = 0;
  int timeout_seconds = 0;  ///< 0: none but the engine's own
  std::size_t unalign = 0;  ///< elements
  std::string output_file;  ///< empty: none
  std::string tuning_file;  ///< where the table of the fastest algorithms goes; empty: none is made
  std::string bound_file;   ///< a cluster file, with whose lower bounds times are compared; empty: none
  bool explain = false;     ///< say which way each size took, and why
  std::vector<std::string> arguments;  ///< as given, for the JSON file

  int ranks_here() const noexcept { return threads * devices; }
};

/// Flags; or an exit code, after --help or after an error was printed.
struct CommandLine {
  Flags flags;
  std::optional<int> exit_code;
};
CommandLine parse_command_line(std::string_view collective, int argc, const char* const* argv);

/// Parses nccl-tests' sizes, in powers of 1024: "8", "64K", "1.5M", "2g". Throws kInvalidUsage.
std::size_t parse_bytes(const std::string& text);

/// The size that follows `bytes`; none after the last.
std::optional<std::size_t> next_size(const Flags& flags, std::size_t bytes) noexcept;

std::string_view type_name(tomboloDataType_t type) noexcept;
std::string_view op_name(tomboloRedOp_t op) noexcept;

}  // namespace tombolo::bench
