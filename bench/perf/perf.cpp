#include "bench/perf/perf.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "bench/bound/lower_bound.h"
#include "bench/perf/devices.h"
#include "bench/perf/exit_codes.h"
#include "bench/perf/explanation.h"
#include "bench/perf/flags.h"
#include "bench/perf/measure.h"
#include "bench/perf/ranks.h"
#include "bench/perf/report.h"
#include "bench/perf/tune.h"
#include "bench/perf/watchdog.h"
#include "collectives/schedule/collective.h"
#include "topology/files/cluster_file.h"

namespace tombolo::bench {
namespace {

std::optional<double> least_allowed_bandwidth() {
  const char* const text = std::getenv("NCCL_TESTS_MIN_BW");
  if (text == nullptr) return std::nullopt;
  double value = 0;
  const char* const end = text + std::strlen(text);
  const auto [rest, status] = std::from_chars(text, end, value);
  if (status != std::errc() || rest != end)
    fail(Cause::kInvalidUsage, "NCCL_TESTS_MIN_BW={} is no number of GB/s", text);
  return value;
}

/// The engine's name of what a program measures.
std::string_view engine_name(const Collective& collective) {
  return collective.name == "alltoall" ? "all_to_all" : collective.name;
}

/// Refuses settings that the number of ranks or the environment makes impossible.
void check_usage(const Collective& collective, const Flags& flags, int ranks) {
  if (collective.power_of_two && (ranks & (ranks - 1)) != 0) {
    fail(Cause::kInvalidUsage, "{} needs a number of ranks that is a power of two, and there are {}",
         collective.name, ranks);
  }
  if (collective.rooted && flags.root && *flags.root >= ranks) {
    fail(Cause::kInvalidUsage, "-r {}: the {} ranks are numbered from 0", *flags.root, ranks);
  }
  if (!flags.tuning_file.empty() && (collective.point_to_point || ranks == 1)) {
    fail(Cause::kInvalidUsage, "--tune: there is no algorithm to choose for {} among {} ranks",
         collective.name, ranks);
  }
  if (!flags.bound_file.empty() && collective.point_to_point)
    fail(Cause::kInvalidUsage, "--bound: {} is no collective of the engine's, and has no bound here",
         collective.name);
  for (const char* const name : {"NCCL_TESTS_SPLIT", "NCCL_TESTS_SPLIT_MASK"}) {
    if (std::getenv(name) != nullptr) {
      fail(Cause::kUnsupported, "{} is set, but these programs measure all ranks as one group: unset it",
           name);
    }
  }
}

/// One rank's run.
class Run {
 public:
  Run(const Collective& collective, const Flags& flags, const api::Communicator& communicator)
      : collective_(collective),
        flags_(flags),
        communicator_(communicator),
        ranks_(communicator.size()),
        prints_(communicator.rank() == 0),
        program_(fmt::format("{}_perf", collective.name)),
        table_(flags_) {}

  int operator()() {
    check_usage(collective_, flags_, ranks_);
    summary_.least_allowed_bandwidth = least_allowed_bandwidth();
    const auto devices = gather_devices(communicator_, flags_.ranks_here());
    check_memory(flags_, communicator_, devices);
    if (!flags_.bound_file.empty()) {
      network_ = topology::ClusterFile::load(flags_.bound_file);
      for (const Device& device : devices) hosts_.emplace_back(device.declared);
    }
    std::string file;
    if (prints_ && !flags_.output_file.empty()) {
      file = free_output_file(flags_.output_file);
      std::printf("# Writing JSON output to %s\n", file.c_str());
    }
    const std::int64_t start = std::time(nullptr);
    Measurer measurer(collective_, flags_, communicator_);
    if (!flags_.tuning_file.empty()) tune(measurer);
    if (prints_) table_.header(program_, devices);
    for (const auto type : flags_.types) {
      for (const auto op : collective_.reduces ? flags_.ops : std::vector{tomboloSum}) {
        for (const int root : roots()) {
          for (int cycle = 0; flags_.cycles == 0 || cycle < flags_.cycles; ++cycle) {
            go_through_sizes(measurer, type, op, root);
          }
        }
      }
    }
    summary_.average_bus_bandwidth = bus_bandwidths_ / results_;
    if (prints_) table_.footer(program_, summary_);
    if (prints_ && network_) std::fputs(compared_with_bounds(rows_).c_str(), stdout);
    if (prints_ && flags_.explain) std::fputs(explained(explained_, communicator_.explain()).c_str(), stdout);
    if (!file.empty()) {
      Json report = to_json(flags_, devices, rows_, summary_, start);
      if (flags_.explain) report["explanation"] = network_json(communicator_.explain());
      write_json_file(file, report);
    }
    // A launcher ends all ranks as soon as one exits with a failure: by then rank 0 must have said what
    // failed.
    communicator_.barrier();
    return summary_.failed_checks == 0 && summary_.fast_enough() ? kExitOk : kExitWrong;
  }

