// What the two ends of a UCX connection tell each other while they set it up.
#include "tests/fuzz/round_trip.h"
#include "transport/ucx/card.h"

using namespace tombolo;
using namespace tombolo::transport::ucx;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Card card;
  if (!fuzz::read_back(fuzz::bytes_of(data, size), card)) return 0;
  FUZZ_CHECK(card.address.size() <= kLongestAddress);
  FUZZ_CHECK(card.wanted.size() <= kMostLanes);
  // Without a worker's address there is nothing to give to UCX.
  FUZZ_CHECK(!card.address.empty() || card.kind == Card::Kind::kProved || card.kind == Card::Kind::kRefusal);
  return 0;
}
