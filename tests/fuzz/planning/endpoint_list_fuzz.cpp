// The endpoints of a rank's NICs, as the ranks of a probe tell each other.
#include "base/error.h"
#include "probe/measure/endpoint_list.h"
#include "tests/fuzz/fuzz.h"

using namespace tombolo;
using namespace tombolo::probe;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text = fuzz::grown(data, size);
  EndpointList list;
  try {
    list = decode_endpoints(text);
  } catch (const Error& error) {
    FUZZ_CHECK(error.cause() == Cause::kRemote);
    return 0;
  }
  const std::string once = encode_endpoints(list);
  FUZZ_CHECK(encode_endpoints(decode_endpoints(once)) == once);
  FUZZ_CHECK(decode_endpoints(once).size() == list.size());
  return 0;
}
