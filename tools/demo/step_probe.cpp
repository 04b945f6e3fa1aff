#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/units.h"
#include "tools/demo/layer_speed.h"
#include "tools/demo/steps.h"
#include "tools/reports/bandwidth_matrix.h"

namespace tombolo::tools::demo {
namespace {

// This is long enough for TCP to reach its rate. The probe itself leaves out the burst that a token bucket
// lets pass after a pause.
constexpr const char* kSecondsPerMeasurement = "0.5";

// The beginning of the lines by which `tombolo probe` tells the process that started it how many steps are
// done.
constexpr std::string_view kProgressMark = "@tombolo-probe-progress ";

}  // namespace

void probe(const Session& session, Report& report) {
  std::vector<std::string> hosts;
  for (const auto& host : session.emulation.cluster().hosts) hosts.push_back(host.name);
  RankProgram program;
  program.what = "probing the links";
  program.arguments = {
      "probe",        "--out",           session.file("probed.json"), "--seconds", kSecondsPerMeasurement,
      "--no-compute", "--relay-progress"};
  program.rank_hosts = hosts;
  program.on_line = [&](int rank, std::string_view line) {
    if (rank != 0 || !line.starts_with(kProgressMark)) return;
    std::string done(line.substr(kProgressMark.size()));
    std::replace(done.begin(), done.end(), ' ', '/');
    session.screen.progress(fmt::format("measurement {}", done));
  };
  run_ranks(session, program);
  report.cluster = topology::ClusterFile::load(session.file("probed.json"));
  session.screen.say(bandwidth_matrix(report.cluster));
  report.cluster = with_speed(std::move(report.cluster), *report.profile, demo_job().micro_batch);
}

}  // namespace tombolo::tools::demo
