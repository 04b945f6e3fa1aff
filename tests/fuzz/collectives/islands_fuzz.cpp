// What rank 0 tells the others of the network, through a store that may admit anyone.
#include "base/error.h"
#include "collectives/discovery/islands.h"
#include "tests/fuzz/fuzz.h"

using namespace tombolo;
using collectives::Islands;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kHosts = 4;
  std::string once;
  try {
    const std::string text = fuzz::grown(data, size);
    const Islands islands = Islands::decode(text, kHosts, "fuzz");
    FUZZ_CHECK(islands.of_host.size() == kHosts);
    for (const int island : islands.of_host) FUZZ_CHECK(island >= 0 && island < islands.count);
    once = islands.encode();
  } catch (const Error& error) {
    FUZZ_CHECK(error.cause() == Cause::kRemote);
    return 0;
  }
  FUZZ_CHECK(Islands::decode(once, kHosts, "fuzz").encode() == once);
  return 0;
}
