#include <cstdio>
#include <ctime>

#include "base/format.h"
#include "bench/perf/report.h"

namespace tombolo::bench {
namespace {

/// Formats with at most two decimals, or as many as fit the width.
std::string fitted(double value, int width) {
  const std::size_t room = static_cast<std::size_t>(width);
  for (const int decimals : {2, 1, 0}) {
    std::string text = fmt::format("{:{}.{}f}", value, width, decimals);
    if (text.size() <= room) return text;
  }
  return fmt::format("{:{}.{}e}", value, width, width >= 7 ? 1 : 0);
}

void print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

/// The header of the columns before the results.
std::string left(std::string_view size, std::string_view count, std::string_view type, std::string_view op,
                 std::string_view root) {
  return fmt::format("# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}", size, count, type, op, root);
}

std::string half(std::string_view time, std::string_view algbw, std::string_view busbw,
                 std::string_view wrong) {
  return fmt::format("  {:>7}  {:>6}  {:>6}  {:>6}", time, algbw, busbw, wrong);
}

std::string iterations(std::string_view least, std::string_view most, std::string_view p99,
                       std::string_view variation) {
  return fmt::format("  {:>7}  {:>7}  {:>7}  {:>7}", least, most, p99, variation);
}

}  // namespace

std::string time_of_day(std::int64_t seconds) {
  const std::time_t time = seconds;
  std::tm parts{};
  localtime_r(&time, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &parts)};
}

void Table::header(std::string_view program, const std::vector<Device>& devices) const {
  const bool by_factor = flags_.step_factor > 1;
  std::string text = fmt::format(
      "# Tombolo version {}\n# Collective test starting: {}\n"
      "# nThread {} nGpus {} minBytes {} maxBytes {} step: {}({}) warmup iters: {} iters: {} agg iters: {} "
      "validation: {} graph: 0 unalign: {}\n",
      TOMBOLO_VERSION, program, flags_.threads, flags_.devices, flags_.minimum_bytes, flags_.maximum_bytes,
      by_factor ? flags_.step_factor : flags_.step_bytes, by_factor ? "factor" : "bytes",
      flags_.warmup_iterations, flags_.iterations, flags_.aggregated, flags_.checks, flags_.unalign);
  if (flags_.blocking == Blocking::kBarrierEachCall) {
    text += "# Blocking Enabled: wait and barrier after each inner iteration (-m)\n";
  } else if (flags_.blocking == Blocking::kNoBarrier) {
    text += "# Blocking Enabled: wait after each inner iteration (-m), no barrier\n";
  } else {
    text += "# Blocking Enabled: wait and barrier after each outer iteration (-n); time excludes barrier\n";
  }
  if (flags_.per_iteration) {
    text +=
        fmt::format("# Per-Iteration Report: i_* of each iteration's slowest rank, without the first {}\n",
                    flags_.per_iteration_skip);
  }
  if (flags_.parallel_init) text += "# Parallel Init Enabled\n";
  text += "#\n# Using devices\n";
  for (const Device& device : devices) {
    text += fmt::format("#  Rank {:2} Group {:2} Pid {:6} on {:>10} device {:2} [host memory] CPU\n",
                        device.rank, 0, device.pid, device.host, device.number);
  }
  const bool more = flags_.per_iteration;
  const auto lines = [&](const std::string& before, const std::string& each, const std::string& extra,
                         std::string_view time) {
    std::string both = before;
    for (int i = 0; i < 2; ++i) both += each + (more ? extra : "");
    return both + fmt::format(" {:>{}}\n", time, flags_.timestamps ? 19 : 0);
  };
  text += fmt::format(
      "#\n{}{}\n", left("", "", "", "", ""),
      more ? fmt::format("{:^65}{:^65}", "out-of-place (+ per-iteration)", "in-place (+ per-iteration)")
           : "           out-of-place                       in-place          ");
  text += lines(left("size", "count", "type", "redop", "root"),
                half(flags_.cpu_time ? "cputime" : "time", "algbw", "busbw", "#wrong"),
                iterations("i_min", "i_max", "i_p99", "i_cv%"), flags_.timestamps ? "timestamp" : "");
  text += lines(left("(B)", "(elements)", "", "", ""), half("(us)", "(GB/s)", "(GB/s)", ""),
                iterations("(us)", "(us)", "(us)", "(%)"), flags_.timestamps ? "%Y-%m-%d %H:%M:%S" : "");
  print(text);
}

std::string compared_with_bounds(const std::vector<Row>& rows) {
  std::string text = fmt::format(
      "# Lower bounds, and how many times as long the medians are:\n# {:>10}  {:>10}  {:>12}  {:>8}\n",
      "size (B)", "bound (us)", "out-of-place", "in-place");
  for (const Row& row : rows) {
    if (row.bound.seconds <= 0) {
      text += fmt::format("# {:>10}  {:>10}\n", row.bytes, "none");
      continue;
    }
    text += fmt::format("# {:>10}  {:>10}  {:>12.2f}  {:>8.2f}  {}\n", row.bytes,
                        fitted(row.bound.seconds * 1e6, 7),
                        row.out_of_place.measurement.median / row.bound.seconds,
                        row.in_place.measurement.median / row.bound.seconds, row.bound.cause);
  }
  return text + "#\n";
}

void Table::begin(const Row& row) const {
  print(fmt::format("{:12}  {:12}  {:>8}  {:>6}  {:6}", row.bytes, row.count, row.type, row.op, row.root));
}

void Table::result(const Result& result) const {
  const Measurement& found = result.measurement;
  std::string text =
      half(fitted((flags_.cpu_time ? found.cpu_seconds : found.seconds) * 1e6, 7),
           fitted(result.algorithm_bandwidth, 6), fitted(result.bus_bandwidth, 6),
           found.wrong ? fmt::format("{:6g}", static_cast<double>(*found.wrong)) : std::string("N/A"));
  if (flags_.per_iteration) {
    const IterationStatistics& all = result.statistics;
    text += iterations(fitted(all.least * 1e6, 7), fitted(all.most * 1e6, 7), fitted(all.p99 * 1e6, 7),
                       fitted(all.variation_percent(), 7));
  }
  print(text);
}

void Table::end() const {
  print(flags_.timestamps ? fmt::format("{:>21}\n", time_of_day(std::time(nullptr))) : "\n");
}

void Table::footer(std::string_view program, const Summary& summary) const {
  const char* const verdict = !summary.least_allowed_bandwidth ? "" : summary.fast_enough() ? "OK" : "FAILED";
  print(fmt::format("# {:<20} : {} {}\n# {:<20} : {:g} {}\n#\n# Collective test concluded: {}\n#\n\n",
                    "Out of bounds values", summary.failed_checks,
                    summary.failed_checks == 0 ? "OK" : "FAILED", "Avg bus bandwidth",
                    summary.average_bus_bandwidth, verdict, program));
}

}  // namespace tombolo::bench
