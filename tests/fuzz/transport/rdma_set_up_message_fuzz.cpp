// What the two ends of an RDMA connection tell each other while they set it up.
#include "tests/fuzz/round_trip.h"
#include "transport/rdma/set_up_message.h"

using namespace tombolo;
using namespace tombolo::transport::rdma;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  SetUpMessage message;
  if (!fuzz::read_back(fuzz::bytes_of(data, size), message)) return 0;
  FUZZ_CHECK(message.nic_pairs.size() <= kMostNicPairs);
  FUZZ_CHECK(message.queue_pairs.size() <= kMostQueuePairs);
  for (const NicPairFacts& nic_pair : message.nic_pairs)
    (void)why_not_together(nic_pair.port, message.nic_pairs[0].port);
  return 0;
}
