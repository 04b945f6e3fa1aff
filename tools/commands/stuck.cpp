// tombolo stuck: who keeps a job that hangs from going on.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "tools/cli/command.h"
#include "tools/stuck/collect.h"
#include "tools/stuck/flight_record.h"
#include "tools/stuck/page.h"

namespace tombolo::tools {
namespace {

constexpr const char* kStuckHelp =
    "Tells of a job that hangs at this moment, without stopping it: what each rank does, who waits for whom "
    "in\n"
    "which collective over which link, who is likely to blame, and what to look at next. A rank says what "
    "it\n"
    "waits for once nothing has moved for TOMBOLO_STUCK_AFTER (30 s); the store that rank 0 keeps collects "
    "it, so\n"
    "one host is enough. The job fails by itself after TOMBOLO_DEADLINE (60 s): give it a longer one to have "
    "time.\n"
    "\n"
    "JOB is the number of a process on this host, a rank or what started it (tombolo run, torchrun); or "
    "HOST:PORT\n"
    "of the store (MASTER_ADDR and the port in rank 0's log), with the job's TOMBOLO_SECRET where it has "
    "one.\n"
    "Ranks must belong to the same user. Exit code 0: nobody is stuck; 1: somebody is, or could not be "
    "asked.\n"
    "\n"
    "Examples:\n"
    "  tombolo stuck 4711\n"
    "  tombolo stuck 10.0.0.1:29400 --json /tmp/stuck";

struct StuckOptions {
  std::string job, json;
  double patience = 5;
};

/// Two files for each rank that has a report: the one that people and programs read, and the one that
/// PyTorch's analyzer does.
void write_records(const stuck::JobView& view, const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) fail(Cause::kSystem, "cannot make the folder {}: {}", folder, error.message());
  for (const stuck::RankView& one : view.ranks) {
    if (!one.report) continue;
    const Json record = stuck::flight_record_of(one);
    write_json_file(fmt::format("{}/rank_{}.json", folder, one.rank), record);
    write_text_file(fmt::format("{}/stuck_{}", folder, one.rank), stuck::pickled(record));
  }
}

int run_stuck(const StuckOptions& options) {
  if (!(options.patience > 0) || options.patience > 3600)
    fail(Cause::kInvalidUsage, "--patience={}: expected seconds above 0, at most 3600", options.patience);
  const auto view = stuck::collect(stuck::find_job(options.job), from_seconds(options.patience));
  const auto findings = stuck::find(view);
  if (!options.json.empty()) write_records(view, options.json);
  fmt::print("{}", stuck::page_of(view, findings));
  std::fflush(stdout);
  const bool well = view.unreached.empty() && findings.culprits.empty() &&
                    std::ranges::none_of(view.ranks, &stuck::RankView::stuck);
  return well ? kExitOk : kExitFailed;
}

}  // namespace

void add_stuck(CommandLine& tombolo) {
  auto options = std::make_shared<StuckOptions>();
  CLI::App& app = tombolo.add("stuck", "Who keeps a job that hangs from going on", kStuckHelp,
                              [options] { return run_stuck(*options); });
  app.add_option("job", options->job, "A process of the job, or HOST:PORT of its store")->required();
  app.add_option("--json", options->json,
                 "Also write DIR/rank_N.json in the shape of PyTorch's flight recorder, and the same as "
                 "DIR/stuck_N for its analyzer: python3 -m torch.distributed.flight_recorder.fr_trace DIR")
      ->type_name("DIR");
  app.add_option("--patience", options->patience, "Seconds that asking may take")->capture_default_str();
}

}  // namespace tombolo::tools
