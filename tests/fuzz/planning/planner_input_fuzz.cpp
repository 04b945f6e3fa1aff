// What people write for the planner beside cluster, plan and profile; the first byte of an input selects one:
// the library's files, a model's sizes, changes of a cluster, and a framework's log.
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "planner/explain/what_if.h"
#include "planner/model/compute_profile.h"
#include "planner/model/model_library.h"
#include "planner/simulate/training_log.h"
#include "tests/fuzz/fuzz.h"
#include "topology/files/library.h"

using namespace tombolo;

namespace {

constexpr std::string_view kDevices = R"({"tombolo_library": 1,
 "attained": {"memory": {"share": 0.85, "note": "x"}, "device_link": {"share": 0.8, "note": "x"}}, "devices": []})";
constexpr std::string_view kNics = R"({"tombolo_library": 1, "attained": {
  "infiniband": {"share": 0.9, "latency_seconds": 2e-6, "note": "x"}, "roce": {"share": 0.9, "latency_seconds": 3e-6, "note": "x"},
  "iwarp": {"share": 0.9, "latency_seconds": 7e-6, "note": "x"}, "tcp": {"share": 0.9, "latency_seconds": 3e-5, "note": "x"}},
 "nics": []})";

void read(unsigned which, std::string_view text) {
  const auto document = [&] { return JsonDocument::parse(text, "input"); };
  switch (which) {
    case 0:
      (void)planner::ComputeLibrary::parse(document());
      break;
    case 1:
      (void)planner::ModelLibrary::parse(document());
      break;
    case 2:
      (void)topology::Library::parse(document(), JsonDocument::parse(kNics, "nics"));
      break;
    case 3:
      (void)topology::Library::parse(JsonDocument::parse(kDevices, "devices"), document());
      break;
    case 4:
      (void)planner::parse_model(text);
      break;
    case 5:
      (void)planner::parse_changes(text);
      break;
    default: {
      std::istringstream log{std::string(text)};
      planner::Plan plan;
      plan.job.global_batch = 8;
      plan.job.model.context = 16;
      plan.ranks.resize(2);
      const planner::MeasuredRun run =
          planner::run_of_log(planner::read_training_log(log, "input"), plan, "input");
      FUZZ_CHECK(!run.step_seconds.empty() && run.ranks.empty());
      FUZZ_CHECK(run.median_step() > 0 && run.median_step() < 1e30 && run.flops_per_second >= 0);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  try {
    read(data[0] % 7, fuzz::grown(data + 1, size - 1));
  } catch (const Error& error) {
    FUZZ_CHECK(error.cause() == Cause::kInvalidUsage);
  }
  return 0;
}
