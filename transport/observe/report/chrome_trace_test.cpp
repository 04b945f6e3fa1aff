#include "transport/observe/report/chrome_trace.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "base/randomized_test.h"
#include "transport/testing/test_support.h"

namespace tombolo::transport::report {
namespace {

using std::chrono::microseconds;

TEST(ChromeTrace, PutsMessagesThatOverlapInDifferentRows) {
  Tracer tracer(1000);
  tracer.opened(1, "tcp to \"b0\"");
  std::mt19937_64 random(test_seed(3));
  const TimePoint begin = Clock::steady().now();
  for (int i = 0; i < 300; ++i) {
    const TimePoint from = begin + microseconds(random() % 5000);
    const auto kind = i % 2 == 0 ? TraceKind::kSend : TraceKind::kReceive;
    tracer.add({kind, false, 0, 1, 10, from, from + microseconds(random() % 200)});
  }
  tracer.add({TraceKind::kBreak, false, 3, 1, 0, begin, begin});
  tracer.add({TraceKind::kSendStall, false, 0, 1, 0, begin, begin + microseconds(200'000)});
  const auto json = nlohmann::json::parse(to_chrome_trace(tracer, {"a0", 77}));
  std::map<std::uint64_t, std::vector<std::pair<double, double>>> rows;
  std::map<std::string, int> seen;
  for (const auto& event : json["traceEvents"]) {
    EXPECT_EQ(event["pid"], 77);
    if (event["ph"] == "M") continue;
    ++seen[event["cat"]];
    if (event["cat"] == "message") {
      const double from = event["ts"];
      rows[event["tid"]].emplace_back(from, from + event["dur"].get<double>());
    }
  }
  EXPECT_EQ(seen["message"], 300);
  EXPECT_EQ(seen["connection"], 1);
  EXPECT_EQ(seen["stream"], 1);
  EXPECT_EQ(seen["stall"], 1);
  for (auto& [row, spans] : rows) {
    std::ranges::sort(spans);
    // A double holds microseconds of the day's time to a quarter.
    for (std::size_t i = 1; i < spans.size(); ++i) EXPECT_GE(spans[i].first, spans[i - 1].second - 0.5);
  }
}

TEST(TracedConnections, AddUpToWhatTheirMetersCount) {
  Tracer tracer(1000);
  auto meters = std::make_shared<Meters>();
  meters->set_tracer(&tracer);
  std::uint64_t sent = 0;
  {
    RouterOptions left = test::router_options("left"), right = test::router_options("right");
    left.meters = right.meters = meters;
    Router from(left), to(right);
    auto listener = to.listen();
    auto [one, other] = test::connect_pair(from, *listener);
    std::mt19937_64 random(test_seed(5));
    for (std::size_t size : {0u, 5u, 70'000u}) {
      auto data = test::random_data(random, size);
      std::vector<std::byte> got(size);
      Request* receive = other->post_receive(got);
      Request* send = one->post_send(data);
      std::size_t bytes = 0;
      ASSERT_EQ(test::finish(*other, receive, bytes, one.get()), Outcome::kDone);
      ASSERT_EQ(test::finish(*one, send, bytes, other.get()), Outcome::kDone);
      sent += size;
    }
    EXPECT_EQ(one->statistics().bytes_sent, sent);
    // What the peer leaves unanswered fails, and is seen to.
    std::vector<std::byte> never(1);
    Request* last = other->post_receive(never);
    one.reset();
    std::size_t bytes = 0;
    EXPECT_EQ(test::finish(*other, last, bytes), Outcome::kFailed);
  }
  std::uint64_t sends = 0, receives = 0, failed = 0;
  for (const TraceEvent& event : tracer.events()) {
    EXPECT_GE(event.to, event.from);
    if (event.failed) {
      ++failed;
    } else if (event.kind == TraceKind::kSend) {
      sends += event.bytes;
    } else if (event.kind == TraceKind::kReceive) {
      receives += event.bytes;
    }
  }
  EXPECT_EQ(sends, sent);
  EXPECT_EQ(receives, sent);
  EXPECT_EQ(failed, 1u);
  const auto lifetimes = tracer.lifetimes();
  ASSERT_EQ(lifetimes.size(), 2u);
  for (const auto& [id, life] : lifetimes) EXPECT_GT(life.to, life.from);
}

}  // namespace
}  // namespace tombolo::transport::report
