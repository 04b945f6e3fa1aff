// The measurements of plugin_perf, its tables and its JSON.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/json.h"
#include "bench/plugin/plan.h"
#include "bench/plugin/processes.h"

namespace tombolo::bench::plugin {

/// One row of a table: the medians of each candidate.
struct Row {
  std::size_t size = 0, channels = 1;
  std::map<std::string, std::vector<double>> values, processor;
};

/// Measures all candidates in turns, each round in an order of its own, since what one leaves behind may help
/// or hinder the next. Prints tables of their medians.
class Comparison {
 public:
  /// The plan must outlive this.
  Comparison(const Plan& plan, std::vector<std::unique_ptr<Pair>> pairs)
      : plan_(plan), pairs_(std::move(pairs)) {}

  void run();
  /// Of what run() has measured.
  Json as_json() const;

 private:
  Row measure_trips(std::size_t size);
  Row measure_stream(std::size_t size, std::size_t channels);
  /// All pairs in an order that differs from call to call, and not from run to run.
  std::vector<Pair*> shuffled();
  void header(const std::string& what) const;
  void print(const Row& row, bool with_processor) const;
  /// Whether Tombolo's TCP is compared with that candidate.
  bool compared(const std::string& key) const;

  const Plan& plan_;
  std::vector<std::unique_ptr<Pair>> pairs_;
  std::mt19937 order_;
  std::vector<Row> trips_, streams_;
};

}  // namespace tombolo::bench::plugin
