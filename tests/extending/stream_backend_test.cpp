#include "tests/extending/stream_backend.h"

#include <array>

#include "transport/testing/conformance.h"
#include "transport/testing/test_messages.h"

namespace tombolo::transport::test {
namespace {

/// A router of this build with the new line at the table's end.
RouterOptions with_stream(const std::string& host) {
  RouterOptions options = router_options(host);
  options.extra_backends = {[](const RouterOptions& given) {
    return allowed(given.policy, stream::kCarrier) ? std::make_shared<stream::StreamBackend>() : nullptr;
  }};
  return options;
}

TestedBackend stream_backend() {
  TestedBackend backend{"Stream", false, {}};
  backend.options = with_stream;
  return backend;
}

INSTANTIATE_TEST_SUITE_P(Stream, Conformance, testing::Values(stream_backend()),
                         [](const auto& tested) { return tested.param.name; });

TEST(Stream, CarriesMessagesBothWaysWhereTheRouterChoseIt) {
  const Pair pair = connect_routers(with_stream("left"), with_stream("right"));
  EXPECT_EQ(pair.first->route().transport, carrier_name(stream::kCarrier));
  EXPECT_EQ(pair.second->route().transport, carrier_name(stream::kCarrier));
  expect_in(pair.first->route().reason, "is the best that both share");
  std::mt19937_64 random(test_seed());
  for (const std::size_t size : {0, 1, 100, 70'000, 3'000'000}) {
    const auto data = random_data(random, size);
    std::vector<std::byte> buffer(size + 1);
    expect_carried(*pair.first, *pair.second, data, buffer);
    expect_carried(*pair.second, *pair.first, data, buffer);
  }
  expect_random_messages_both_ways(pair, 200, 5'000, 300'000);
}

TEST(Stream, FailsWhereThePeerCloses) {
  Pair pair = connect_routers(with_stream("left"), with_stream("right"));
  pair.first.reset();
  std::array<std::byte, 10> buffer;
  std::size_t bytes = 0;
  ASSERT_EQ(finish_asleep(*pair.second, pair.second->post_receive(buffer), bytes), Outcome::kFailed);
  expect_in(why_failed(*pair.second), "stream connection to host left");
  expect_in(why_failed(*pair.second), "the peer closed the connection");
}

TEST(Stream, IsNotChosenWhereThePeerLacksIt) {
  const Pair pair = connect_routers(with_stream("left"), router_options("right"));
  EXPECT_EQ(pair.first->route().transport, "tcp");
}

TEST(Stream, APeerThatClaimsItAndLacksItIsReachedOverTcp) {
  Router here(with_stream("left")), there(router_options("right"));
  auto listener = there.listen();
  Endpoint claimed = listener->endpoint();
  claimed.carriers |= 1U << static_cast<int>(stream::kCarrier);
  auto connecting = here.connect(claimed, {});
  std::unique_ptr<Connection> mine, theirs;
  for (auto deadline = soon(); !(mine && theirs) && !deadline.passed();) {
    if (!mine) mine = connecting->poll();
    if (!theirs) theirs = listener->accept();
  }
  ASSERT_TRUE(mine && theirs);
  EXPECT_EQ(mine->route().transport, "tcp");
  expect_in(mine->route().reason, "carrier 4 was tried first");
  expect_in(mine->route().reason, "the peer cannot use carrier 4");
}

}  // namespace
}  // namespace tombolo::transport::test
