// tombolo run: local ranks, optionally on emulated hosts.
#include <CLI/CLI.hpp>

#include "tools/cli/command.h"
#include "tools/launch/launch_flags.h"

namespace tombolo::tools {
namespace {

constexpr const char* kRunHelp =
    "Starts N ranks of a program on this machine, with the variables that torchrun sets (RANK, WORLD_SIZE,\n"
    "LOCAL_RANK, MASTER_ADDR, MASTER_PORT) and a fresh TOMBOLO_SECRET. With --emulate every rank runs "
    "inside\n"
    "the network of an emulated host: needs no root where user namespaces are permitted.\n"
    "\n"
    "Emulations:\n"
    "  holmes[:fast=4gbit,slow=100mbit,hosts=4]  two clusters; each host has a fast NIC that reaches its "
    "own\n"
    "                                            cluster only, and a slow Ethernet one that reaches all\n"
    "  two-clusters[:rate=1gbit,hosts=4,rtt=0ms,loss=0%]   two clusters joined by one link of that rate\n"
    "  two-paths[:rates=1gbit/250mbit,rtt=0ms,loss=0%]     two hosts with a NIC each on every path\n"
    "  FILE.json                                 your own: {\"name\": ..., \"hosts\": [...], \"links\": "
    "[...]}\n"
    "\n"
    "When a rank fails the others are asked to end, and killed after --grace; the exit code is the failed\n"
    "rank's (128 + N for signal N). 124: --timeout passed. 129, 130, 143: ended by SIGHUP, SIGINT, SIGTERM;\n"
    "the ranks have --grace to end then, and another of these signals more than 1 s later kills them.\n"
    "SIGUSR1 is passed on to the ranks, and nothing else.\n"
    "\n"
    "Examples:\n"
    "  tombolo run -n 4 -- build/bin/all_reduce_perf -b 1M -e 16M\n"
    "  tombolo run --emulate holmes --order interleaved --routing shared -- build/bin/all_reduce_perf\n"
    "  tombolo run --emulate holmes -- ip address      what each host sees";

struct RunOptions {
  LaunchFlags launch;
  std::vector<std::string> program;
};

int run_run(const RunOptions& options) {
  PreparedLaunch prepared = prepare_launch(options.launch, options.program);
  return launch_and_report(prepared.options, "run");
}

}  // namespace

void add_run(CommandLine& tombolo) {
  auto options = std::make_shared<RunOptions>();
  CLI::App& app = tombolo.add("run", "Start local ranks, optionally on emulated clusters", kRunHelp,
                              [options] { return run_run(*options); });
  options->launch.add_to(app);
  app.add_option("program", options->program, "After --: the program and its arguments")->required();
}

}  // namespace tombolo::tools
