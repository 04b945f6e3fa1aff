// tombolo probe: the rate and latency that every link between the ranks' hosts attains.
#include "probe/probe.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/units.h"
#include "tools/cli/command.h"
#include "tools/cli/progress_bar.h"
#include "tools/launch/launch_flags.h"
#include "tools/launch/probe_ranks.h"
#include "tools/reports/bandwidth_matrix.h"
#include "tools/reports/probe_report.h"

namespace tombolo::tools {
namespace {

constexpr const char* kProbeHelp =
    "Measures, over Tombolo's own transports, latency and attained bandwidth of every pair of NICs that "
    "reach\n"
    "each other (both directions loaded at once, pairs that share no host at the same time); then loads all\n"
    "pairs of hosts between two clusters at once, and all NICs of a host at once, to find links and ports "
    "that\n"
    "they share; and what each rank computes: matrix products and streams through memory (STREAM's triad), "
    "by "
    "one\n"
    "core, or by its GPU where the host has one and CUDA's driver and cuBLAS can be loaded. Says which hosts "
    "are\n"
    "islands, reaching each other markedly faster than others, and where that differs from the clusters of "
    "the\n"
    "cluster file; without one the islands become the clusters. Prints a matrix per kind of NIC, and writes "
    "a\n"
    "cluster file for tombolo plan. NICs that "
    "should\n"
    "reach each other but do not are left out and told at the end: exit code 1, unless whole groups of hosts "
    "are\n"
    "apart; then the file gives each its own fabric.\n"
    "\n"
    "Inside torchrun, srun, mpirun or tombolo run it is one rank of the job. With --emulate or -n it starts "
    "its\n"
    "own ranks on this machine.\n"
    "\n"
    "Examples:\n"
    "  tombolo probe --emulate holmes --out cluster.json\n"
    "  srun -N 4 --ntasks-per-node 1 tombolo probe --out cluster.json\n"
    "  tombolo probe --emulate two-clusters:hosts=8 --json | jq '.islands, .loads'";

// The beginning of the lines by which rank 0 tells its launcher how many steps are done. The launcher does
// not print these lines.
constexpr std::string_view kProgressMark = "@tombolo-probe-progress ";

struct ProbeOptions {
  LaunchFlags launch;
  std::string out;
  bool json = false;
  bool no_compute = false;
  bool relay_progress = false;
  double seconds = 0;  // 0: depends on the number of steps
};

void draw(int done, int total) {
  draw_progress("probing", done, total);
}

int start_ranks(const ProbeOptions& options) {
  std::vector<std::string> program{own_program(), "probe", "--relay-progress"};
  if (options.seconds > 0) program.insert(program.end(), {"--seconds", fmt::format("{}", options.seconds)});
  if (!options.out.empty()) program.insert(program.end(), {"--out", options.out});
  if (options.json) program.emplace_back("--json");
  if (options.no_compute) program.emplace_back("--no-compute");
  PreparedLaunch prepared = prepare_launch(options.launch, program);
  bool terminal = can_draw_progress();
  prepared.options.output = Output::kRankZero;
  prepared.options.hide = [terminal](int, std::string_view line) {
    if (!line.starts_with(kProgressMark)) return false;
    int done = 0;
    int total = 0;
    std::string numbers(line.substr(kProgressMark.size()));
    if (terminal && std::sscanf(numbers.c_str(), "%d %d", &done, &total) == 2) draw(done, total);
    return true;
  };
  return launch_and_report(prepared.options, "probe");
}

void print_facts(const topology::ClusterFile& cluster, const std::string& structure,
                 const std::vector<RankSpeeds>& speeds, const std::vector<collectives::Member>& members) {
  if (cluster.emulated) fmt::print("{}\n", cluster.note);
  fmt::print("\n{}{}", bandwidth_matrix(cluster), structure);
  if (speeds.empty()) return;
  fmt::print("Matrix products and streams through memory, alone and with all ranks at once:\n");
  for (const auto& member : members) {
    const RankSpeeds& speed = speeds[static_cast<std::size_t>(member.rank)];
    fmt::print("  rank {} on {}, {}: {:.3g} and {:.3g} GFLOP/s; {:.3g} and {:.3g} GB/s\n", member.rank,
               member.host, speed.gpu != 0 ? "a GPU in bf16" : "a core in float32",
               speed.alone.flops_per_second / 1e9, speed.together.flops_per_second / 1e9,
               speed.alone.memory_bytes_per_second / 1e9, speed.together.memory_bytes_per_second / 1e9);
  }
}

Json speed_json(const probe::DeviceSpeed& speed, const char* prefix) {
  return {{fmt::format("{}_flops_per_second", prefix), speed.flops_per_second},
          {fmt::format("{}_float32_flops_per_second", prefix), speed.float32_flops_per_second},
          {fmt::format("{}_memory_bytes_per_second", prefix), speed.memory_bytes_per_second}};
}

/// On rank 0: writes the cluster file, and prints the results as text or as JSON.
void write_results(const ProbeOptions& options, const ProbedJob& probed) {
  const auto differences = probe::compare_islands(probed.cluster, probed.links.islands);
  if (!options.out.empty()) probed.cluster.save(options.out);
  if (!options.json) {
    print_facts(probed.cluster, describe_structure(probed.cluster, probed.links, differences), probed.speeds,
                probed.members);
    if (!options.out.empty()) fmt::print("\nwritten: {}\n", options.out);
    return;
  }
  Json json = probed.cluster.to_json();
  add_structure(json, probed.cluster, probed.links, differences);
  for (std::size_t r = 0; r < probed.speeds.size(); ++r) {
    Json one{
        {"rank", r}, {"host", probed.members[r].host}, {"device", probed.speeds[r].gpu != 0 ? "gpu" : "cpu"}};
    one.update(speed_json(probed.speeds[r].alone, "alone"));
    one.update(speed_json(probed.speeds[r].together, "together"));
    json["compute"].push_back(std::move(one));
  }
  fmt::print("{}\n", json.dump(1));
}

int run_as_rank(const ProbeOptions& options) {
  const bool terminal = can_draw_progress();
  const auto progress = [&](int done, int total) {
    if (options.relay_progress) {
      fmt::print("{}{} {}\n", kProgressMark, done, total);
      std::fflush(stdout);
    } else if (terminal) {
      draw(done, total);
    }
  };
  const collectives::Options engine = options_of_job();
  probe::RendezvousGroup group(engine);
  const ProbedJob probed = probe_job({options.seconds, !options.no_compute, progress}, engine, group);
  if (probed.rank != 0) return kExitOk;
  write_results(options, probed);
  print_problems(probed, "probe");
  // Every rank knows of the failure, but only rank 0 returns it: one exit code is enough.
  return probed.unexplained.empty() ? kExitOk : kExitFailed;
}

}  // namespace

void add_probe(CommandLine& tombolo) {
  auto options = std::make_shared<ProbeOptions>();
  CLI::App& app = tombolo.add(
      "probe", "Measure every link between the ranks' hosts, and what they compute", kProbeHelp,
      [options] { return options->launch.any() ? start_ranks(*options) : run_as_rank(*options); });
  options->launch.add_to(app);
  app.add_option("--out", options->out, "Write the cluster file with the measured links here");
  app.add_flag("--json", options->json, "Print JSON instead of tables");
  app.add_option(
         "--seconds", options->seconds,
         "Time per measurement; if not given 0.3, and less with many hosts, so that tens of them take "
         "seconds")
      ->check(CLI::Range(0.01, 60.0));
  app.add_flag("--no-compute", options->no_compute, "Only links");
  // start_ranks() passes it to its rank 0
  app.add_flag("--relay-progress", options->relay_progress)->group("");
}

}  // namespace tombolo::tools
