#include "transport/tcp/accepting.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include "transport/testing/test_support.h"

namespace tombolo::transport::tcp {
namespace {

bootstrap::AuthenticatedStream stream_of(std::uint16_t number, std::uint16_t streams,
                                         std::uint32_t epoch = 0) {
  bootstrap::AuthenticatedStream stream;
  stream.socket = Descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  stream.hello.stream = number;
  stream.hello.streams = streams;
  stream.hello.epoch = epoch;
  stream.peer = "10.0.0.2:4711";
  return stream;
}

TEST(StreamGroup, IsCompleteOnceEveryStreamIsThereInAnyOrder) {
  StreamGroup group(3);
  for (const std::uint16_t number : {std::uint16_t{2}, std::uint16_t{0}, std::uint16_t{1}}) {
    EXPECT_FALSE(group.complete());
    group.add(stream_of(number, 3), Log());
  }
  ASSERT_TRUE(group.complete());
  const auto streams = group.take();
  ASSERT_EQ(streams.size(), 3u);
  for (std::size_t i = 0; i < streams.size(); ++i) EXPECT_EQ(streams[i].hello.stream, i);
}

TEST(StreamGroup, DropsAStreamThatIsThereAlreadyOrOfAnotherCount) {
  test::LogBook log;
  StreamGroup group(2);
  group.add(stream_of(1, 2), Log());
  group.add(stream_of(1, 2), log.of("here"));
  group.add(stream_of(0, 3), log.of("here"));
  EXPECT_EQ(group.missing(), 1u);
  EXPECT_EQ(log.count("stream 1 of 2 is there already, in epoch 0"), 1u) << log.text();
  EXPECT_EQ(log.count("stream 0 of 3 does not fit"), 1u) << log.text();
  group.add(stream_of(0, 2), log.of("here"));
  EXPECT_TRUE(group.complete());
}

TEST(StreamGroup, TakesTheHighestEpochOfAStreamInAnyOrder) {
  StreamGroup group(2);
  for (const std::uint32_t epoch : {1U, 0U, 3U, 2U}) {
    group.add(stream_of(0, 2, epoch), Log());
    EXPECT_EQ(group.missing(), 1u);
  }
  group.add(stream_of(1, 2), Log());
  ASSERT_TRUE(group.complete());
  EXPECT_EQ(group.take()[0].hello.epoch, 3u);
}

}  // namespace
}  // namespace tombolo::transport::tcp
