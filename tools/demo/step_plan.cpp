#include "base/units.h"
#include "planner/planner.h"
#include "tools/cli/table.h"
#include "tools/demo/steps.h"

namespace tombolo::tools::demo {
namespace {

std::string stage_text(const planner::Plan& plan, int stage) {
  std::string hosts;
  for (const auto& place : plan.ranks) {
    if (place.stage == stage) hosts += (hosts.empty() ? "" : "+") + place.host;
  }
  return fmt::format("{} ({} layers)", hosts, plan.stage(stage).layers);
}

}  // namespace

void plan(const Session& session, const std::vector<std::string>& rank_hosts, Report& report) {
  struct Way {
    const char *name, *title, *strategy, *routing;
  };
  constexpr Way kWays[] = {{"one-communicator", "One communicator today", "megatron", "shared"},
                           {"per-peer", "Same order, per peer", "megatron", "per-peer"},
                           {"holmes", "Holmes plan, per peer", "holmes", "per-peer"}};
  Table table({"RUN", "PLAN", "ROUTING", "STAGE 0", "STAGE 1", "PREDICTED STEP", "TOKENS/S"});
  for (const Way& way : kWays) {
    planner::PlanOptions options;
    options.strategy = way.strategy;
    options.routing = way.routing;
    options.rank_hosts = rank_hosts;
    Run run;
    run.name = way.name;
    run.title = way.title;
    planner::Job job = demo_job();
    job.profile = report.profile;
    run.plan = planner::make_plan(report.cluster, job, options);
    run.predicted = planner::simulate(run.plan, report.cluster);
    run.plan.save(session.file(fmt::format("plan-{}.json", way.name)));
    table.add({run.title, run.plan.strategy, run.plan.routing, stage_text(run.plan, 0),
               stage_text(run.plan, 1), format_seconds(run.predicted.step_seconds),
               fmt::format("{:.0f}", run.plan.prediction.tokens_per_second)});
    report.runs.push_back(std::move(run));
    session.interrupts.check();
  }
  session.screen.say(table.text(0));
}

void plan_more(const Session& session, const std::vector<std::string>& rank_hosts, Report& report) {
  struct Other {
    const char *name, *title, *strategy;
    int pipeline, data, micro_batch;
    const char* routing = "per-peer";
  };
  // The predicted step times differ by at least a twentieth from each other and from the three runs. Steps of
  // equal plans may differ by about that much, because the speed of a virtual machine changes from one moment
  // to the next.
  constexpr Other kOthers[] = {
      {"holmes-4-stages", "Holmes, 4 stages", "holmes", 4, 1, 4},
      {"4-replicas", "4 replicas", "megatron", 1, 4, 2},
      {"holmes-4-stages-of-8", "Holmes, 4 stages, by 8 rows", "holmes", 4, 1, 8},
      {"holmes-4-stages-of-16", "Holmes, 4 stages, 16 at once", "holmes", 4, 1, 16},
      {"4-replicas-shared", "4 replicas, one communicator", "megatron", 1, 4, 2, "shared"}};
  for (const Other& other : kOthers) {
    planner::Job job = demo_job();
    job.pipeline = other.pipeline;
    job.data = other.data;
    job.micro_batch = other.micro_batch;
    job.profile = report.profile;
    planner::PlanOptions options;
    options.strategy = other.strategy;
    options.routing = other.routing;
    options.rank_hosts = rank_hosts;
    Run run;
    run.name = other.name;
    run.title = other.title;
    run.plan = planner::make_plan(report.cluster, job, options);
    run.predicted = planner::simulate(run.plan, report.cluster);
    run.plan.save(session.file(fmt::format("plan-{}.json", other.name)));
    session.screen.line("{:<28} predicted {}", run.title, format_seconds(run.predicted.step_seconds));
    report.more.push_back(std::move(run));
    session.interrupts.check();
  }
}

}  // namespace tombolo::tools::demo
