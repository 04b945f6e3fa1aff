// The last word on the control channel of an RDMA or UCX connection.
#include "tests/fuzz/round_trip.h"
#include "transport/goodbye.h"

using namespace tombolo;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  transport::Goodbye goodbye;
  fuzz::read_back(fuzz::bytes_of(data, size), goodbye);
  return 0;
}
