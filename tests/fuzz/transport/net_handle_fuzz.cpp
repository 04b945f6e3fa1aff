// The connection handle that NCCL carries from the listening rank to the connecting one.
#include <algorithm>

#include "base/error.h"
#include "net_plugin/comms/handle.h"
#include "tests/fuzz/fuzz.h"

using namespace tombolo;
using namespace tombolo::net_plugin;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  HandleBytes bytes{};
  std::ranges::copy(fuzz::bytes_of(data, std::min(size, bytes.size())), bytes.begin());
  try {
    const Handle handle = Handle::decode(bytes);
    const HandleBytes once = handle.encode();
    FUZZ_CHECK(Handle::decode(once).encode() == once);
  } catch (const Error& error) {
    FUZZ_CHECK(error.cause() == Cause::kRemote || error.cause() == Cause::kInternal);
  }
  return 0;
}
