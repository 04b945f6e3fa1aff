// The plan file, which the trainer reads.
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "planner/plan/plan.h"
#include "tests/fuzz/fuzz.h"

using namespace tombolo;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  planner::Plan plan;
  try {
    plan = planner::Plan::parse(JsonDocument::parse(fuzz::grown(data, size), "input"));
  } catch (const Error& error) {
    FUZZ_CHECK(error.cause() == Cause::kInvalidUsage);
    return 0;
  }
  FUZZ_CHECK(plan.micro_batches() > 0 && plan.pipeline_size() > 0 && plan.data_size() > 0);
  (void)planner::Plan::parse(JsonDocument::parse(plan.to_json().dump(), "output"));
  return 0;
}
