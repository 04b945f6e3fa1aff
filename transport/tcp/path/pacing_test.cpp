#include "transport/tcp/path/pacing.h"

#include <dirent.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdlib>

#include "transport/sockets/socket.h"
#include "transport/testing/test_support.h"

namespace tombolo::transport::tcp {
namespace {

/// Of this process's connected TCP sockets, as many as have this rate.
std::size_t sockets_with_pace(std::uint64_t wanted) {
  std::size_t found = 0;
  DIR* directory = opendir("/proc/self/fd");
  while (const dirent* entry = readdir(directory)) {
    const int fd = std::atoi(entry->d_name);
    std::uint64_t pace = 0;
    socklen_t size = sizeof pace;
    if (fd > 2 && getsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &pace, &size) == 0 && pace == wanted &&
        sockets::peer_text(fd) != "?") {
      ++found;
    }
  }
  closedir(directory);
  return found;
}

TEST(Pacing, IsSharedByTheStreamsOfANic) {
  auto nic = std::make_shared<NicPacing>(1000);
  PacedStream first(nic);
  EXPECT_EQ(first.bytes_per_second(), 1000U);
  {
    PacedStream second(nic);
    EXPECT_EQ(first.bytes_per_second(), 500U);
  }
  EXPECT_EQ(first.bytes_per_second(), 1000U);
}

TEST(Pacing, OfANicIsSetOnEachOfItsStreams) {
  TcpOptions tcp;
  tcp.streams = 4;
  RouterOptions paced = test::router_options("left", tcp);
  paced.tcp.pacing = {{"eth0", 80e6}};
  Router left(paced), right(test::router_options("right", tcp));
  auto listener = right.listen();
  auto [near, far] = test::connect_pair(left, *listener);
  for (auto deadline = test::soon(); sockets_with_pace(20'000'000) < 4;) {
    ASSERT_FALSE(deadline.passed()) << sockets_with_pace(20'000'000);
    near->progress();
    far->progress();
  }
}

TEST(Pacing, ComesFromTheEnvironment) {
  setenv("TOMBOLO_TCP_PACING", "eth0=10G,eth1=800M", 1);
  setenv("TOMBOLO_TCP_CONGESTION", "long=bbr", 1);
  const TcpOptions options = TcpOptions::from_environment();
  setenv("TOMBOLO_TCP_PACING", "eth0", 1);
  EXPECT_THROW(TcpOptions::from_environment(), Error);
  unsetenv("TOMBOLO_TCP_PACING");
  setenv("TOMBOLO_TCP_CONGESTION", "long=", 1);
  EXPECT_THROW(TcpOptions::from_environment(), Error);
  unsetenv("TOMBOLO_TCP_CONGESTION");
  ASSERT_EQ(options.pacing.size(), 2U);
  EXPECT_EQ(options.pacing[1].nic, "eth1");
  EXPECT_DOUBLE_EQ(options.pacing[1].bytes_per_second, 1e8);
  EXPECT_EQ(options.congestion, "long=bbr");
}

}  // namespace
}  // namespace tombolo::transport::tcp
