// The fleet file, which people write: any mistake in it must be an error, and the cluster file made of it
// must be readable.
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "tests/fuzz/fuzz.h"
#include "topology/files/fleet.h"

using namespace tombolo;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const topology::Library library = topology::Library::load();
  topology::ClusterFile file;
  try {
    file = topology::expand_fleet(JsonDocument::parse(fuzz::grown(data, size), "input"), library);
  } catch (const Error& error) {
    FUZZ_CHECK(error.cause() == Cause::kInvalidUsage);
    return 0;
  }
  FUZZ_CHECK(!file.hosts.empty());
  constexpr std::size_t kSmall = 256;  // writing a large cluster file takes too long for a fuzzer
  if (file.hosts.size() > kSmall) return 0;
  (void)topology::ClusterFile::parse(JsonDocument::parse(file.to_json().dump(), "output"));
  return 0;
}
