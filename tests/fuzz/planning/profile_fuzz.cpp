// Files of measured layer times and of measured runs, which people and other programs may write.
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "planner/model/profile.h"
#include "planner/simulate/measured_run.h"
#include "tests/fuzz/fuzz.h"

using namespace tombolo;

namespace {

/// A file that was read must be readable again after it is written.
template <typename File>
void read_and_write(const std::string& text) {
  File file;
  try {
    file = File::parse(JsonDocument::parse(text, "input"));
  } catch (const Error& error) {
    FUZZ_CHECK(error.cause() == Cause::kInvalidUsage);
    return;
  }
  (void)File::parse(JsonDocument::parse(file.to_json().dump(), "output"));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text = fuzz::grown(data, size);
  read_and_write<planner::Profile>(text);
  read_and_write<planner::MeasuredRun>(text);
  return 0;
}
