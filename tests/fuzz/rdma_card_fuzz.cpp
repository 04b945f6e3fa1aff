// The set-up message of an RDMA connection.
#include "tests/fuzz/round_trip.h"
#include "transport/rdma/card.h"

using namespace tombolo;
using namespace tombolo::transport::rdma;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Card card;
  if (!fuzz::read_back(fuzz::bytes_of(data, size), card)) return 0;
  FUZZ_CHECK(card.lanes.size() <= kMostLanes);
  FUZZ_CHECK(card.queue_pairs.size() <= kMostQueuePairs);
  for (const LaneFacts& lane : card.lanes) (void)why_not_together(lane.port, card.lanes[0].port);
  return 0;
}
