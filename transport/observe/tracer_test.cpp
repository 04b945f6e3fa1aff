#include "transport/observe/tracer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>

namespace tombolo::transport {
namespace {

TraceEvent event_of(std::uint64_t bytes) {
  TraceEvent event;
  event.bytes = bytes;
  return event;
}

TEST(Tracer, KeepsTheFirstEventsAndCountsTheRest) {
  Tracer tracer(3);
  for (std::uint64_t bytes = 1; bytes <= 5; ++bytes) tracer.add(event_of(bytes));
  const auto events = tracer.events();
  ASSERT_EQ(events.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(events[i].bytes, i + 1);
  EXPECT_EQ(tracer.dropped(), 2u);
}

TEST(Tracer, OfNoEventsCountsThemAll) {
  Tracer tracer(0);
  tracer.add(event_of(1));
  tracer.opened(1, "a connection");
  EXPECT_TRUE(tracer.events().empty());
  EXPECT_TRUE(tracer.lifetimes().empty());
  EXPECT_EQ(tracer.dropped(), 1u);
}

TEST(Tracer, KnowsWhenConnectionsCameAndWent) {
  Tracer tracer(2);
  const TimePoint before = Clock::steady().now();
  tracer.opened(7, "first");
  tracer.opened(8, "second");
  tracer.opened(9, "one too many");
  tracer.closed(7);
  tracer.closed(9);   // of which it knows nothing
  tracer.closed(10);  // nor of this
  const auto lifetimes = tracer.lifetimes();
  ASSERT_EQ(lifetimes.size(), 2u) << "the names are bounded as the events are";
  EXPECT_EQ(lifetimes.at(7).name, "first");
  EXPECT_GE(lifetimes.at(7).from, before);
  EXPECT_GE(lifetimes.at(7).to, lifetimes.at(7).from);
  EXPECT_EQ(lifetimes.at(8).to, TimePoint{}) << "it lives";
}

// A reader sees whole events or none, and each of those that fit once.
TEST(Tracer, TakesEventsFromManyThreadsWhileItIsRead) {
  constexpr std::uint64_t kThreads = 4, kEach = 3000, kCapacity = 10'000;
  Tracer tracer(kCapacity);
  std::atomic<bool> over{false}, torn{false};
  std::thread reader([&] {
    while (!over) {
      for (const TraceEvent& one : tracer.events())
        if (one.bytes == 0 || one.connection != one.bytes) torn = true;
    }
  });
  std::vector<std::thread> writers;
  for (std::uint64_t t = 0; t < kThreads; ++t) {
    writers.emplace_back([&, t] {
      for (std::uint64_t i = 1; i <= kEach; ++i) {
        TraceEvent event = event_of(t * kEach + i);
        event.connection = event.bytes;
        tracer.add(event);
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  over = true;
  reader.join();
  EXPECT_FALSE(torn);
  std::set<std::uint64_t> seen;
  for (const TraceEvent& one : tracer.events()) seen.insert(one.bytes);
  EXPECT_EQ(seen.size(), kCapacity);
  EXPECT_EQ(tracer.dropped(), kThreads * kEach - kCapacity);
}

}  // namespace
}  // namespace tombolo::transport
