// The header of each frame on an authenticated stream.
#include "tests/fuzz/fuzz.h"
#include "transport/tcp/stream/wire.h"

using namespace tombolo;
using namespace tombolo::transport::tcp;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = fuzz::bytes_of(data, size);
  if (bytes.size() < kHeaderBytes) return 0;
  const auto header = decode(bytes.first<kHeaderBytes>());
  if (!header) return 0;
  if (header->type == FrameType::kChunk) {
    FUZZ_CHECK(header->length <= kLongestChunk);
    FUZZ_CHECK(header->offset <= header->total && header->length <= header->total - header->offset);
  }
  HeaderBytes once, twice;
  encode(*header, once);
  const auto again = decode(once);
  FUZZ_CHECK(again.has_value());
  encode(*again, twice);
  FUZZ_CHECK(once == twice);
  return 0;
}
