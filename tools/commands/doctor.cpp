// tombolo doctor: what is wrong with this machine, and what to change.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/json.h"
#include "collectives/engine/communicator.h"
#include "probe/bootstrap/connectivity.h"
#include "tools/cli/command.h"
#include "tools/doctor/checks.h"
#include "tools/doctor/nccl_checks.h"
#include "tools/doctor/pair.h"

namespace tombolo::tools {
namespace {

using doctor::Check;
using doctor::Status;

constexpr const char* kDoctorHelp =
    "Checks NICs, limits, the kernel's settings and the libraries that are loaded at run time; says for each "
    "what\n"
    "was seen and what to change. Inside torchrun, srun, mpirun or tombolo run it also connects every pair "
    "of\n"
    "ranks over the real transports, and reports which way was taken and why; a pair that cannot connect is "
    "waited\n"
    "for half of TOMBOLO_DEADLINE and listed with the cause. And the first rank of each host measures the "
    "way "
    "from\n"
    "every NIC to those of the other hosts: whether a filter refuses or drops connections, the packets that "
    "get\n"
    "through, round trip, loss, buffers against rate times round trip, and how far the clocks are apart. "
    "Exit "
    "code 1\n"
    "when a check failed; warnings alone leave it 0.\n"
    "With --nccl it also checks whether a job with this environment would use the NCCL plugin: which "
    "libnccl\n"
    "PyTorch loads and what that release makes of NCCL_NET_PLUGIN, NCCL_NET and NCCL's files of variables; "
    "it\n"
    "starts the plugin and prints what it says. Run it as the job runs, in its container, under its "
    "launcher.\n"
    "\n"
    "Examples:\n"
    "  tombolo doctor\n"
    "  tombolo doctor --nccl\n"
    "  tombolo doctor --peer node17 --cluster cluster.json\n"
    "  tombolo run --emulate holmes --quiet -- tombolo doctor\n"
    "  tombolo doctor --json | jq '.checks[] | select(.status != \"ok\")'";

struct DoctorOptions {
  bool json = false;
  bool nccl = false;
  std::string cluster;
  std::vector<std::string> peers;
};

Json to_json(const std::vector<Check>& checks) {
  Json list = Json::array();
  for (const Check& each : checks) {
    Json entry{{"name", each.name}, {"status", doctor::status_name(each.status)}, {"seen", each.seen}};
    if (!each.advice.empty()) entry["advice"] = each.advice;
    list.push_back(std::move(entry));
  }
  return list;
}

bool any_failed(const std::vector<Check>& checks) {
  return std::any_of(checks.begin(), checks.end(),
                     [](const Check& each) { return each.status == Status::kFailed; });
}

void print(const std::vector<Check>& checks) {
  for (const Check& each : checks) {
    fmt::print("{:<8} {:<22} {}\n", doctor::status_name(each.status), each.name, each.seen);
    if (!each.advice.empty()) fmt::print("{:<8} {:<22} -> {}\n", "", "", each.advice);
  }
}

std::string host_name_of_this_process() {
  if (std::string named = topology::kHostParameter.text(); !named.empty()) return named;
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

Check as_check(int rank, const probe::ConnectivityResult& pair) {
  std::string name = fmt::format("rank {} to {}", rank, pair.peer);
  if (!pair.route) {
    std::string to = pair.peer_host.empty() ? "" : fmt::format("no connection to {}: ", pair.peer_host);
    return {
        name, Status::kFailed, to + pair.error,
        "if the two NICs are on networks that nothing joins, give them different fabrics in a cluster file "
        "(TOMBOLO_CLUSTER); else look at addresses, routes and filters: tombolo doctor --peer"};
  }
  const transport::Route& route = *pair.route;
  return {name,
          Status::kOk,
          fmt::format("{} {} to {} {}{}: {}", route.transport, route.local_nic, route.peer_host,
                      route.peer_nic, route.emulated ? " (emulated)" : "", route.reason),
          {}};
}

void print(const Json& check, bool with_advice = false) {
  fmt::print("{:<8} {:<22} {}\n", check.at("status").get<std::string>(), check.at("name").get<std::string>(),
             check.at("seen").get<std::string>());
  if (with_advice && check.contains("advice"))
    fmt::print("{:<8} {:<22} -> {}\n", "", "", check.at("advice").get<std::string>());
}

// `ranks` holds one object per rank, {"rank", "host", "checks", "routes", "ways"}.
// They come from other processes: throws kRemote where one is not such an object.
void print_ranks(const Json& ranks) try {
  std::string advice;
  for (const Json& rank : ranks) {
    fmt::print("\nrank {} on {}\n", rank.at("rank").get<int>(), rank.at("host").get<std::string>());
    for (const Json& check : rank.at("checks")) {
      // Rank 0's own checks were printed already. Of the other ranks' checks only those are printed that are
      // not ok.
      if (rank.at("rank") != 0 && check.at("status") != "ok") print(check);
    }
    for (const Json& route : rank.at("routes")) {
      print(route);
      if (route.contains("advice")) advice = route.at("advice");
    }
    for (const Json& way : rank.at("ways")) print(way, true);
  }
  if (!advice.empty()) fmt::print("\n-> {}\n", advice);
} catch (const Json::exception& error) {
  fail(Cause::kRemote, "a rank sent a report that this build does not read: {}", error.what());
}

// Whether the ranks' NCCLs would do alike. A rank that ran without --nccl is left out.
std::vector<Check> compare_ranks(const Json& ranks) try {
  std::vector<doctor::RankAgreement> values;
  for (const Json& rank : ranks) {
    if (rank.contains("nccl"))
      values.push_back({rank.at("rank").get<int>(), rank.at("host").get<std::string>(), rank.at("nccl")});
  }
  return doctor::check_nccl_agreement(values);
} catch (const Json::exception& error) {
  fail(Cause::kRemote, "a rank sent a report that this build does not read: {}", error.what());
}

// Runs as one of several ranks; rank 0 prints for all. It relies only on the rendezvous, and not on the
// connections between ranks, which it checks.
int run_with_peers(const DoctorOptions& options, const std::vector<Check>& checks,
                   const topology::Machine& machine, const std::optional<doctor::NcclAgreement>& agreement) {
  auto engine = collectives::Options::from_environment();
  probe::RendezvousGroup group(engine);
  std::vector<Check> routes;
  for (const auto& pair : probe::check_connectivity(group, engine))
    routes.push_back(as_check(engine.identity.rank, pair));
  const std::vector<Check> ways = doctor::check_ways(group, engine, machine);
  Json mine{{"rank", engine.identity.rank},
            {"host", engine.router.host.name},
            {"checks", to_json(checks)},
            {"routes", to_json(routes)},
            {"ways", to_json(ways)}};
  if (agreement) mine["nccl"] = *agreement;
  std::vector<std::string> all =
      group.gather("report", mine.dump(-1, ' ', false, Json::error_handler_t::replace), engine.deadline);
  std::vector<Check> alike;
  if (engine.identity.rank == 0) {
    Json ranks = Json::array();
    for (const std::string& text : all) ranks.push_back(parse_peer_json(text, "a rank's report"));
    if (agreement) alike = compare_ranks(ranks);
    if (options.json) {
      Json report{{"ranks", ranks}};
      if (agreement) report["nccl"] = to_json(alike);
      fmt::print("{}\n", report.dump(1));
    } else {
      print(checks);
      print_ranks(ranks);
      if (agreement) fmt::print("\nall ranks\n");
      print(alike);
    }
    std::fflush(stdout);
  }
  // A launcher ends all ranks when one ends with a failure, so none may end before everything is printed.
  group.gather("printed", "", engine.deadline);
  const bool failed = any_failed(checks) || any_failed(routes) || any_failed(ways) || any_failed(alike);
  return failed ? kExitFailed : kExitOk;
}

int run_doctor(const DoctorOptions& options) {
  collectives::Identity identity = collectives::Identity::from_environment();
  doctor::Facts facts = doctor::gather_facts();
  std::vector<Check> checks = doctor::check_all(facts);
  auto add = [&](std::vector<Check> more) {
    std::move(more.begin(), more.end(), std::back_inserter(checks));
  };
  std::string cluster = !options.cluster.empty() ? options.cluster : topology::kClusterParameter.text();
  if (!cluster.empty()) add(doctor::check_cluster_file(cluster, facts, host_name_of_this_process()));
  for (const std::string& peer : options.peers) add(doctor::check_peer(peer, facts));
  std::optional<doctor::NcclAgreement> agreement;
  if (options.nccl) {
    const doctor::NcclFacts nccl = doctor::gather_nccl_facts(facts);
    add(doctor::check_nccl(nccl));
    agreement = doctor::nccl_agreement(nccl);
  }

  if (identity.size < 2) {
    if (options.json) {
      fmt::print("{}\n", Json{{"host", host_name_of_this_process()}, {"checks", to_json(checks)}}.dump(1));
    } else {
      print(checks);
    }
    return any_failed(checks) ? kExitFailed : kExitOk;
  }

  return run_with_peers(options, checks, facts.machine, agreement);
}

}  // namespace

void add_doctor(CommandLine& tombolo) {
  auto options = std::make_shared<DoctorOptions>();
  CLI::App& app = tombolo.add("doctor", "Check this machine, and the way to its peers", kDoctorHelp,
                              [options] { return run_doctor(*options); });
  app.add_flag("--json", options->json, "Print JSON instead of lines");
  app.add_flag("--nccl", options->nccl,
               "Also check whether a job with this environment would use the NCCL plugin");
  app.add_option("--cluster", options->cluster,
                 "Check this cluster file against the machine (default: TOMBOLO_CLUSTER)");
  app.add_option("--peer", options->peers, "Also check the way to this machine; may be repeated")
      ->allow_extra_args(false);
}

}  // namespace tombolo::tools
