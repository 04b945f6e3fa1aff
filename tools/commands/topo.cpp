// tombolo topo: what hardware this machine has.
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "tools/cli/command.h"
#include "tools/process/subprocess.h"
#include "tools/reports/topology_report.h"
#include "topology/detect.h"
#include "topology/export/graphviz.h"
#include "topology/export/nccl_xml.h"
#include "topology/files/fleet.h"

namespace tombolo::tools {
namespace {

constexpr const char* kTopoHelp =
    "Finds every network interface, RDMA port and GPU, says what each is (InfiniBand, RoCE, iWARP or TCP), "
    "how fast\n"
    "and where it is, and whether Tombolo would use it, and why not. The best NIC comes first. A matrix says "
    "how\n"
    "far GPUs and NICs are from each other, in nvidia-smi's words: NV# is a bond of # NVLinks, PIX crosses "
    "one PCIe\n"
    "switch, PXB several, PHB a host bridge, NODE two of one NUMA node, SYS two NUMA nodes.\n"
    "\nExamples:\n"
    "  tombolo topo\n"
    "  tombolo topo --json | jq '.nics[] | select(.usable)'\n"
    "  tombolo topo --format nccl-xml -o topo.xml   for NCCL_TOPO_FILE=topo.xml\n"
    "  tombolo topo --format svg -o topo.svg        a picture, drawn by Graphviz\n"
    "  tombolo topo --format dot | dot -Tpng -o topo.png\n"
    "  tombolo topo --cluster-out host.json    a cluster file with this host, to edit or to merge with "
    "others'\n"
    "  tombolo topo --fleet fleet.json --cluster-out cluster.json\n"
    "                                          a cluster file for machines that are only described "
    "(docs/fleet-file.md)\n"
    "  tombolo topo --reach host.json          which NICs of those hosts can be expected to reach which "
    "here\n"
    "  tombolo topo --root recorded/           a recorded tree of /sys instead of this machine\n"
    "  tombolo topo --root machine.tree        the same in one file (docs/topology.md)";

const std::vector<std::string> kFormats{"table", "json", "nccl-xml", "dot", "svg"};

struct TopoOptions {
  bool json = false;
  std::string format = "table";
  std::string output;
  std::string root;
  std::string cluster_out;
  std::string cluster = "A";
  std::string reach;
  std::string fleet;
};

std::string svg_text(const topology::Machine& machine) {
  const auto dot = find_program("dot");
  if (!dot) {
    fail(Cause::kUnsupported,
         "--format svg needs Graphviz's program dot: apt-get install graphviz, or draw the output of "
         "--format dot on "
         "another machine");
  }
  constexpr Duration kDeadline = std::chrono::seconds(60);
  Finished done = run_program({*dot, "-Tsvg"}, topology::graphviz(machine), kDeadline);
  if (done.exit_code != 0)
    fail(Cause::kSystem, "{} -Tsvg ended with exit code {}: {}", *dot, done.exit_code, done.error);
  return std::move(done.output);
}

/// Prints `text`, or writes it to the file of --output.
void write_output(const std::string& path, const std::string& text) {
  if (path.empty()) {
    fmt::print("{}", text);
  } else {
    write_text_file(path, text);
  }
}

int run_fleet(const TopoOptions& options) {
  if (options.format != "table")
    fail(Cause::kInvalidUsage, "--fleet goes with tables and JSON, not with --format {}", options.format);
  const auto file = topology::expand_fleet(JsonDocument::load(options.fleet), topology::Library::load());
  if (!options.cluster_out.empty()) file.save(options.cluster_out);
  std::string text = fleet_tables(file);
  if (options.json) {
    text = file.to_json().dump(1) + "\n";
  } else if (!options.cluster_out.empty()) {
    text += fmt::format("\nCluster file written to {}\n", options.cluster_out);
  }
  write_output(options.output, text);
  return kExitOk;
}

int run_topo(const TopoOptions& options) {
  if (!options.fleet.empty()) return run_fleet(options);
  const std::string format = options.json ? "json" : options.format;
  if (!options.reach.empty() && format != "table" && format != "json")
    fail(Cause::kInvalidUsage, "--reach goes with tables and JSON, not with --format {}", format);
  topology::DetectOptions detection;
  if (!options.root.empty()) {
    detection.root = options.root;
    detection.live = false;
  }
  detection.log = Log::to_stderr(LogLevel::kWarning);
  std::optional<topology::ClusterFile> others;
  if (!options.reach.empty()) others = topology::ClusterFile::load(options.reach);
  topology::Machine machine = topology::detect(detection);
  if (!options.cluster_out.empty()) {
    topology::ClusterFile file;
    file.note = "detected on one host; nothing is measured yet (tombolo probe does that)";
    file.hosts.push_back(topology::to_host(machine));
    file.hosts.back().cluster = options.cluster;
    file.save(options.cluster_out);
  }
  std::vector<NicPair> pairs;
  if (others) pairs = reach_pairs(machine, *others);
  std::string text;
  if (format == "json") {
    text = topology_json(machine, others ? &pairs : nullptr);
  } else if (format == "nccl-xml") {
    text = topology::nccl_xml(machine);
  } else if (format == "dot") {
    text = topology::graphviz(machine);
  } else if (format == "svg") {
    text = svg_text(machine);
  } else {
    text = topology_tables(machine);
    if (others) text += reach_table(pairs);
    if (!options.cluster_out.empty())
      text += fmt::format("\nCluster file written to {}\n", options.cluster_out);
  }
  write_output(options.output, text);
  return kExitOk;
}

}  // namespace

void add_topo(CommandLine& tombolo) {
  auto options = std::make_shared<TopoOptions>();
  CLI::App& app = tombolo.add("topo", "What NICs and GPUs are here, which are usable, and why", kTopoHelp,
                              [options] { return run_topo(*options); });
  auto* format =
      app.add_option("--format", options->format,
                     "table, json, nccl-xml (for NCCL_TOPO_FILE), dot (Graphviz), svg (drawn by dot)");
  format->check(CLI::IsMember(kFormats))->capture_default_str();
  app.add_flag("--json", options->json, "Print JSON instead of tables, as --format json")->excludes(format);
  app.add_option("-o,--output", options->output, "Write to this file instead of standard output");
  auto* root = app.add_option(
      "--root", options->root,
      "Read a recorded tree (DIR/sys/class/net/..., or one .tree file) instead of this machine");
  auto* reach = app.add_option(
      "--reach", options->reach,
      "Also say which NICs of this cluster file's other hosts can be expected to reach which here");
  app.add_option(
         "--fleet", options->fleet,
         "Expand this fleet file (docs/fleet-file.md) instead of looking at a machine; --json prints the "
         "cluster file")
      ->excludes(root)
      ->excludes(reach);
  app.add_option("--cluster-out", options->cluster_out,
                 "Also write a cluster file with this one host, or with the fleet");
  app.add_option("--cluster", options->cluster, "Name of the cluster in that file")->capture_default_str();
}

}  // namespace tombolo::tools
