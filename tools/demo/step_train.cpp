#include <algorithm>
#include <memory>

#include "base/error.h"
#include "base/median.h"
#include "base/units.h"
#include "planner/simulate/calibrate.h"
#include "tools/demo/layer_speed.h"
#include "tools/demo/steps.h"
#include "tools/demo/train_log.h"

namespace tombolo::tools::demo {
namespace {

// Among 0.001, 0.002, 0.003, 0.005 and 0.006 this rate gave the lowest loss after 200 steps (2.19, the mean
// of the last ten).
constexpr const char* kLearningRate = "0.001";
constexpr const char* kWarmup = "20";
constexpr int kSampleBytes = 400;
// How long layers are measured between the steps, for each size of micro-batch.
constexpr double kSecondsEach = 0.4;

struct Training {
  const Run& run;
  std::string what;
  std::string name;  ///< prefix of the files
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
  trained.sample = only_ascii(sample);
  return trained;
}

/// Trains the steps of one round by the run's plan, and fills in the measurements of this and of earlier
/// rounds.
void measure(const Session& session, const std::vector<std::string>& rank_hosts, const std::string& text,
             const Report& report, int steps, Run& run) {
  const std::string timeline = session.file(run.name + ".timeline");
  Training training{
      run,
      fmt::format("training with '{}'", run.title),
      run.name,
      steps,
      {"--timeline", timeline, "--timeline-first", std::to_string(steps - 1), "--timeline-steps", "1"}};
  Trained trained = train(session, rank_hosts, text, report, training);
  run.loss = trained.log.loss;
  run.step_seconds = trained.log.step_seconds;
  const std::vector<double> steady(run.step_seconds.begin() + report.warm_up_steps, run.step_seconds.end());
  run.steady_seconds.insert(run.steady_seconds.end(), steady.begin(), steady.end());
  run.round_seconds.push_back(median(steady));
  run.measured_step_seconds = median(run.steady_seconds);
  run.tokens_per_second = run.plan.job.global_batch * run.plan.job.model.context / run.measured_step_seconds;
  const std::string traffic = session.file(run.name + ".traffic");
  run.links = parse_traffic(read_file(traffic), traffic);
  run.measured = parse_timeline(read_file(timeline), timeline);
}

constexpr int kWarmUpSteps = 8;

/// Trains a few steps by one plan, and corrects the layers' times by them: passes take longer next to other
/// ranks than layers do by themselves, and sending takes processor time.
std::shared_ptr<const planner::Profile> warm_up(const Session& session,
                                                const std::vector<std::string>& rank_hosts,
                                                const std::string& text, const Report& report, const Run& by,
                                                const planner::Profile& profile) {
  const std::string measured = session.file("warm-up.measured");
  train(session, rank_hosts, text, report,
        {by, fmt::format("warming up with '{}'", by.title), by.name, kWarmUpSteps, {"--measured", measured}});
  planner::Plan plan = by.plan;
  plan.job.profile = std::make_shared<const planner::Profile>(profile);
  return planner::calibrate(plan, report.cluster, planner::MeasuredRun::load(measured)).profile;
}

std::vector<Run*> all_runs(Report& report) {
  std::vector<Run*> all;
  for (auto* runs : {&report.runs, &report.more})
    for (Run& run : *runs) all.push_back(&run);
  return all;
}

/// The prediction whose step time is the median over the rounds.
planner::Simulation middle_of(std::vector<planner::Simulation> all) {
  const auto middle = all.begin() + static_cast<std::ptrdiff_t>((all.size() - 1) / 2);
  std::nth_element(all.begin(), middle, all.end(),
                   [](const planner::Simulation& a, const planner::Simulation& b) {
                     return a.step_seconds < b.step_seconds;
                   });
  return std::move(*middle);
}

}  // namespace

void compare(const Session& session, const std::vector<std::string>& rank_hosts, const std::string& text,
             Report& report) {
  double seconds = 0;
  for (const Run& run : report.runs) seconds += run.predicted.step_seconds;
  const Rounds rounds = session.options.rounds(seconds);
  report.warm_up_steps = rounds.warm_up;
  session.screen.line("{} rounds of {} steps each, of which {} do not count", rounds.rounds, rounds.steps,
                      rounds.warm_up);
  const std::vector<Run*> all = all_runs(report);
  std::vector<std::vector<planner::Simulation>> predictions(all.size());
  for (int round = 0; round < rounds.rounds; ++round) {
    const planner::Profile layers = measure_layers(micro_batches(session.options), kSecondsEach);
    const auto profile = warm_up(session, rank_hosts, text, report, report.runs.back(), layers);
    for (std::size_t i = 0; i < all.size(); ++i) {
      planner::Plan plan = all[i]->plan;
      plan.job.profile = profile;
      predictions[i].push_back(planner::simulate(plan, report.cluster));
      all[i]->predicted_rounds.push_back(predictions[i].back().step_seconds);
    }
    for (Run* run : all) measure(session, rank_hosts, text, report, rounds.steps, *run);
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    Run& run = *all[i];
    run.predicted = middle_of(std::move(predictions[i]));
    session.screen.line("{:<24} {} per step (predicted {}), {:.0f} tokens/s, loss {:.4f} -> {:.4f}",
                        run.title, format_seconds(run.measured_step_seconds),
                        format_seconds(run.predicted.step_seconds), run.tokens_per_second, run.loss.front(),
                        run.loss.back());
  }
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
  const Run& best = report.fastest();
  const int steps = session.options.long_run(best.measured_step_seconds);
  session.screen.line("{} steps with '{}', from the same initial weights", steps, best.title);
  double began = session.screen.elapsed_seconds();
  Training training{best,
                    fmt::format("training on with '{}'", best.title),
                    "train",
                    steps,
                    {"--save", weights, "--sample", std::to_string(kSampleBytes), "--temperature", "0.7"}};
  Trained trained = train(session, rank_hosts, text, report, training);
  report.train_seconds = session.screen.elapsed_seconds() - began;
  report.loss = trained.log.loss;
  report.sample = trained.sample;
  session.screen.line("loss {:.3f} -> {:.3f}; it writes:", report.loss.front(), report.loss.back());
  session.screen.say(report.sample);
}

}  // namespace tombolo::tools::demo
