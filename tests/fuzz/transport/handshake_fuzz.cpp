// The messages that authenticate a stream, and the server name with which TLS begins; the first byte of an
// input selects one.
#include "base/error.h"
#include "tests/fuzz/fuzz.h"
#include "transport/bootstrap/destination.h"
#include "transport/bootstrap/handshake.h"

using namespace tombolo;
using namespace tombolo::transport::bootstrap;

namespace {

template <typename Message>
void read(std::span<const std::byte> bytes) {
  Message message;
  try {
    message = Message::decode(bytes);
  } catch (const Error& error) {
    FUZZ_CHECK(error.cause() == Cause::kRemote);
    return;
  }
  const auto once = message.encode();
  FUZZ_CHECK(once.size() == Message::kBytes);
  FUZZ_CHECK(Message::decode(once).encode() == once);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto bytes = fuzz::bytes_of(data + 1, size - 1);
  switch (data[0] % 6) {
    case 0:
      read<Hello>(bytes);
      break;
    case 1:
      read<Reply>(bytes);
      break;
    case 2:
      read<Proof>(bytes);
      break;
    case 3:
      read<Challenge>(bytes);
      break;
    case 4:
      if (bytes.size() >= Preamble::kBytes) (void)Preamble::decode(bytes.first<Preamble::kBytes>());
      break;
    default: {
      const std::string_view name = fuzz::text_of(data + 1, size - 1);
      if (const auto to = Destination::parse(name)) FUZZ_CHECK(to->server_name() == name);
    }
  }
  return 0;
}
