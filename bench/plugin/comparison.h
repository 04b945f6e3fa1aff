// The measurements of plugin_perf, its tables and its JSON.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/json.h"
#include "bench/plugin/plan.h"
#include "bench/plugin/processes.h"

namespace tombolo::bench::plugin {

/// One row of a table: what was measured of each candidate, a value for each round.
struct Row {
  std::size_t size = 0, channels = 1;
  std::map<std::string, std::vector<double>> values, processor;
};

/// Measures all candidates in turns, each time in an order of its own, since what one leaves behind may help
/// or hinder the next. Every round has processes of its own, because where the memory and the sockets of two
/// processes happen to lie may make them a fifth faster or slower for as long as they live. Prints tables of
/// the medians.
class Comparison {
 public:
  using Pairs = std::vector<std::unique_ptr<Pair>>;
  /// The plan must outlive this. `start` starts the processes of all candidates, the same ones each time.
  Comparison(const Plan& plan, std::function<Pairs()> start) : plan_(plan), start_(std::move(start)) {}

  void run();
  /// Of what run() has measured.
  Json as_json() const;

 private:
  /// Each adds a value of each candidate to the row.
  void measure_trips(Row& row);
  void measure_stream(Row& row);
  /// All pairs in an order that differs from call to call, and not from run to run.
  std::vector<Pair*> shuffled();
  void header(const std::string& what) const;
  void print(const Row& row, bool with_processor) const;
  /// The candidate that the others are compared with: Tombolo's TCP, or where only other candidates are
  /// measured, its shared memory; empty without both.
  std::string base() const;
  bool compared(const std::string& key) const;

  const Plan& plan_;
  std::function<Pairs()> start_;
  Pairs pairs_;  ///< those of the last round
  std::mt19937 order_;
  std::vector<Row> trips_, streams_;
};

}  // namespace tombolo::bench::plugin
