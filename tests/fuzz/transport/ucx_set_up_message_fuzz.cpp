// What the two ends of a UCX connection tell each other while they set it up.
#include "tests/fuzz/round_trip.h"
#include "transport/ucx/set_up_message.h"

using namespace tombolo;
using namespace tombolo::transport::ucx;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  SetUpMessage message;
  if (!fuzz::read_back(fuzz::bytes_of(data, size), message)) return 0;
  FUZZ_CHECK(message.address.size() <= kLongestAddress);
  FUZZ_CHECK(message.wanted.size() <= kMostNicPairs);
  // Without a worker's address there is nothing to give to UCX.
  FUZZ_CHECK(!message.address.empty() || message.kind == SetUpMessage::Kind::kProved ||
             message.kind == SetUpMessage::Kind::kRefusal);
  return 0;
}
