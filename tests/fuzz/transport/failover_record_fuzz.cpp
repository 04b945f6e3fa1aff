// What each end tells the other first over every leg of a connection that survives its NICs.
#include "tests/fuzz/round_trip.h"
#include "transport/routing/failover_record.h"

using namespace tombolo;
using namespace tombolo::transport;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FailoverRecord record;
  if (!fuzz::read_back(fuzz::bytes_of(data, size), record)) return 0;
  // Whatever it says has come is passed over, and what it lacks goes again in its order. Numbers that do not
  // fit begin again at 0: the peer names none that was sent.
  if (record.prefix > UINT64_MAX - 4 * FailoverRecord::kBits) return 0;
  std::uint64_t before = 0;
  for (const std::uint64_t n :
       {std::size_t{0}, std::size_t{1}, FailoverRecord::kBits / 2, FailoverRecord::kBits}) {
    const std::uint64_t lacking = record.lacking(n);
    FUZZ_CHECK(!record.has(lacking) && lacking >= record.prefix && (n == 0 || lacking > before));
    before = lacking;
  }
  return 0;
}
