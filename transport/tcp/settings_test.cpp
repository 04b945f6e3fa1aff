#include "transport/tcp/settings.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <fstream>

#include "base/error.h"
#include "transport/tcp/stream/wire.h"
#include "transport/testing/socket_pair.h"

namespace tombolo::transport::tcp {
namespace {

std::string refusal_of(const TcpOptions& options, const std::vector<NicLimit>& limits = {}) {
  try {
    TcpSettings settings(options, limits, Log{});
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::kInvalidUsage) << error.what();
    return error.what();
  }
  return "accepted";
}

TEST(TcpSettings, ChunksShrinkAsStreamsGrowSoThatTheOldestMessageDoesNotWaitLong) {
  const TcpSettings settings({}, {}, Log{});
  EXPECT_EQ(settings.chunk_of(1), std::size_t{1} << 20);
  EXPECT_EQ(settings.chunk_of(2), std::size_t{256} << 10);
  EXPECT_EQ(settings.chunk_of(8), std::size_t{256} << 10);
  EXPECT_EQ(settings.chunk_of(9), std::size_t{128} << 10);
  EXPECT_EQ(settings.chunk_of(64), std::size_t{32} << 10);
  for (std::size_t streams = 1; streams < static_cast<std::size_t>(kMostStreams); ++streams) {
    EXPECT_GE(settings.chunk_of(streams), settings.chunk_of(streams + 1)) << streams;
    EXPECT_LE(settings.chunk_of(streams), kLongestChunk);
  }
}

TEST(TcpSettings, AChunkThatIsGivenHoldsForAnyNumberOfStreams) {
  TcpOptions options;
  options.chunk_bytes = 777;
  const TcpSettings settings(options, {}, Log{});
  for (const std::size_t streams : {1, 2, 64}) EXPECT_EQ(settings.chunk_of(streams), 777u);
}

TEST(TcpSettings, OutOfRangeAreRefusedWithWhatIsAllowed) {
  TcpOptions options;
  options.streams = -1;
  EXPECT_NE(refusal_of(options).find("-1 streams"), std::string::npos);
  options.streams = kMostStreams + 1;
  EXPECT_NE(refusal_of(options).find(fmt::format("(0 to {} are allowed)", kMostStreams)), std::string::npos);
  options.streams = kMostStreams;
  EXPECT_EQ(refusal_of(options), "accepted");
  options.chunk_bytes = kLongestChunk;
  EXPECT_EQ(refusal_of(options), "accepted");
  options.chunk_bytes = kLongestChunk + 1;
  EXPECT_NE(refusal_of(options).find(fmt::format("(at most {})", kLongestChunk)), std::string::npos);
}

TEST(TcpSettings, LimitsAreOfTheNicThatTheyNameAndMoreThanNothing) {
  const TcpSettings settings({}, {{"eth0", 1e6}}, Log{});
  EXPECT_NE(settings.limit_of("eth0"), nullptr);
  EXPECT_EQ(settings.limit_of("eth0"), settings.limit_of("eth0")) << "all connections share it";
  EXPECT_EQ(settings.limit_of("eth1"), nullptr);
  for (const double rate : {0.0, -5.0})
    EXPECT_NE(refusal_of({}, {{"eth7", rate}}).find("limit of NIC eth7"), std::string::npos) << rate;
}

TEST(TcpSettings, ReplayHasADefault) {
  EXPECT_GT(TcpSettings({}, {}, Log{}).options.replay_bytes, 0u);
  TcpOptions options;
  options.replay_bytes = 12345;
  EXPECT_EQ(TcpSettings(options, {}, Log{}).options.replay_bytes, 12345u);
}

TEST(TcpSettings, LimitWhatWaitsUnsentOnlyWhereThereAreSeveralStreams) {
  const TcpSettings settings({}, {}, Log{});
  const auto unsent = [](int socket) {
    int bytes = 0;
    socklen_t size = sizeof bytes;
    EXPECT_EQ(getsockopt(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bytes, &size), 0);
    return bytes;
  };
  const auto buffer = [](int socket) {
    int bytes = 0;
    socklen_t size = sizeof bytes;
    EXPECT_EQ(getsockopt(socket, SOL_SOCKET, SO_SNDBUF, &bytes, &size), 0);
    return bytes;
  };
  int most = 0;
  std::ifstream("/proc/sys/net/core/wmem_max") >> most;
  auto [near, far] = test::tcp_pair();
  const int system = unsent(near.get());
  settings.limit_buffers(near.get(), 1);
  EXPECT_EQ(unsent(near.get()), system);
  EXPECT_EQ(buffer(near.get()), 2 * std::min(512 * 1024, most))
      << "both ends are on one host; the kernel doubles it";
  settings.limit_buffers(near.get(), 16);
  EXPECT_EQ(unsent(near.get()), 128 * 1024) << "a chunk of sixteen streams";
}

}  // namespace
}  // namespace tombolo::transport::tcp