 private:
  std::vector<int> roots() const {
    if (!collective_.rooted) return {-1};
    if (flags_.root) return {*flags_.root};
    std::vector<int> all;
    for (int root = 0; root < ranks_; ++root) all.push_back(root);
    return all;
  }

  /// Measures every way of every size, writes the table, and goes on by it.
  void tune(Measurer& measurer) {
    Tuner tuner(flags_, communicator_, measurer);
    tuner.read_file();
    if (prints_)
      std::printf("# Tuning %s: median microseconds of each algorithm, the slowest rank's\n",
                  program_.c_str());
    std::vector<TunedSize> sizes;
    const tomboloDataType_t type = flags_.types.front();
    const std::size_t element = tomboloTypeSize(type);
    for (std::optional<std::size_t> bytes = flags_.minimum_bytes; bytes; bytes = next_size(flags_, *bytes)) {
      const Point point{shape_of(collective_.partitioning, *bytes, element, ranks_), type,
                        collective_.reduces ? flags_.ops.front() : tomboloSum, roots().front()};
      const std::size_t held = point.shape.largest() * element;
      if (!sizes.empty() && sizes.back().bytes == held) continue;  // a part is rounded down
      const Watchdog watchdog(communicator_, flags_.timeout_seconds);
      sizes.push_back(tuner.measure(point, held, summary_.failed_checks));
      if (prints_) std::fputs(line_of(sizes.back()).c_str(), stdout);
    }
    const std::string written = tuner.write(sizes);
    if (prints_) std::printf("%s#\n", written.c_str());
  }

  void go_through_sizes(Measurer& measurer, tomboloDataType_t type, tomboloRedOp_t op, int root) {
    const std::size_t element = tomboloTypeSize(type);
    for (std::optional<std::size_t> bytes = flags_.minimum_bytes; bytes; bytes = next_size(flags_, *bytes)) {
      const Point point{shape_of(collective_.partitioning, *bytes, element, ranks_), type, op, root};
      Row row;
      row.bytes = point.shape.largest() * element;
      row.count = point.shape.count;
      row.type = type_name(type);
      row.op = collective_.reduces ? op_name(op) : "none";
      row.root = root;
      if (prints_) table_.begin(row);
      row.out_of_place = result_of(measurer, point, Placement::kOutOfPlace, row.bytes);
      row.in_place = result_of(measurer, point, Placement::kInPlace, row.bytes);
      if (prints_) table_.end();
      if (prints_ && flags_.explain)
        explained_.push_back({row.bytes, row.out_of_place.measurement.explanation});
      if (network_)
        row.bound =
            lower_bound(*network_, hosts_, *collectives::collective_from_name(engine_name(collective_)),
                        static_cast<double>(row.bytes), root);
      if (prints_ && (network_ || !flags_.output_file.empty())) rows_.push_back(std::move(row));
    }
  }

