// The set-up message of a UCX connection.
#include "tests/fuzz/round_trip.h"
#include "transport/ucx/card.h"

using namespace tombolo;
using namespace tombolo::transport::ucx;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Card card;
  if (!fuzz::read_back(fuzz::bytes_of(data, size), card)) return 0;
  FUZZ_CHECK(card.address.size() <= kLongestAddress);
  FUZZ_CHECK(card.wanted.size() <= kMostLanes);
  // UCX needs the worker's address in all kinds but these two.
  FUZZ_CHECK(!card.address.empty() || card.kind == Card::Kind::kProved || card.kind == Card::Kind::kRefusal);
  return 0;
}
