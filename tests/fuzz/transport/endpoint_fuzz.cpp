// The endpoint that a peer publishes. An endpoint that was read must come back the same after it is written.
#include "base/error.h"
#include "tests/fuzz/fuzz.h"
#include "transport/routing/router.h"

using namespace tombolo;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using transport::Endpoint;
  Endpoint endpoint;
  try {
    endpoint = Endpoint::decode(fuzz::bytes_of(data, size));
  } catch (const Error& error) {
    FUZZ_CHECK(error.cause() == Cause::kRemote);
    return 0;
  }
  const auto once = endpoint.encode();
  FUZZ_CHECK(Endpoint::decode(once).encode() == once);
  try {
    const auto compact = endpoint.encode_compact(96);
    FUZZ_CHECK(compact.size() <= 96);
    (void)Endpoint::decode(compact);
  } catch (const Error&) {  // not one offer fits
  }
  try {
    FUZZ_CHECK(!transport::choose(endpoint, endpoint, {}).empty());
  } catch (const Error& error) {
    FUZZ_CHECK(error.cause() == Cause::kUnsupported);
  }
  return 0;
}
