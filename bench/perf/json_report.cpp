#include <unistd.h>

#include <cctype>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "bench/perf/explanation.h"
#include "bench/perf/report.h"

namespace tombolo::bench {
namespace {

constexpr int kVersion = 3;  // version of nccl-tests' JSON structure

// nccl-tests writes truth values as these texts.
const char* truth(bool value) {
  return value ? "true" : "false";
}

Json microseconds(const std::vector<double>& seconds) {
  Json all = Json::array();
  for (const double one : seconds) all.push_back(one * 1e6);
  return all;
}

/// The environment variables that could explain the figures. nccl-tests writes all of them, but they may hold
/// secrets.
Json environment() {
  Json all = Json::array();
  for (char** one = environ; *one != nullptr; ++one) {
    const std::string_view variable = *one;
    if (!variable.starts_with("TOMBOLO_") && !variable.starts_with("NCCL_")) continue;
    if (variable.starts_with("TOMBOLO_SECRET=")) continue;
    all.push_back(std::string(variable));
  }
  return all;
}

Json config(const Flags& flags, const std::vector<Device>& devices) {
  Json all{{"nthreads", flags.threads},
           {"ngpus", flags.devices},
           {"minimum_bytes", flags.minimum_bytes},
           {"maximum_bytes", flags.maximum_bytes},
           {"warmup_iters", flags.warmup_iterations},
           {"iterations", flags.iterations},
           {"aggregated_iterations", flags.aggregated},
           {"validation", flags.checks},
           {"graph", 0},
           {"blocking_collectives", truth(true)},
           {"per_iter_timing", truth(flags.per_iteration)},
           {"per_iter_skip", flags.per_iteration_skip},
           {"parallel_init", truth(flags.parallel_init)}};
  if (flags.step_factor > 1) {
    all["step_factor"] = flags.step_factor;
  } else {
    all["step_bytes"] = flags.step_bytes;
  }
  for (const Device& device : devices) {
    all["devices"].push_back({{"rank", device.rank},
                              {"group", 0},
                              {"pid", device.pid},
                              {"hostname", device.host},
                              {"device", device.number},
                              {"device_hex", "host memory"},
                              {"device_info", "CPU"}});
  }
  return all;
}

Json result_json(const Flags& flags, const Result& result) {
  const Measurement& found = result.measurement;
  return {{flags.cpu_time ? "cpu_time" : "time", (flags.cpu_time ? found.cpu_seconds : found.seconds) * 1e6},
          {"median_time", found.median * 1e6},
          {"min_time", found.least * 1e6},
          {"alg_bw", result.algorithm_bandwidth},
          {"bus_bw", result.bus_bandwidth},
          {"nwrong", found.wrong ? Json(*found.wrong) : Json()}};
}

Json iterations_json(const Flags& flags, const Result& result) {
  const IterationStatistics& all = result.statistics;
  Json json{{"skipped_iterations", flags.per_iteration_skip},
            {"min_us", all.least * 1e6},
            {"max_us", all.most * 1e6},
            {"avg_us", all.mean * 1e6},
            {"p50_us", all.median * 1e6},
            {"p95_us", all.p95 * 1e6},
            {"p99_us", all.p99 * 1e6},
            {"stdev_us", all.deviation * 1e6},
            {"cv_pct", all.variation_percent()},
            {"times_us", microseconds(result.iterations)}};
  if (result.process_iterations.size() > 1) {
    for (const auto& one : result.process_iterations) {
      json["per_process_max_times_us"].push_back(microseconds(one));
    }
  }
  return json;
}

Json row_json(const Flags& flags, const Row& row) {
  Json json{{"size", row.bytes},
            {"count", row.count},
            {"type", row.type},
            {"redop", row.op},
            {"root", fmt::format("{:6}", row.root)},  // a text, as in the table
            {"algorithm", row.out_of_place.measurement.algorithm},
            {"out_of_place", result_json(flags, row.out_of_place)},
            {"in_place", result_json(flags, row.in_place)},
            {"actual_iterations", flags.iterations},
            {"experiment_name", ""}};
  if (!flags.bound_file.empty())
    json["lower_bound"] = {{"time", row.bound.seconds * 1e6}, {"cause", row.bound.cause}};
  if (flags.explain) json["explanation"] = call_json(row.out_of_place.measurement.explanation);
  if (flags.per_iteration) {
    json["out_of_place_per_iter"] = iterations_json(flags, row.out_of_place);
    json["in_place_per_iter"] = iterations_json(flags, row.in_place);
  }
  return json;
}

}  // namespace

std::string free_output_file(const std::string& wanted) {
  const std::filesystem::path folder = std::filesystem::absolute(wanted).parent_path();
  if (::access(folder.c_str(), W_OK) != 0)
    fail_errno(errno, fmt::format("-J {}: writing to {}", wanted, folder.string()));
  std::string path = wanted;
  for (int i = 0; std::filesystem::exists(path); ++i) path = fmt::format("{}.{}", wanted, i);
  return path;
}

Json to_json(const Flags& flags, const std::vector<Device>& devices, const std::vector<Row>& rows,
             const Summary& summary, std::int64_t start) {
  Json results = Json::array();
  for (const Row& row : rows) results.push_back(row_json(flags, row));
  int version = 0;
  tomboloGetVersion(&version);
  return {{"version", kVersion},
          {"start_time", time_of_day(start)},
          {"end_time", time_of_day(std::time(nullptr))},
          {"args", flags.arguments},
          {"env", environment()},
          {"nccl_version", nullptr},
          {"tombolo_version", version},
          {"config", config(flags, devices)},
          {"results", results},
          {"out_of_bounds", {{"count", summary.failed_checks}, {"okay", truth(summary.failed_checks == 0)}}},
          {"average_bus_bandwidth",
           {{"bandwidth", summary.average_bus_bandwidth},
            {"okay", summary.least_allowed_bandwidth ? truth(summary.fast_enough()) : "unchecked"}}},
          {"errors", Json::array()}};
}

}  // namespace tombolo::bench
