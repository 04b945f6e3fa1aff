#include "bench/planner_eval/measured_grid.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "planner/plan/layer_split.h"
#include "planner/plan/placement.h"
#include "planner/search/search.h"
#include "topology/files/fleet.h"

namespace tombolo::bench {

using namespace planner;

std::vector<std::map<std::string, std::string>> read_table(const std::string& path) {
  std::ifstream file(path);
  if (!file) fail(Cause::kSystem, "cannot read {}", path);
  const auto values_of = [](const std::string& line) {
    std::vector<std::string> values;
    std::string value;
    for (std::istringstream rest(line); std::getline(rest, value, ',');) values.push_back(value);
    if (!line.empty() && line.back() == ',') values.emplace_back();
    return values;
  };
  std::vector<std::map<std::string, std::string>> rows;
  std::vector<std::string> names;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty()) continue;
    if (names.empty()) {
      const auto begin = line.find_first_not_of("# ");
      names = values_of(begin == std::string::npos ? line : line.substr(begin));
      continue;
    }
    const std::vector<std::string> values = values_of(line);
    if (values.size() != names.size())
      fail(Cause::kInvalidUsage, "{}:{}: {} values, but there are {} columns", path, number, values.size(),
           names.size());
    auto& row = rows.emplace_back();
    for (std::size_t i = 0; i < names.size(); ++i) row[names[i]] = values[i];
  }
  return rows;
}

topology::ClusterFile library_cluster(int hosts, std::string_view device, int gpus, const HostNics& nics) {
  const std::string fleet =
      fmt::format(R"({{"tombolo_fleet": 1, "clusters": [{{"name": "A", "hosts": {}, )"
                  R"("devices": {{"name": "{}", "count": {}}}, "nics": {{"name": "{}", "count": {}}}}}]}})",
                  hosts, device, gpus, nics.name, nics.count);
  const topology::Library library = topology::Library::load();
  topology::ClusterFile cluster = topology::expand_fleet(JsonDocument::parse(fleet, "fleet"), library);
  if (nics.bytes_per_second > 0)
    for (auto& fabric : cluster.fabrics) fabric.bytes_per_second = nics.bytes_per_second;
  return cluster;
}

std::shared_ptr<const ComputeProfiles> library_constants(std::string_view software) {
  auto found = ComputeLibrary::load().of(software);
  if (!found) fail(Cause::kInvalidUsage, "library/compute.json has no record of {}", software);
  return found;
}

Plan grid_plan_of(const Job& job, const std::vector<int>& layers, const ClusterView& view) {
  Plan plan;
  plan.strategy = "as measured";
  plan.routing = "per-peer";
  plan.job = job;
  std::vector<Stage> stages = to_stages(layers);
  for (Stage& stage : stages) stage.tensor = job.tensor;
  plan.pipelines = equal_pipelines(job, stages);
  plan.ranks =
      place_in_launcher_order(view, launcher_slots(view, {}), {job.pipeline, job.data, job.tensor}).ranks;
  return plan;
}

double step_seconds(const Job& job, const std::vector<int>& layers, const topology::ClusterFile& cluster) {
  const ClusterView view(cluster, "per-peer", {});
  return simulate(grid_plan_of(job, layers, view), view, {.spans = false}).step_seconds;
}

GridRun predicted_run(const Job& job, const std::vector<int>& layers, const topology::ClusterFile& cluster,
                      double measured) {
  const ClusterView view(cluster, "per-peer", {});
  const Plan plan = grid_plan_of(job, layers, view);
  GridRun run;
  run.measured = measured;
  run.predicted = simulate(plan, view, {.spans = false}).step_seconds;
  run.refused = missing_memory(plan, view).bytes > 0;
  return run;
}

std::string beside_measured(const GridRun& run) {
  return fmt::format(": {:.2f} s, predicted {:.2f} s ({:+.1f} %){}", run.measured, run.predicted,
                     100 * (run.predicted / run.measured - 1), run.refused ? ", and not to fit" : "");
}

GridError error_of(const std::vector<GridRun>& runs, bool fitted) {
  std::vector<double> errors;
  GridError error;
  for (const GridRun& run : runs)
    if (run.fitted == fitted) {
      errors.push_back(std::abs(run.predicted / run.measured - 1));
      error.mean += errors.back();
    }
  error.rows = static_cast<int>(errors.size());
  if (errors.empty()) return error;
  error.mean /= error.rows;
  std::ranges::sort(errors);
  error.median = (errors[errors.size() / 2] + errors[(errors.size() - 1) / 2]) / 2;
  return error;
}

GridError error_within_groups(const std::vector<GridRun>& runs) {
  std::map<std::string, std::vector<const GridRun*>> groups;
  for (const GridRun& run : runs) groups[run.group].push_back(&run);
  std::vector<GridRun> shifted;
  for (const auto& [name, group] : groups) {
    if (group.size() < 2) continue;
    // The sum of errors is linear between the shifts that make one of the predictions right.
    std::vector<GridRun> best;
    double least = 0;
    for (const GridRun* right : group) {
      std::vector<GridRun> moved;
      double sum = 0;
      for (const GridRun* run : group) {
        GridRun& one = moved.emplace_back(*run);
        one.predicted += right->measured - right->predicted;
        one.fitted = false;
        sum += std::abs(one.predicted / run->measured - 1);
      }
      if (best.empty() || sum < least) {
        least = sum;
        best = std::move(moved);
      }
    }
    shifted.insert(shifted.end(), best.begin(), best.end());
  }
  return error_of(shifted, false);
}

std::vector<double> regrets(const std::vector<GridRun>& runs) {
  std::map<std::string, std::vector<const GridRun*>> groups;
  for (const GridRun& run : runs) groups[run.group].push_back(&run);
  std::vector<double> all;
  for (const auto& [name, group] : groups) {
    if (group.size() < 3) continue;
    const auto chosen = std::ranges::min_element(
        group, {}, [](const GridRun* run) { return std::pair(run->refused, run->predicted); });
    if ((*chosen)->refused) continue;
    const auto best = std::ranges::min_element(group, {}, [](const GridRun* run) { return run->measured; });
    all.push_back((*chosen)->measured / (*best)->measured - 1);
  }
  std::ranges::sort(all);
  return all;
}

std::string describe(const GridError& error) {
  return fmt::format("{:.1f} % (median {:.1f} %) of {} rows", 100 * error.mean, 100 * error.median,
                     error.rows);
}

}  // namespace tombolo::bench
