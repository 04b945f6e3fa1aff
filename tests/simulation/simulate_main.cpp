// Runs seeded plans, and makes failing ones short.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <ctime>
#include <map>
#include <string>
#include <vector>

#include "base/format.h"
#include "tests/simulation/collective_run.h"
#include "tests/simulation/connection_run.h"
#include "tests/simulation/plugin_run.h"
#include "tests/simulation/shrink.h"

namespace {

using namespace tombolo;
using namespace tombolo::simulation;

/// What is simulated beneath.
enum class Under { kConnection, kPlugin, kCollectives };
constexpr const char* kUnderNames[] = {"connection", "plugin", "collectives"};

Verdict run_seed(Under under, std::uint64_t seed, const RunOptions& options = {}) {
  switch (under) {
    case Under::kConnection:
      return run_connection(draw_plan(seed), options);
    case Under::kPlugin:
      return run_plugin(draw_plugin_plan(seed), options);
    case Under::kCollectives:
      return run_collectives(draw_collective_plan(seed), options);
  }
  return {};
}

struct Totals {
  std::uint64_t plans = 0, wrong = 0, connected = 0, failed = 0, messages = 0, breaks = 0, rejoins = 0,
                replayed = 0;
};

int run_range(Under under, std::uint64_t first, std::uint64_t count, std::uint64_t most_wrong) {
  Totals totals;
  const std::clock_t begin = std::clock();  // of the processor, since machines are shared
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const Verdict verdict = run_seed(under, seed);
    ++totals.plans;
    totals.connected += verdict.connected;
    totals.failed += verdict.failed;
    totals.messages += verdict.messages;
    totals.breaks += verdict.breaks;
    totals.rejoins += verdict.rejoins;
    totals.replayed += verdict.replayed;
    if (verdict.ok()) continue;
    ++totals.wrong;
    fmt::print(
        "seed {}: {}\n  repeat: simulate --under {} --seed {} --log{}\n", seed, verdict.wrong,
        kUnderNames[static_cast<int>(under)], seed,
        under == Under::kConnection ? fmt::format("   shorten: simulate --seed {} --shrink", seed) : "");
    std::fflush(stdout);
    if (totals.wrong >= most_wrong) break;
  }
  const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  fmt::print(
      "{} plans from seed {} in {:.1f} s ({:.0f} per hour and core): {} wrong; {} connected, {} with an end "
      "that failed, {} messages",
      totals.plans, first, seconds, static_cast<double>(totals.plans) / seconds * 3600, totals.wrong,
      totals.connected, totals.failed, totals.messages);
  if (under == Under::kConnection)
    fmt::print(", {} breaks, {} rejoins, {} chunks sent again", totals.breaks, totals.rejoins,
               totals.replayed);
  fmt::print("\n");
  return totals.wrong == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t first = 1, count = 1000, most_wrong = 5;
  std::uint64_t one = 0;
  bool log = false, shorten = false;
  Under under = Under::kConnection;
  CLI::App app{"Simulates connections over a pretended network with seeded faults."};
  app.add_option("--under", under,
                 "what drives the connections: two owners that post messages, NCCL's calls of the plugin, or "
                 "communicators of several ranks")
      ->transform(
          CLI::CheckedTransformer(std::map<std::string, Under>{{kUnderNames[0], Under::kConnection},
                                                               {kUnderNames[1], Under::kPlugin},
                                                               {kUnderNames[2], Under::kCollectives}}));
  app.add_option("--first", first, "first seed")->capture_default_str();
  app.add_option("--count", count, "how many seeds")->capture_default_str();
  app.add_option("--most-wrong", most_wrong, "stop after so many plans that went wrong")
      ->capture_default_str();
  auto* seed = app.add_option("--seed", one, "run this seed alone, and print its plan");
  app.add_flag("--log", log, "with --seed: print what both ends log, with the virtual time")->needs(seed);
  app.add_flag("--shrink", shorten, "with --seed: leave out of a plan that goes wrong what it does not need")
      ->needs(seed);
  CLI11_PARSE(app, argc, argv);
  if (seed->count() == 0) return run_range(under, first, count, most_wrong);
  Verdict verdict;
  if (under == Under::kConnection) {
    Plan plan = draw_plan(one);
    if (shorten) plan = shrink(plan);
    fmt::print("{}", describe(plan));
    std::fflush(stdout);
    verdict = run_connection(plan, {log});
  } else {
    fmt::print("{}", under == Under::kPlugin ? describe(draw_plugin_plan(one))
                                             : describe(draw_collective_plan(one)));
    std::fflush(stdout);
    verdict = run_seed(under, one, {log});
  }
  fmt::print("{} turns, {:.3f} s of virtual time: {}\n", verdict.turns, verdict.seconds,
             verdict.ok() ? "all is well" : verdict.wrong);
  return verdict.ok() ? 0 : 1;
}
