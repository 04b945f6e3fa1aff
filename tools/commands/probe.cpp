// tombolo probe: the rate and latency that every link between the ranks' hosts attains.
#include "probe/probe.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/units.h"
#include "collectives/engine/gather_texts.h"
#include "probe/bootstrap/control_network.h"
#include "tools/cli/command.h"
#include "tools/cli/progress_bar.h"
#include "tools/launch/launch_flags.h"
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

/// One rank's speeds. All members are doubles, so that an all-gather can carry them.
struct RankSpeeds {
  probe::DeviceSpeed alone, together;
  double gpu = 0;  ///< 1 for a GPU
};
static_assert(sizeof(RankSpeeds) == 7 * sizeof(double));

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

/// Collective: returns the speeds of every rank, by rank.
std::vector<RankSpeeds> speeds_of_all(collectives::Communicator& communicator,
                                      const probe::ComputeResult& compute) {
  const RankSpeeds mine{compute.alone, compute.together, compute.gpu ? 1.0 : 0.0};
  std::vector<RankSpeeds> all(static_cast<std::size_t>(communicator.size()));
  communicator.all_gather(reinterpret_cast<const double*>(&mine), reinterpret_cast<double*>(all.data()),
                          sizeof(RankSpeeds) / sizeof(double), collectives::DataType::kFloat64);
  return all;
}

/// On rank 0: writes the cluster file, and prints the results as text or as JSON.
void write_results(const ProbeOptions& options, const topology::ClusterFile& cluster,
                   const probe::ProbedLinks& measured, const std::vector<std::string>& differences,
                   const std::vector<RankSpeeds>& speeds, const std::vector<collectives::Member>& members) {
  if (!options.out.empty()) cluster.save(options.out);
  if (!options.json) {
    print_facts(cluster, describe_structure(cluster, measured, differences), speeds, members);
    if (!options.out.empty()) fmt::print("\nwritten: {}\n", options.out);
    return;
  }
  Json json = cluster.to_json();
  add_structure(json, cluster, measured, differences);
  for (std::size_t r = 0; r < speeds.size(); ++r) {
    Json one{{"rank", r}, {"host", members[r].host}, {"device", speeds[r].gpu != 0 ? "gpu" : "cpu"}};
    one.update(speed_json(speeds[r].alone, "alone"));
    one.update(speed_json(speeds[r].together, "together"));
    json["compute"].push_back(std::move(one));
  }
  fmt::print("{}\n", json.dump(1));
}

/// On rank 0: prints what was left out, on standard error.
void print_problems(const std::vector<std::string>& told, const std::vector<std::string>& gpu_problems,
                    const std::vector<collectives::Member>& members,
                    const std::vector<std::string>& unexplained) {
  for (const std::string& each : told) fmt::print(stderr, "tombolo probe: {}\n", each);
  for (std::size_t r = 0; r < gpu_problems.size(); ++r)
    if (!gpu_problems[r].empty())
      fmt::print(stderr, "tombolo probe: rank {} on {}: its GPU was not measured: {}\n", r, members[r].host,
                 gpu_problems[r]);
  for (const std::string& each : unexplained) fmt::print(stderr, "tombolo probe: not measured: {}\n", each);
}

int run_as_rank(const ProbeOptions& options) {
  collectives::Options engine = collectives::Options::from_environment();
  if (engine.identity.size < 2) {
    fail(Cause::kInvalidUsage,
         "one rank has nobody to measure a link with; start it under torchrun, srun, mpirun or tombolo run, "
         "or "
         "with --emulate holmes");
  }
  probe::RendezvousGroup group(engine);
  auto communicator = collectives::Communicator::create(probe::control_network_options(group, engine));
  probe::LinkProbeOptions links;
  links.seconds_per_pair = options.seconds;
  // The bar covers the whole run: measuring computation counts as one more step after those of the links.
  int done_steps = 0;
  const int steps_after = options.no_compute ? 0 : 1;
  const bool terminal = can_draw_progress();
  links.progress = [&](int done, int total) {
    done_steps = done;
    if (options.relay_progress) {
      fmt::print("{}{} {}\n", kProgressMark, done, total + steps_after);
      std::fflush(stdout);
    } else if (terminal) {
      draw(done, total + steps_after);
    }
  };
  auto measured = probe::probe_links(*communicator, engine, links);

  std::vector<RankSpeeds> speeds;
  std::vector<std::string> gpu_problems;
  probe::ComputeResult compute;
  if (!options.no_compute) {
    probe::ComputeProbeOptions what;
    what.gpu = probe::gpu_of(*communicator, engine.router.host);
    compute = probe::probe_compute(*communicator, what);
    speeds = speeds_of_all(*communicator, compute);
    gpu_problems = collectives::gather_texts(*communicator, compute.problem);
    if (communicator->rank() == 0) links.progress(done_steps + 1, done_steps + 1 - steps_after);
  }
  auto cluster = probe::describe(*communicator, engine.router.host, topology::cluster_file_from_environment(),
                                 measured, compute);
  std::vector<std::string> unexplained;
  auto told = probe::separate_fabrics(cluster, measured.failures, unexplained);
  if (communicator->rank() == 0)
    write_results(options, cluster, measured, probe::compare_islands(cluster, measured.islands), speeds,
                  communicator->members());
  communicator->barrier();
  if (communicator->rank() == 0) print_problems(told, gpu_problems, communicator->members(), unexplained);
  // Every rank knows of the failure, but only rank 0 returns it: one exit code is enough.
  return communicator->rank() == 0 && !unexplained.empty() ? kExitFailed : kExitOk;
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