  Result result_of(Measurer& measurer, const Point& point, Placement placement, std::size_t bytes) {
    Result result;
    try {
      const Watchdog watchdog(communicator_, flags_.timeout_seconds);
      result.measurement = measurer.measure(point, placement);
    } catch (const api::Error& error) {
      if (error.result() != tomboloAborted) throw;  // only a watchdog aborts, here or on another rank
      fail(Cause::kTimeout, "{} bytes of {} took longer than the {} s of -T", bytes, type_name(point.type),
           flags_.timeout_seconds);
    }
    const double seconds = result.measurement.seconds;
    result.algorithm_bandwidth =
        seconds > 0 ? static_cast<double>(bytes) * collective_.algorithm_factor(ranks_) / seconds / 1e9 : 0;
    result.bus_bandwidth = result.algorithm_bandwidth * collective_.bus_factor(ranks_);
    if (flags_.per_iteration) gather_iterations(result);
    summary_.failed_checks += result.measurement.failed_checks;
    bus_bandwidths_ += result.bus_bandwidth;
    ++results_;
    if (prints_) table_.result(result);
    return result;
  }

  void gather_iterations(Result& result) const {
    const auto& own = result.measurement.iterations;
    const std::size_t n = own.size(), here = static_cast<std::size_t>(flags_.ranks_here());
    std::vector<double> all(n * static_cast<std::size_t>(ranks_));
    communicator_.all_gather(own.data(), all.data(), n, tomboloFloat64);
    const auto raise = [&](std::vector<double>& longest, std::size_t rank) {
      longest.resize(n);
      for (std::size_t i = 0; i < n; ++i) longest[i] = std::max(longest[i], all[rank * n + i]);
    };
    result.process_iterations.resize(static_cast<std::size_t>(ranks_) / here);
    for (std::size_t rank = 0; rank < static_cast<std::size_t>(ranks_); ++rank) {
      raise(result.iterations, rank);
      raise(result.process_iterations[rank / here], rank);
    }
    result.statistics =
        statistics_of({result.iterations.begin() + flags_.per_iteration_skip, result.iterations.end()});
  }

  const Collective& collective_;
  const Flags& flags_;
  const api::Communicator& communicator_;
  const int ranks_;
  const bool prints_;
  const std::string program_;
  const Table table_;
  std::optional<topology::ClusterFile> network_;  ///< for --bound
  std::vector<std::string> hosts_;                ///< by rank, as it names them
  std::vector<Row> rows_;                         ///< for -J and --bound
  std::vector<ExplainedSize> explained_;          ///< for --explain
  double bus_bandwidths_ = 0, results_ = 0;       ///< sum and number of the bus bandwidths
  Summary summary_;
};

/// Runs `run`; returns its exit code, or that of an exception, which is printed on standard error.
template <typename Body>
int reported(const Collective& collective, Body&& run) {
  int code = kExitInternal;
  std::string text;
  try {
    return run();
  } catch (const api::Error& error) {
    code = kExitEngine;
    text = error.what();
  } catch (const Error& error) {
    const Cause cause = error.cause();
    const bool usage = cause == Cause::kInvalidUsage || cause == Cause::kUnsupported;
    code = usage ? kExitInvalidUsage : cause == Cause::kTimeout ? kExitTimeout : kExitInternal;
    text = error.what();
  } catch (const std::bad_alloc&) {
    text = "there is no memory for buffers of the size that -e names";
  } catch (const std::exception& error) {
    text = error.what();
  }
  std::fflush(stdout);
  std::fprintf(stderr, "%s_perf: %s\n", std::string(collective.name).c_str(), text.c_str());
  return code;
}

}  // namespace

int run_perf(const Collective& collective, int argc, const char* const* argv) {
  const CommandLine line = parse_command_line(collective.name, argc, argv);
  if (line.exit_code) return *line.exit_code;
  return reported(collective, [&] {
    return run_ranks(line.flags.ranks_here(), [&](const api::Communicator& communicator) {
      return reported(collective, Run(collective, line.flags, communicator));
    });
  });
}

}  // namespace tombolo::bench
