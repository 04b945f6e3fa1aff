// Messages of a handshake that arrive in any pieces: the reader takes what it wants, and never more.
#include <fuzzer/FuzzedDataProvider.h>
#include <sys/socket.h>

#include <algorithm>

#include "tests/fuzz/fuzz.h"
#include "transport/descriptor.h"
#include "transport/sockets/exchange.h"

using namespace tombolo;
using namespace tombolo::transport;
using namespace tombolo::transport::sockets;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzedDataProvider input(data, size);
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) return 0;
  const transport::Descriptor from(ends[0]);
  transport::Descriptor to(ends[1]);
  MessageReader reader;
  std::vector<std::uint8_t> sent;
  std::size_t taken = 0;  // by the messages before this one
  bool closed = false;
  while (input.remaining_bytes() > 0) {
    switch (input.ConsumeIntegralInRange(0, 3)) {
      case 0: {
        const auto piece = input.ConsumeBytes<std::uint8_t>(input.ConsumeIntegralInRange<std::size_t>(0, 64));
        if (closed || piece.empty()) break;
        FUZZ_CHECK(send(to.get(), piece.data(), piece.size(), MSG_NOSIGNAL) ==
                   static_cast<ssize_t>(piece.size()));
        sent.insert(sent.end(), piece.begin(), piece.end());
        break;
      }
      case 1:
        taken += reader.bytes().size();
        reader.clear();
        break;
      case 2:
        if (input.ConsumeIntegralInRange(0, 7) == 0) {
          to.reset();
          closed = true;
        }
        break;
      default: {
        const auto wanted = reader.bytes().size() + input.ConsumeIntegralInRange<std::size_t>(0, 100);
        const Step step = reader.read({from.get(), nullptr}, wanted);
        const auto got = reader.bytes();
        FUZZ_CHECK(taken + got.size() <= sent.size());
        FUZZ_CHECK(std::equal(
            got.begin(), got.end(),
            fuzz::bytes_of(sent.data(), sent.size()).begin() + static_cast<std::ptrdiff_t>(taken)));
        const bool enough = taken + wanted <= sent.size();
        FUZZ_CHECK(got.size() == (enough ? wanted : sent.size() - taken));
        FUZZ_CHECK(step == (enough ? Step::kDone : closed ? Step::kEnded : Step::kAgain));
      }
    }
  }
  return 0;
}
