// Measures a net plugin through NCCL's ABI, beside plain TCP, NCCL's own Socket transport and other plugins
// where given: each between two processes of its own over loopback, in turns, in one run.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "bench/channels.h"
#include "bench/plugin/candidates.h"
#include "bench/plugin/comparison.h"
#include "bench/plugin/plan.h"
#include "bench/plugin/processes.h"

namespace {

using namespace tombolo;
using namespace tombolo::bench::plugin;

/// The processes of all candidates, which have connected. Where NCCL's library was not named and cannot be
/// had, its column is left out. Says who they are where that is wanted.
Comparison::Pairs start(const Plan& plan, bool say) {
  const std::size_t most_channels = plan.channels.empty() ? 1 : std::ranges::max(plan.channels);
  Comparison::Pairs pairs;
  for (Candidate& candidate : candidates_of(plan, most_channels)) {
    const bool optional = candidate.key == "nccl-socket" && plan.nccl.empty();
    auto pair = std::make_unique<Pair>(std::move(candidate));
    try {
      pair->greet();
    } catch (const Error& error) {
      if (!optional) throw;
      if (say) std::printf("without NCCL's Socket transport: %s\n", error.what());
      continue;
    }
    if (say) std::printf("%-12s %s\n", pair->candidate().key.c_str(), pair->candidate().label.c_str());
    pairs.push_back(std::move(pair));
  }
  return pairs;
}

int lead(const Plan& plan) {
  bool first = true;
  Comparison comparison(plan, [&] { return start(plan, std::exchange(first, false)); });
  comparison.run();
  if (!plan.json.empty()) {
    const std::string text = comparison.as_json().dump(1) + "\n";
    FILE* file = plan.json == "-" ? stdout : std::fopen(plan.json.c_str(), "w");
    if (file == nullptr || std::fputs(text.c_str(), file) < 0) fail_errno(errno, "writing " + plan.json);
    if (file != stdout) std::fclose(file);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Plan plan;
  plan.plugin = TOMBOLO_NET_PLUGIN_PATH;
  CLI::App app(
      "Net plugins through NCCL's ABI beside plain TCP and NCCL's own Socket transport, each between two "
      "processes over loopback, host memory: half round trip, and throughput with 8 messages of each comm "
      "outstanding. \"plain\" writes 64 KiB at a time, on one socket for both ways; \"plain-each\" writes "
      "each message by itself, on a socket for each way, as NCCL's connections do. Every message carries a "
      "mark that its receiver checks. Medians of rounds; in each all are measured in turns, between new "
      "processes.");
  app.add_option("--plugin", plan.plugin, "Tombolo's library (default: the one built beside this program)");
  app.add_option("--peer", plan.peers, "another plugin to measure, as name=path.so (repeatable)");
  app.add_option("--abi", plan.abi, "ABI version of plugins (default: the newest that each has)")
      ->check(CLI::Range(net_plugin::kOldestAbi, net_plugin::kNewestAbi));
  app.add_option("--nccl", plan.nccl,
                 "NCCL's library for its Socket transport (default: where it is found; skipped with a notice "
                 "where it is not)");
  app.add_flag("--no-nccl", plan.no_nccl, "leave NCCL's Socket transport out");
  app.add_flag("--ucx", plan.ucx, "also Tombolo over UCX, which inside a host uses its tcp");
  app.add_flag(
      "--shm-ways", plan.shm_ways,
      "also Tombolo over shared memory by each of its two ways alone: tombolo-area copies all through "
      "the segment, tombolo-read reads large messages in the sender's memory");
  app.add_option("--only", plan.only, "measure these columns alone, such as tombolo,tombolo-shm")
      ->delimiter(',');
  app.add_option("--sizes", plan.sizes, "bytes of messages for throughput, such as 8K,1M")->delimiter(',');
  app.add_option("--trips", plan.trips, "bytes of messages for the half round trip, such as 8,8K")
      ->delimiter(',');
  app.add_option("--comms", plan.channels, "comms at the same time, such as 1,4")
      ->delimiter(',')
      ->check(CLI::Range(1, 64));
  app.add_option("--repeats", plan.repeats, "rounds, each between new processes")->check(CLI::Range(1, 1000));
  app.add_option("--bytes", plan.bytes_per_run,
                 "bytes per throughput measurement (16 to 50000 messages on each comm)")
      ->check(CLI::Range(1.0, 1e12));
  app.add_option("--memory", plan.memory, "skip sizes whose slots take more bytes than this in a process")
      ->check(CLI::Range(1.0, 1e12));
  app.add_option("--json", plan.json, "write all medians to this file; - for standard output");
  CLI11_PARSE(app, argc, argv);
  try {
    return lead(plan);
  } catch (const Error& error) {
    std::fprintf(stderr, "plugin_perf: %s\n", error.what());
    return 1;
  }
}
