#include <algorithm>
#include <memory>
#include <set>
#include <tuple>

#include "base/error.h"
#include "base/median.h"
#include "base/units.h"
#include "planner/calibrate.h"
#include "tools/demo/layer_speed.h"
#include "tools/demo/steps.h"
#include "tools/demo/train_log.h"

namespace tombolo::tools::demo {
namespace {

// Of 0.001, 0.002, 0.003, 0.005 and 0.006 this ended lowest over 200 steps (2.19, the mean of the last ten).
constexpr const char* kLearningRate = "0.001";
constexpr const char* kWarmup = "20";
constexpr int kSampleBytes = 400;
// Of measuring layers in turns with the steps, for each size of micro-batch.
constexpr double kSecondsEach = 0.4;

struct Training {
  const Run& run;
  std::string what;
  std::string name;  ///< of the files
  int steps = 0;
  std::vector<std::string> more;
};

struct Trained {
  TrainLog log;
  std::string sample;
};

Trained train(const Session& session, const std::vector<std::string>& rank_hosts, const std::string& text,
              const Report& report, const Training& training) {
  RankProgram program;
  program.what = training.what;
  program.arguments = {"train",
                       "--data",
                       text,
                       "--plan",
                       session.file(fmt::format("plan-{}.json", training.run.name)),
                       "--steps",
                       std::to_string(training.steps),
                       "--lr",
                       kLearningRate,
                       "--warmup",
                       kWarmup,
                       "--clip",
                       "1",
                       "--bucket",
                       std::to_string(planner::SimulationOptions{}.bucket_bytes),
                       "--log",
                       session.file(training.name + ".log"),
                       "--traffic",
                       session.file(training.name + ".traffic")};
  program.arguments.insert(program.arguments.end(), training.more.begin(), training.more.end());
  program.rank_hosts = rank_hosts;
  program.cluster = report.cluster;
  program.environment = {{"TOMBOLO_ROUTING", training.run.plan.routing}};
  std::string last, sample;
  bool in_sample = false;
  program.on_line = [&](int rank, std::string_view line) {
    if (rank != 0) return;
    if (in_sample) {
      sample += fmt::format("{}\n", line);
    } else if (line == "--- sample ---") {
      in_sample = true;
    } else if (line.starts_with("step ")) {
      session.screen.progress(fmt::format("{}: {}", training.run.title, line));
    }
  };
  run_ranks(session, program);
  Trained trained;
  std::string log = session.file(training.name + ".log");
  trained.log = parse_train_log(read_file(log), log);
  if (trained.log.loss.size() != static_cast<std::size_t>(training.steps)) {
    fail(Cause::kInternal, "{}: {} steps were asked for, but the log has {}", training.what, training.steps,
         trained.log.loss.size());
  }
  trained.sample = printable(sample);
  return trained;
}

void read_traffic(const std::string& path, Run& run) {
  auto root = JsonDocument::load(path).root();
  double steps = root.field("steps").positive_number();
  for (const auto& link : root.field("links").elements()) {
    LinkUse use;
    use.from_host = link.field("from_host").text();
    use.from_nic = link.field("from_nic").text();
    use.to_host = link.field("to_host").text();
    use.to_nic = link.field("to_nic").text();
    auto kind = topology::nic_kind_from_name(link.field("kind").text());
    if (!kind) link.field("kind").reject("not a kind of NIC");
    use.kind = *kind;
    use.bytes = link.field("bytes").number_at_least(0);
    use.bytes_per_step = use.bytes / steps;
    run.links.push_back(use);
  }
  std::sort(run.links.begin(), run.links.end(), [](const LinkUse& a, const LinkUse& b) {
    return std::tie(a.from_host, a.to_host, a.from_nic) < std::tie(b.from_host, b.to_host, b.from_nic);
  });
}

/// The run whose tokens per second are the most.
const Run& fastest(const Report& report) {
  return *std::max_element(report.runs.begin(), report.runs.end(), [](const Run& a, const Run& b) {
    return a.tokens_per_second < b.tokens_per_second;
  });
}

/// Trains the compared steps by the run's plan and fills in what was measured; steps of earlier rounds count
/// too.
void measure(const Session& session, const std::vector<std::string>& rank_hosts, const std::string& text,
             const Report& report, Run& run) {
  const int steps = session.options.compare_steps;
  const int traced = steps - 1;
  const std::string timeline = session.file(run.name + ".timeline");
  Training training{run,
                    fmt::format("training with '{}'", run.title),
                    run.name,
                    steps,
                    {"--timeline", timeline, "--timeline-first", std::to_string(traced), "--timeline-steps",
                     "1", "--measured", session.file(run.name + ".measured")}};
  Trained trained = train(session, rank_hosts, text, report, training);
  run.loss = trained.log.loss;
  run.step_seconds = trained.log.step_seconds;
  run.steady_seconds.insert(run.steady_seconds.end(), run.step_seconds.begin() + report.warm_up_steps,
                            run.step_seconds.end());
  run.measured_step_seconds = median(run.steady_seconds);
  run.round_seconds.push_back(
      median({run.step_seconds.begin() + report.warm_up_steps, run.step_seconds.end()}));
  run.tokens_per_second = run.plan.job.global_batch * run.plan.job.model.context / run.measured_step_seconds;
  run.links.clear();
  read_traffic(session.file(run.name + ".traffic"), run);
  run.measured = parse_timeline(read_file(timeline), timeline);
  session.screen.line("{:<24} {} per step (predicted {}), {:.0f} tokens/s, loss {:.4f} -> {:.4f}", run.title,
                      format_seconds(run.measured_step_seconds), format_seconds(run.predicted.step_seconds),
                      run.tokens_per_second, run.loss.front(), run.loss.back());
}

/// What one run says of all: how much longer its passes took than layers that were measured beside it, and
/// what sending took of the processor.
struct Correction {
  double forward = 1, backward = 1, update = 1, sending_seconds_per_byte = 0;
};

Correction correction(const Session& session, const Run& run, const topology::ClusterFile& cluster,
                      const planner::Profile& profile) {
  planner::Plan plan = run.plan;
  plan.job.profile = std::make_shared<const planner::Profile>(profile);
  const auto measured = planner::MeasuredRun::load(session.file(run.name + ".measured"));
  const planner::Calibration found = planner::calibrate(plan, cluster, measured);
  const planner::Correction& all = found.corrections.at(0);
  return {all.forward, all.backward, all.update, found.profile->sending_seconds_per_byte};
}

Correction middle_of(const std::vector<Correction>& all) {
  const auto middle = [&](double Correction::*figure) {
    std::vector<double> values;
    for (const Correction& one : all) values.push_back(one.*figure);
    return median(std::move(values));
  };
  return {middle(&Correction::forward), middle(&Correction::backward), middle(&Correction::update),
          middle(&Correction::sending_seconds_per_byte)};
}

std::shared_ptr<const planner::Profile> corrected(planner::Profile profile, const Correction& by) {
  for (auto& [device, kind, tensor, rows, times] : profile.measurements) {
    times.forward *= by.forward;
    times.backward *= by.backward;
    times.update *= by.update;
  }
  profile.sending_seconds_per_byte = by.sending_seconds_per_byte;
  return std::make_shared<const planner::Profile>(std::move(profile));
}

/// All plans in turns, so that a machine that changes its speed from one moment to the next does so to all;
/// each time the layers first. Then each is predicted anew, from the medians of their times and from what
/// Holmes' steps say of passes and of sending: no other plan's steps are looked at.
void compare_in_turns(const Session& session, const std::vector<std::string>& rank_hosts,
                      const std::string& text, Report& report) {
  constexpr int kRounds = 5;
  std::vector<Run*> all;
  for (auto* runs : {&report.runs, &report.more})
    for (Run& run : *runs) all.push_back(&run);
  std::set<int> rows;
  for (const Run* run : all) rows.insert(run->plan.job.micro_batch);
  const Run& by = report.runs.back();
  std::vector<planner::Profile> profiles;
  std::vector<Correction> corrections;
  for (int round = 0; round < kRounds; ++round)
    for (Run* run : all) {
      profiles.push_back(measure_layers(report.cluster, {rows.begin(), rows.end()}, kSecondsEach));
      measure(session, rank_hosts, text, report, *run);
      if (run == &by) corrections.push_back(correction(session, *run, report.cluster, profiles.back()));
    }
  const Correction middle = middle_of(corrections);
  const auto profile = corrected(median_of(profiles), middle);
  for (Run* run : all) {
    run->plan.job.profile = profile;
    run->predicted = planner::simulate(run->plan, report.cluster);
  }
  session.screen.line(
      "in '{}' forward passes take {:.2f} times, backward passes {:.2f} times what layers by themselves do, "
      "and sending takes {:.1f} ns per byte; the others are predicted again with that",
      by.title, middle.forward, middle.backward, middle.sending_seconds_per_byte * 1e9);
}

}  // namespace

void compare(const Session& session, const std::vector<std::string>& rank_hosts, const std::string& text,
             Report& report) {
  report.warm_up_steps = session.options.warm_up();
  if (report.more.empty())
    for (Run& run : report.runs) measure(session, rank_hosts, text, report, run);
  else
    compare_in_turns(session, rank_hosts, text, report);
  double difference = report.largest_loss_difference();
  if (difference > Report::kLossTolerance) {
    fail(Cause::kInternal,
         "the three ways must compute the same, but their losses differ by up to {:.2e} (allowed: {:.0e})",
         difference, Report::kLossTolerance);
  }
  session.screen.line("the losses of the three {}", report.loss_agreement());
}

void train_on(const Session& session, const std::vector<std::string>& rank_hosts, const std::string& text,
              const std::string& weights, Report& report) {
  const Run& best = fastest(report);
  session.screen.line("with '{}', from the same initial weights", best.title);
  double began = session.screen.elapsed_seconds();
  Training training{best,
                    fmt::format("training on with '{}'", best.title),
                    "train",
                    session.options.steps,
                    {"--save", weights, "--sample", std::to_string(kSampleBytes), "--temperature", "0.7"}};
  Trained trained = train(session, rank_hosts, text, report, training);
  report.train_seconds = session.screen.elapsed_seconds() - began;
  report.loss = trained.log.loss;
  report.sample = trained.sample;
  session.screen.line("loss {:.3f} -> {:.3f}; it writes:", report.loss.front(), report.loss.back());
  session.screen.say(report.sample);
}

}  // namespace tombolo::tools::demo
