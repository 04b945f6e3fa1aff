// What the two ends of a connection over shared memory tell each other while they set it up.
#include "tests/fuzz/round_trip.h"
#include "transport/shm/set_up_message.h"

using namespace tombolo;
using namespace tombolo::transport::shm;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  SetUpMessage message;
  fuzz::read_back(fuzz::bytes_of(data, size), message);
  return 0;
}
