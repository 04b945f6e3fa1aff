// A stream with TLS through somebody who alters, drops, adds, delays and cuts the bytes between the ends.
// What an end reads is a beginning of what the other wrote, whatever happened, and every call returns.
#include <fuzzer/FuzzedDataProvider.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "tests/fuzz/fuzz.h"
#include "transport/descriptor.h"
#include "transport/sockets/tls.h"
#include "transport/sockets/tls_stream.h"

using namespace tombolo;
using namespace tombolo::transport;
using namespace tombolo::transport::sockets;

namespace {

struct Link {
  transport::Descriptor end, middle;
  Link() {
    int sockets[2];
    FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sockets) == 0);
    end = transport::Descriptor(sockets[0]);
    middle = transport::Descriptor(sockets[1]);
  }
};

/// The byte at a place of what an end writes: which one is lost or doubled shows.
std::byte expected(std::size_t side, std::size_t at) {
  return static_cast<std::byte>((at * 131 + at / 251 + side * 77) & 0xff);
}

/// One end of the stream.
struct End {
  std::size_t side;
  std::unique_ptr<TlsStream> tls;
  Step handshake = Step::kAgain;
  std::size_t written = 0, read = 0;
  bool over = false;

  void move(std::size_t wanted, End& peer) {
    if (handshake == Step::kAgain) handshake = tls->handshake();
    if (handshake != Step::kDone || over) return;
    std::vector<std::byte> bytes(wanted);
    for (std::size_t i = 0; i < wanted; ++i) bytes[i] = expected(side, written + i);
    const iovec out{bytes.data(), bytes.size()};
    const ssize_t took = wanted == 0 ? 0 : tls->write({&out, 1});
    FUZZ_CHECK(took <= static_cast<ssize_t>(wanted));
    if (took > 0) written += static_cast<std::size_t>(took);
    if (took < 0 && errno != EAGAIN) over = true;
    tls->flush();
    bytes.resize(4096);
    const iovec in{bytes.data(), bytes.size()};
    const ssize_t got = tls->read({&in, 1});
    if (got == 0 || (got < 0 && errno != EAGAIN)) over = true;
    for (ssize_t i = 0; i < got; ++i) {
      FUZZ_CHECK(bytes[static_cast<std::size_t>(i)] == expected(peer.side, read));
      ++read;
    }
    FUZZ_CHECK(read <= peer.written);
  }
};

/// Carries at most `most` bytes from one end to the other, and does to them what the input says.
void carry(FuzzedDataProvider& input, const Link& from, const Link& to) {
  std::vector<std::byte> bytes(input.ConsumeIntegralInRange<std::size_t>(1, 20'000));
  const ssize_t got = recv(from.middle.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (got <= 0) return;
  bytes.resize(static_cast<std::size_t>(got));
  const auto place = [&] { return input.ConsumeIntegralInRange<std::size_t>(0, bytes.size() - 1); };
  switch (input.ConsumeIntegralInRange(0, 15)) {
    case 0:
      bytes[place()] ^= static_cast<std::byte>(input.ConsumeIntegralInRange(1, 255));
      break;
    case 1:
      bytes.erase(bytes.begin() + static_cast<std::ptrdiff_t>(place()));
      break;
    case 2:
      bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(place()),
                   std::byte{input.ConsumeIntegral<std::uint8_t>()});
      break;
    case 3: {
      const auto first = bytes;  // sent twice
      bytes.insert(bytes.end(), first.begin(), first.end());
      break;
    }
    default:
      break;
  }
  [[maybe_unused]] const auto sent =
      send(to.middle.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto tls = [] {
    TlsOptions options;
    options.use = TlsUse::kOn;
    return std::make_shared<Tls>(options, Secret::from_text("s"), "give both the same");
  }();
  FuzzedDataProvider input(data, size);
  Link links[2];
  End ends[2]{{0, tls->begin(links[0].end.get(), true)}, {1, tls->begin(links[1].end.get(), false)}};
  if (input.ConsumeBool())
    for (End& end : ends) end.tls->set_records_per_key(input.ConsumeIntegralInRange<std::uint64_t>(1, 5));
  if (input.ConsumeIntegralInRange(0, 3) == 0) {
    // Nobody but the input speaks.
    const auto bytes = input.ConsumeRemainingBytes<std::uint8_t>();
    for (const Link& link : links)
      [[maybe_unused]] const auto sent =
          send(link.middle.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    for (int i = 0; i < 3; ++i)
      for (End& end : ends) end.move(0, ends[1 - end.side]);
    for (const End& end : ends) FUZZ_CHECK(end.handshake != Step::kDone && end.read == 0);
    return 0;
  }
  for (int step = 0; input.remaining_bytes() > 0 && step < 300; ++step) {
    const auto side = input.ConsumeIntegralInRange<std::size_t>(0, 1);
    switch (input.ConsumeIntegralInRange(0, 8)) {
      case 0:
        shutdown(links[side].middle.get(), input.ConsumeBool() ? SHUT_WR : SHUT_RDWR);
        break;
      case 1:
        if (ends[side].handshake == Step::kDone) ends[side].tls->close({});
        ends[side].over = true;
        break;
      case 2:
      case 3:
      case 4:
        carry(input, links[side], links[1 - side]);
        break;
      default:
        ends[side].move(input.ConsumeIntegralInRange<std::size_t>(0, 40'000), ends[1 - side]);
    }
  }
  return 0;
}
