// The results of a run, and the table and the JSON file that show them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/bound/lower_bound.h"
#include "bench/perf/devices.h"
#include "bench/perf/flags.h"
#include "bench/perf/measure.h"

namespace tombolo::bench {

/// nccl-tests' -I: statistics in seconds over the iterations, each with the time of the rank that took
/// longest.
struct IterationStatistics {
  double least = 0, most = 0, mean = 0, median = 0, p95 = 0, p99 = 0, deviation = 0;
  double variation_percent() const noexcept { return mean > 0 ? deviation / mean * 100 : 0; }
};
/// The statistics of these times; `seconds` must not be empty.
IterationStatistics statistics_of(std::vector<double> seconds);

/// The results of one half of a table's row: out of place or in place.
struct Result {
  Measurement measurement;
  double algorithm_bandwidth = 0, bus_bandwidth = 0;  ///< GB/s
  /// With -I only: the longest time of each iteration over all ranks, and by process.
  std::vector<double> iterations;
  std::vector<std::vector<double>> process_iterations;
  IterationStatistics statistics;
};

struct Row {
  std::size_t bytes = 0, count = 0;
  std::string_view type, op;
  int root = -1;
  Result out_of_place, in_place;
  Bound bound;  ///< with --bound
};

/// What --bound prints at the end of a table, in lines that begin with "#": each size's bound, and how many
/// times as long the calls took (medians).
std::string compared_with_bounds(const std::vector<Row>& rows);

struct Summary {
  int failed_checks = 0;
  double average_bus_bandwidth = 0;               ///< GB/s
  std::optional<double> least_allowed_bandwidth;  ///< NCCL_TESTS_MIN_BW, GB/s

  /// Whether the bandwidth is at least nine tenths of what was demanded, as nccl-tests has it.
  bool fast_enough() const noexcept {
    return !least_allowed_bandwidth || average_bus_bandwidth >= *least_allowed_bandwidth * 0.9;
  }
};

/// nccl-tests' table, on standard output. It is printed row by row as results come in.
class Table {
 public:
  explicit Table(const Flags& flags) : flags_(flags) {}
  void header(std::string_view program, const std::vector<Device>& devices) const;
  void begin(const Row& row) const;
  void result(const Result& result) const;
  void end() const;
  void footer(std::string_view program, const Summary& summary) const;

 private:
  const Flags& flags_;
};

/// The file for -J: the first of FILE, FILE.0, FILE.1, ... that does not exist. Throws where none can be
/// written.
std::string free_output_file(const std::string& wanted);

/// nccl-tests' JSON, with the engine's algorithm, medians and least times added. `start` is in seconds since
/// 1970.
nlohmann::json to_json(const Flags& flags, const std::vector<Device>& devices, const std::vector<Row>& rows,
                       const Summary& summary, std::int64_t start);

/// A local time as text: "2026-11-24 02:00:00".
std::string time_of_day(std::int64_t seconds);

}  // namespace tombolo::bench
