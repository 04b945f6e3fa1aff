// tombolo doctor: what is wrong with this machine, and what to change.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "collectives/communicator.h"
#include "probe/gather.h"
#include "tools/command.h"
#include "tools/doctor/checks.h"

namespace tombolo::tools {
namespace {

using doctor::Check;
using doctor::Status;

constexpr const char* kHelp =
    "Checks NICs, limits, the kernel's settings and the libraries that are loaded at run time; says for each "
    "what\n"
    "was seen and what to change. Inside torchrun, srun, mpirun or tombolo run it also connects every pair "
    "of\n"
    "ranks over the real transports, and reports which way was taken and why. Exit code 1 when a check "
    "failed.\n"
    "\n"
    "Examples:\n"
    "  tombolo doctor\n"
    "  tombolo doctor --peer node17 --cluster cluster.json\n"
    "  tombolo run --emulate holmes --quiet -- tombolo doctor\n"
    "  tombolo doctor --json | jq '.checks[] | select(.status != \"ok\")'";

struct Options {
  bool json = false;
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

// Opens the connection to every other rank. Returns this rank's findings.
std::vector<Check> connect_to_peers(collectives::Communicator& communicator) {
  std::vector<Check> checks;
  for (int peer = 0; peer < communicator.size(); ++peer) {
    if (peer != communicator.rank()) communicator.connect_to(peer);
  }
  communicator.barrier();
  for (const auto& member : communicator.members()) {
    if (member.rank == communicator.rank()) continue;
    std::string name = fmt::format("rank {} to {}", communicator.rank(), member.rank);
    auto route = communicator.route_to(member.rank);
    if (!route) {
      checks.push_back(
          {name, Status::kFailed, fmt::format("no connection to {}", member.host), "see TOMBOLO_LOG=info"});
      continue;
    }
    checks.push_back(
        {name,
         Status::kOk,
         fmt::format("{} {} to {} {}{}: {}", route->transport, route->local_nic, route->peer_host,
                     route->peer_nic, route->emulated ? " (emulated)" : "", route->reason),
         {}});
  }
  return checks;
}

int run(const Options& options) {
  collectives::Identity identity = collectives::Identity::from_environment();
  doctor::Facts facts = doctor::gather_facts();
  std::vector<Check> checks = doctor::check_all(facts);
  auto add = [&](std::vector<Check> more) {
    std::move(more.begin(), more.end(), std::back_inserter(checks));
  };
  std::string cluster = !options.cluster.empty() ? options.cluster : topology::kClusterParameter.text();
  if (!cluster.empty()) add(doctor::check_cluster_file(cluster, facts, host_name_of_this_process()));
  for (const std::string& peer : options.peers) add(doctor::check_peer(peer, facts));

  if (identity.size < 2) {
    if (options.json) {
      fmt::print("{}\n", Json{{"host", host_name_of_this_process()}, {"checks", to_json(checks)}}.dump(1));
    } else {
      print(checks);
    }
    return any_failed(checks) ? kExitFailed : kExitOk;
  }

  // One of several ranks: rank 0 prints for all.
  auto communicator = collectives::Communicator::create(collectives::Options::from_environment());
  std::vector<Check> routes = connect_to_peers(*communicator);
  Json mine{{"rank", identity.rank},
            {"host", communicator->members()[static_cast<std::size_t>(identity.rank)].host},
            {"checks", to_json(checks)},
            {"routes", to_json(routes)}};
  std::vector<std::string> all = probe::gather_texts(*communicator, mine.dump());
  if (identity.rank == 0) {
    Json ranks = Json::array();
    for (const std::string& text : all) ranks.push_back(Json::parse(text));
    if (options.json) {
      fmt::print("{}\n", Json{{"ranks", ranks}}.dump(1));
    } else {
      print(checks);
      for (const Json& rank : ranks) {
        fmt::print("\nrank {} on {}\n", rank["rank"].get<int>(), rank["host"].get<std::string>());
        for (const char* list : {"checks", "routes"}) {
          for (const Json& check : rank[list]) {
            // Of the machines' checks only what rank 0's own list does not say already.
            if (list == std::string_view("checks") && (rank["rank"] == 0 || check["status"] == "ok"))
              continue;
            fmt::print("{:<8} {:<22} {}\n", check["status"].get<std::string>(),
                       check["name"].get<std::string>(), check["seen"].get<std::string>());
          }
        }
      }
    }
  }
  communicator->barrier();
  return any_failed(checks) || any_failed(routes) ? kExitFailed : kExitOk;
}

}  // namespace

void add_doctor(CommandLine& tombolo) {
  auto options = std::make_shared<Options>();
  CLI::App& app = tombolo.add("doctor", "Check this machine, and the way to its peers", kHelp,
                              [options] { return run(*options); });
  app.add_flag("--json", options->json, "Print JSON instead of lines");
  app.add_option("--cluster", options->cluster,
                 "Check this cluster file against the machine (default: TOMBOLO_CLUSTER)");
  app.add_option("--peer", options->peers, "Also check the way to this machine; may be repeated")
      ->allow_extra_args(false);
}

}  // namespace tombolo::tools
