// Runs seeded plans, and makes failing ones short.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <ctime>
#include <string>
#include <vector>

#include "base/format.h"
#include "tests/simulation/connection_run.h"
#include "tests/simulation/shrink.h"

namespace {

using namespace tombolo;
using namespace tombolo::simulation;

struct Totals {
  std::uint64_t plans = 0, wrong = 0, connected = 0, failed = 0, messages = 0, breaks = 0, rejoins = 0,
                replayed = 0;
};

int run_range(std::uint64_t first, std::uint64_t count, std::uint64_t most_wrong) {
  Totals totals;
  const std::clock_t begin = std::clock();  // of the processor, since machines are shared
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const Plan plan = draw_plan(seed);
    const Verdict verdict = run_connection(plan);
    ++totals.plans;
    totals.connected += verdict.connected;
    totals.failed += verdict.failed;
    totals.messages += verdict.messages;
    totals.breaks += verdict.breaks;
    totals.rejoins += verdict.rejoins;
    totals.replayed += verdict.replayed;
    if (verdict.ok()) continue;
    ++totals.wrong;
    fmt::print("seed {}: {}\n  repeat: simulate --seed {} --log   shorten: simulate --seed {} --shrink\n",
               seed, verdict.wrong, seed, seed);
    std::fflush(stdout);
    if (totals.wrong >= most_wrong) break;
  }
  const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  fmt::print(
      "{} plans from seed {} in {:.1f} s ({:.0f} per hour and core): {} wrong; {} connected, {} with an end "
      "that failed, {} "
      "messages, {} breaks, {} rejoins, {} chunks sent again\n",
      totals.plans, first, seconds, static_cast<double>(totals.plans) / seconds * 3600, totals.wrong,
      totals.connected, totals.failed, totals.messages, totals.breaks, totals.rejoins, totals.replayed);
  return totals.wrong == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t first = 1, count = 1000, most_wrong = 5;
  std::uint64_t one = 0;
  bool log = false, shorten = false;
  CLI::App app{"Simulates connections over a pretended network with seeded faults."};
  app.add_option("--first", first, "first seed")->capture_default_str();
  app.add_option("--count", count, "how many seeds")->capture_default_str();
  app.add_option("--most-wrong", most_wrong, "stop after so many plans that went wrong")
      ->capture_default_str();
  auto* seed = app.add_option("--seed", one, "run this seed alone, and print its plan");
  app.add_flag("--log", log, "with --seed: print what both ends log, with the virtual time")->needs(seed);
  app.add_flag("--shrink", shorten, "with --seed: leave out of a plan that goes wrong what it does not need")
      ->needs(seed);
  CLI11_PARSE(app, argc, argv);
  if (seed->count() == 0) return run_range(first, count, most_wrong);
  Plan plan = draw_plan(one);
  if (shorten) plan = shrink(plan);
  fmt::print("{}", describe(plan));
  std::fflush(stdout);
  const Verdict verdict = run_connection(plan, {log});
  fmt::print("{} turns, {:.3f} s of virtual time: {}\n", verdict.turns, verdict.seconds,
             verdict.ok() ? "all is well" : verdict.wrong);
  return verdict.ok() ? 0 : 1;
}
