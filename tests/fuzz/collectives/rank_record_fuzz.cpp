// What a rank publishes for the others in a store that may admit anyone.
#include "base/error.h"
#include "collectives/engine/rank_record.h"
#include "tests/fuzz/fuzz.h"

using namespace tombolo;
using collectives::RankRecord;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = fuzz::enlarged(data, size);
  std::vector<std::byte> once;
  try {
    once = RankRecord::decode(fuzz::bytes_of(bytes.data(), bytes.size()), 3).encode();
  } catch (const Error& error) {
    FUZZ_CHECK(error.cause() == Cause::kRemote);
    return 0;
  }
  FUZZ_CHECK(RankRecord::decode(once, 3).encode() == once);
  return 0;
}
