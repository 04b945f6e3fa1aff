// The cluster file, which people write: any mistake in it must be an error.
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "tests/fuzz/fuzz.h"
#include "topology/files/cluster_file.h"

using namespace tombolo;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  topology::ClusterFile file;
  try {
    file = topology::ClusterFile::parse(JsonDocument::parse(fuzz::grown(data, size), "input"));
  } catch (const Error& error) {
    FUZZ_CHECK(error.cause() == Cause::kInvalidUsage);
    return 0;
  }
  // A file that was accepted must be accepted again after it is written.
  const std::string text = file.to_json().dump();
  (void)topology::ClusterFile::parse(JsonDocument::parse(text, "output"));
  return 0;
}
