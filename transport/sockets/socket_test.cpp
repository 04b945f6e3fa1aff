#include "transport/sockets/socket.h"

#include <gtest/gtest.h>
#include <linux/tcp.h>
#include <netinet/in.h>

#include <array>

#include "transport/testing/socket_pair.h"

namespace tombolo::transport::sockets {
namespace {

/// Segments without data that the receiver of so many small messages sends, when each is read as it comes.
unsigned bare_acknowledgements(int messages, bool in_pairs) {
  const auto [near, far] = test::tcp_pair();
  const int one = 1;
  EXPECT_EQ(setsockopt(near.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one), 0);
  std::array<char, 4096> buffer{};
  for (int i = 0; i < messages; ++i) {
    EXPECT_EQ(send(near.get(), buffer.data(), 64, MSG_NOSIGNAL), 64);
    EXPECT_EQ(recv(far.get(), buffer.data(), buffer.size(), 0), 64);
    if (in_pairs && i % 16 == 0) acknowledge_in_pairs(far.get());
  }
  tcp_info info{};
  socklen_t size = sizeof info;
  EXPECT_EQ(getsockopt(far.get(), IPPROTO_TCP, TCP_INFO, &info, &size), 0);
  // The reply to the connect is one more.
  return info.tcpi_segs_out;
}

TEST(Socket, SmallMessagesAreAcknowledgedInPairsWhereThatIsAskedFor) {
  constexpr int kMessages = 1000;
  const unsigned each = bare_acknowledgements(kMessages, false),
                 pairs = bare_acknowledgements(kMessages, true);
  EXPECT_LT(pairs, kMessages * 3 / 4) << "of " << each << " otherwise";
  EXPECT_LT(pairs, each * 3 / 4);
}

}  // namespace
}  // namespace tombolo::transport::sockets
