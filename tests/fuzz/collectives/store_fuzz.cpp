// The messages between the store and its clients: greeting, proof and frames; the first byte of an input
// selects one.
#include "base/error.h"
#include "collectives/rendezvous/store_protocol.h"
#include "tests/fuzz/fuzz.h"

using namespace tombolo;
using namespace tombolo::collectives;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto secret = transport::Secret::from_text("a secret that the input does not know");
  if (size == 0) return 0;
  const auto bytes = fuzz::bytes_of(data + 1, size - 1);
  try {
    switch (data[0] % 4) {
      case 0: {
        const store::Frame frame = store::parse(bytes);
        const auto once = store::encode(frame.kind, frame.request, frame.key, frame.value);
        FUZZ_CHECK(store::read_length(std::span(once).first<store::kLengthBytes>()) + store::kLengthBytes ==
                   once.size());
        const store::Frame again = store::parse(std::span(once).subspan(store::kLengthBytes));
        FUZZ_CHECK(again.kind == frame.kind && again.key == frame.key &&
                   again.value.size() == frame.value.size());
        break;
      }
      case 1:
        if (bytes.size() >= store::kHelloBytes) (void)store::read_hello(bytes.first<store::kHelloBytes>());
        break;
      case 2: {
        store::Nonce client{};
        if (bytes.size() >= store::kProofBytes)
          FUZZ_CHECK(!store::check_proof(secret, {}, bytes.first<store::kProofBytes>(), client));
        break;
      }
      default:
        if (bytes.size() >= store::kVerdictBytes)
          FUZZ_CHECK(!store::check_verdict(secret, {}, {}, bytes.first<store::kVerdictBytes>()));
    }
  } catch (const Error& error) {
    FUZZ_CHECK(error.cause() == Cause::kRemote);
  }
  return 0;
}
