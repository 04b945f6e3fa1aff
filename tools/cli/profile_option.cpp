#include "tools/cli/profile_option.h"

#include <algorithm>

#include "base/error.h"
#include "planner/explain/what_if.h"
#include "planner/model/profiled_cluster.h"
#include "planner/simulate/simulator.h"

namespace tombolo::tools {

std::shared_ptr<const planner::Profile> load_profile(const std::string& path, const planner::Model& model,
                                                     const std::vector<std::string>& hosts,
                                                     topology::ClusterFile& cluster) {
  auto profile = std::make_shared<const planner::Profile>(planner::Profile::load(path));
  try {
    cluster = planner::profiled_cluster(*profile, model, std::move(cluster), hosts);
  } catch (const Error& error) {
    fail(error.cause(), "{}: {}", path, error.what());
  }
  return profile;
}

void note_profile(const std::string& path, const topology::ClusterFile& cluster, planner::Plan& plan) {
  const auto add = [&](std::string note) {
    // A running plan that is kept may have the note already.
    if (!note.empty() && std::ranges::find(plan.notes, note) == plan.notes.end())
      plan.notes.push_back(std::move(note));
  };
  add(fmt::format("times of layers as measured ({}), not by FLOPs", path));
  for (const auto& pipeline : plan.pipelines) {
    add(planner::extrapolation_note(*plan.job.profile, cluster, planner::hosts_of(plan),
                                    pipeline.micro_batch));
  }
}

void refuse_speeds(const std::vector<std::string>& what_if) {
  for (const std::string& text : what_if)
    for (const auto& change : planner::parse_changes(text))
      if (change.kind == planner::Change::Kind::kSpeed)
        fail(Cause::kInvalidUsage,
             "--what-if \"{}\" changes a speed in the cluster file, but with --profile the times of {} are "
             "those measured; leave out --profile, or give the profile times of that device",
             text, change.name);
}

}  // namespace tombolo::tools
