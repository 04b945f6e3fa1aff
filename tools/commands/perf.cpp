// tombolo perf: the benchmark programs that lie beside this one.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "base/error.h"
#include "tools/cli/command.h"
#include "tools/emulation/declared_links.h"
#include "tools/launch/launch_flags.h"

namespace tombolo::tools {
namespace {

constexpr const char* kPerfHelp =
    "Runs <name>_perf, as it lies beside this program. all_reduce, all_gather, reduce_scatter,\n"
    "broadcast, reduce, alltoall, sendrecv, gather, scatter and hypercube have the flags and columns\n"
    "of nccl-tests.\n"
    "Inside torchrun, srun, mpirun or tombolo run it is one rank of the job; with --emulate or --ranks it "
    "starts\n"
    "its own ranks on this machine. The benchmark's own flags come after --.\n"
    "\n"
    "Examples:\n"
    "  tombolo perf all_reduce --ranks 4 -- -b 8 -e 64M -f 2\n"
    "  tombolo perf all_reduce --emulate two-clusters --order interleaved -- -b 16M -e 16M -n 10\n"
    "  tombolo perf sendrecv --ranks 2 -- -b 1M -e 1M -d all\n"
    "  tombolo perf all_reduce --emulate two-clusters --bound -- -b 1M -e 16M -f 16 -n 5\n"
    "  tombolo perf all_gather --ranks 4 --explain -- -b 1K -e 16M -f 16\n"
    "  tombolo perf all_reduce --ranks 4 --tune tuning.json -- -b 1K -e 16M -f 16";

struct PerfOptions {
  LaunchFlags launch;
  std::string name;
  std::vector<std::string> flags;
  bool explain = false, bound = false;
  std::string tuning_file;
};

std::string find_benchmark(const std::string& name) {
  std::filesystem::path folder = std::filesystem::path(own_program()).parent_path();
  std::string known;
  std::error_code status;
  for (const auto& entry : std::filesystem::directory_iterator(folder, status)) {
    std::string file = entry.path().filename().string();
    if (file == name + "_perf") return entry.path().string();
    if (file.ends_with("_perf")) known += (known.empty() ? "" : ", ") + file.substr(0, file.size() - 5);
  }
  fail(Cause::kInvalidUsage, "there is no benchmark '{}' in {}; there {}", name, folder.string(),
       known.empty() ? "are none: build the folder bench/" : "is " + known);
}

int run_perf(const PerfOptions& options) {
  std::vector<std::string> program{find_benchmark(options.name)};
  program.insert(program.end(), options.flags.begin(), options.flags.end());
  if (!options.tuning_file.empty()) {
    program.emplace_back("--tune");
    program.push_back(std::filesystem::absolute(options.tuning_file).string());
  }
  if (options.explain) program.emplace_back("--explain");
  if (options.bound && options.launch.emulate.empty())
    fail(Cause::kInvalidUsage,
         "--bound needs --emulate, whose links are known; of another network the benchmark's own --bound, "
         "after --, takes the cluster file");
  if (options.launch.any()) {
    LaunchFlags flags = options.launch;
    flags.quiet = true;  // rank 0 prints the table
    PreparedLaunch prepared = prepare_launch(flags, program);
    if (options.bound) {
      const std::string file = prepared.emulation->directory() + "/links.json";
      emulation::with_declared_links(prepared.emulation->spec(), prepared.emulation->cluster()).save(file);
      prepared.options.program.insert(prepared.options.program.end(), {"--bound", file});
    }
    return launch_and_report(prepared.options, "perf");
  }
  std::vector<char*> argv;
  for (std::string& each : program) argv.push_back(each.data());
  argv.push_back(nullptr);
  std::fflush(stdout);
  ::execv(argv[0], argv.data());
  fail_errno(errno, fmt::format("starting {}", program[0]));
}

}  // namespace

void add_perf(CommandLine& tombolo) {
  auto options = std::make_shared<PerfOptions>();
  CLI::App& app = tombolo.add("perf", "Run a benchmark, optionally on emulated clusters", kPerfHelp,
                              [options] { return run_perf(*options); });
  options->launch.add_to(app);
  app.add_option("benchmark", options->name, "all_reduce, ...")->required();
  app.add_flag(
      "--explain", options->explain,
      "Say at the end what the engine knows of the network, and which algorithm each size took and why");
  app.add_flag(
      "--bound", options->bound,
      "Say at the end how many times as long as the lower bound of the emulated network each size took");
  app.add_option(
         "--tune", options->tuning_file,
         "First measure every algorithm at every size, and write the table of the fastest to this file (or "
         "add to it), for TOMBOLO_TUNING")
      ->type_name("FILE");
  app.add_option("flags", options->flags, "After --: the benchmark's own flags");
}

}  // namespace tombolo::tools
