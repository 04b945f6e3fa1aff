// A hostile peer that holds the secret: it sends frames with any fields, and plain bytes, on one to three
// streams, while receives of any size are posted. Nothing may be written outside the receives, and every
// request must end.
#include <fuzzer/FuzzedDataProvider.h>
#include <sys/socket.h>

#include <algorithm>
#include <deque>

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/transport/guarded_receive.h"
#include "transport/testing/raw_peer.h"

using namespace tombolo;
using namespace tombolo::transport;
using namespace tombolo::transport::tcp;

namespace {

void speak(FuzzedDataProvider& input, test::RawPeer& peer) {
  const std::size_t stream = input.ConsumeIntegralInRange<std::size_t>(0, peer.sockets.size() - 1);
  std::vector<std::byte> bytes;
  if (input.ConsumeBool()) {
    FrameHeader header;
    header.type = static_cast<FrameType>(input.ConsumeIntegralInRange<int>(1, 5));
    header.reason = static_cast<GoodbyeReason>(input.ConsumeIntegralInRange<int>(0, 5));
    header.length = input.ConsumeIntegralInRange<std::uint32_t>(0, 600);
    header.sequence = input.ConsumeIntegralInRange<std::uint64_t>(0, 8);
    header.offset = input.ConsumeIntegralInRange<std::uint64_t>(0, 600);
    header.total =
        input.ConsumeBool() ? header.offset + header.length : input.ConsumeIntegral<std::uint64_t>();
    bytes.resize(kHeaderBytes + (input.ConsumeBool() ? header.length : 0), std::byte{0x33});
    encode(header, std::span(bytes).first<kHeaderBytes>());
    // Fields that the struct has beyond these.
    if (input.ConsumeBool()) {
      bytes[input.ConsumeIntegralInRange<std::size_t>(0, kHeaderBytes - 1)] ^=
          input.ConsumeIntegral<std::uint8_t>() ? std::byte{1} : std::byte{0x80};
      // A forged header has a valid checksum; one without was damaged on the way.
      if (input.ConsumeBool()) seal(std::span(bytes).first<kHeaderBytes>());
    }
  } else {
    const auto plain = input.ConsumeBytes<std::uint8_t>(input.ConsumeIntegralInRange<std::size_t>(0, 100));
    std::ranges::transform(plain, std::back_inserter(bytes), [](auto byte) { return std::byte{byte}; });
  }
  [[maybe_unused]] const auto sent =
      send(peer.sockets[stream].get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Router router([] {
    RouterOptions options = test::router_options("right");
    options.policy.transports = {"tcp"};
    options.meters = std::make_shared<Meters>();
    options.tcp.idle_timeout = std::chrono::seconds(1);
    return options;
  }());
  FuzzedDataProvider input(data, size);
  test::RawPeer peer(router, input.ConsumeIntegralInRange<std::uint16_t>(1, 3));
  std::deque<Receive> receives;
  std::vector<std::byte> outgoing(100, std::byte{0x44});
  std::vector<Request*> sends;
  std::size_t steps = 0;
  while (input.remaining_bytes() > 0 && steps++ < 64) {
    switch (input.ConsumeIntegralInRange(0, 3)) {
      case 0: {
        Receive& one = receives.emplace_back(input.ConsumeIntegralInRange<std::size_t>(0, 700));
        one.request = peer.connection->post_receive(one.buffer());
        break;
      }
      case 1:
        if (Request* request = peer.connection->post_send(outgoing)) sends.push_back(request);
        break;
      case 2:
        peer.connection->progress();
        break;
      default:
        speak(input, peer);
    }
    std::size_t bytes = 0;
    for (Receive& one : receives) {
      if (one.request == nullptr) continue;
      const Outcome outcome = peer.connection->test(one.request, bytes);
      if (outcome == Outcome::kPending) continue;
      one.request = nullptr;
      FUZZ_CHECK(outcome == Outcome::kFailed || bytes <= one.size);
    }
    std::erase_if(
        sends, [&](Request* request) { return peer.connection->test(request, bytes) != Outcome::kPending; });
  }
  // Closing with a reset leaves no socket in TIME_WAIT.
  for (const transport::Descriptor& socket : peer.sockets) {
    const linger now{1, 0};
    setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
  }
  peer.sockets.clear();
  peer.connection.reset();
  for (const Receive& one : receives) FUZZ_CHECK(one.intact());
  return 0;
}
