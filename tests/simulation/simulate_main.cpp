// Runs seeded plans, and makes failing ones short.
#include <malloc.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "tests/simulation/schedules.h"
#include "tests/simulation/shrink.h"

namespace {

using namespace tombolo;
using namespace tombolo::simulation;

std::string read_whole(const std::string& file) {
  std::ifstream from(file);
  std::istream& in = file == "-" ? std::cin : from;
  if (file != "-" && !from) fail(Cause::kInvalidUsage, "{} cannot be read", file);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write_line(const std::string& file, const std::string& text) {
  std::ofstream out(file);
  out << text << '\n';
  out.close();
  if (!out) fail(Cause::kSystem, "{} cannot be written", file);
}

int run_range(const Schedules& schedules, const std::string& json) {
  const Totals totals = run_schedules(schedules);
  fmt::print("{}", totals.describe(schedules));
  if (!json.empty()) write_line(json, totals.encode(schedules));
  return totals.wrong == 0 ? 0 : 1;
}

int end_of(const Verdict& verdict) {
  fmt::print("{} turns, {:.3f} s of virtual time: {}\n", verdict.turns, verdict.seconds,
             verdict.ok() ? "all is well" : verdict.wrong);
  return verdict.ok() ? 0 : 1;
}

int run_one(const Schedules& of, AnyPlan plan, const RunOptions& options, bool shorten) {
  if (shorten) {
    const Shrunk shrunk = shrink(plan, options);
    plan = shrunk.plan;
    fmt::print("{}\n", how_to_repeat(of, plan));
    if (!shrunk.complete)
      fmt::print(
          "This plan may become shorter still: its attempts took {} turns. Give it to --plan --shrink.\n",
          kMostTurnsToShrink);
  }
  fmt::print("{}", describe(plan));
  std::fflush(stdout);
  return end_of(run_plan(plan, options));
}

/// A schedule takes some hundred KiB, which glibc would give back to the kernel at its end, or map for each
/// large message, and have zeroed for the next.
void keep_memory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
#endif
}

}  // namespace

int main(int argc, char** argv) {
  keep_memory();
  Schedules schedules;
  std::uint64_t one = 0;
  std::string file, json, defect;
  RunOptions options;
  bool shorten = false;
  std::vector<std::string> defects;
  for (const Defect each : kDefects) defects.emplace_back(name_of(each));
  CLI::App app{"Simulates connections over a pretended network with seeded faults."};
  const auto named = [](Under under) { return std::pair<const std::string, Under>(name_of(under), under); };
  app.add_option("--under", schedules.under,
                 "what uses the connections: two owners that post messages, NCCL's calls of the plugin, or "
                 "communicators of several ranks")
      ->transform(CLI::CheckedTransformer(std::map<std::string, Under>{
          named(Under::kConnection), named(Under::kPlugin), named(Under::kCollectives)}));
  app.add_option("--over", schedules.over, "what carries the messages: tcp (default) or shm")
      ->transform(CLI::CheckedTransformer(
          std::map<std::string, Over>{{name_of(Over::kTcp), Over::kTcp}, {name_of(Over::kShm), Over::kShm}}));
  app.add_option("--first", schedules.first, "first seed")->capture_default_str();
  app.add_option("--count", schedules.count, "how many seeds")->capture_default_str();
  app.add_option("--jobs", schedules.jobs, "so many processes share the seeds")
      ->check(CLI::Range(1U, 1024U))
      ->capture_default_str();
  app.add_option("--seconds", schedules.seconds,
                 "a process begins no other seed after so much processor time; 0 = no limit")
      ->capture_default_str();
  app.add_option("--most-wrong", schedules.most_wrong, "a process stops after so many plans that went wrong")
      ->capture_default_str();
  app.add_flag("--each", schedules.each,
               "print a line for each seed, too, with a checksum of who ran when: a change that leaves all "
               "schedules as they were leaves these lines");
  app.add_option("--json", json, "write what was found to this file, too");
  auto* seed = app.add_option("--seed", one, "run this seed alone, and print its plan");
  auto* plan =
      app.add_option("--plan", file,
                     "run the plan in this file (- is standard input), as --shrink prints it; with the "
                     "same --under")
          ->excludes(seed);
  app.add_option("--defect", defect, "run with a defect on purpose, to see that it is found")
      ->check(CLI::IsMember(defects));
  app.add_flag("--log", options.log, "of one plan: print what both ends log, with the virtual time");
  app.add_flag("--shrink", shorten, "of one plan that goes wrong: leave out what it does not need");
  CLI11_PARSE(app, argc, argv);
  for (const Defect each : kDefects)
    if (name_of(each) == defect) options.defect = schedules.defect = each;
  try {
    const auto run = [&](AnyPlan one_plan) {
      return run_one(schedules, std::move(one_plan), options, shorten);
    };
    if (*plan) return run(decode_plan(schedules.under, read_whole(file), file));
    if (*seed) return run(draw_plan(schedules.under, one, schedules.over));
    if (options.log || shorten)
      fail(Cause::kInvalidUsage, "--log and --shrink want one plan: give --seed or --plan");
    return run_range(schedules, json);
  } catch (const Error& error) {
    fmt::print(stderr, "simulate: {}\n", error.what());
    return 2;
  }
}
