#include "transport/shm/peer_activity.h"

#include <gtest/gtest.h>

namespace tombolo::transport::shm {
namespace {

using State = PeerWatch::State;

TimePoint at(int microseconds) {
  return TimePoint(std::chrono::seconds(9)) + std::chrono::microseconds(microseconds);
}

TEST(ShmPeerActivity, IsSharedByTheConnectionsToOneProcess) {
  const auto one = PeerActivity::of(17), again = PeerActivity::of(17), other = PeerActivity::of(18);
  EXPECT_EQ(one, again);
  EXPECT_NE(one, other);
}

TEST(ShmPeerWatch, APeerThatMakesNoRoomForLongIsAway) {
  PeerWatch watch(std::make_shared<PeerActivity>());
  EXPECT_EQ(watch.state(), State::kRuns);
  watch.full(at(0));
  watch.full(at(199));
  EXPECT_EQ(watch.state(), State::kFull);
  watch.full(at(200));
  EXPECT_EQ(watch.state(), State::kAway);
}

TEST(ShmPeerWatch, APeerThatMakesRoomSoonRuns) {
  PeerWatch watch(std::make_shared<PeerActivity>());
  watch.full(at(0));
  watch.room(at(199));
  EXPECT_EQ(watch.state(), State::kRuns);
  // An end that yields its processor finds room when it comes back, long after.
  watch.full(at(300));
  watch.progressed(at(3300));
  watch.room(at(3300));
  EXPECT_EQ(watch.state(), State::kAway);
}

TEST(ShmPeerWatch, ProgressOnAnotherConnectionShowsThatThePeerRuns) {
  const auto activity = std::make_shared<PeerActivity>();
  PeerWatch one(activity), other(activity);
  one.full(at(0));
  other.progressed(at(100));
  other.progressed(at(290));
  one.full(at(400));
  EXPECT_EQ(one.state(), State::kFull) << "it serves the other one";
  one.full(at(490));
  EXPECT_EQ(one.state(), State::kAway);
  // What is found done after a pause says nothing of now.
  other.progressed(at(5000));
  EXPECT_EQ(one.state(), State::kAway);
}

/// Progress from `begin` on, for as long as that takes until `watch` believes that the peer runs.
Duration until_believed(PeerWatch& watch, int begin) {
  for (int time = begin; time < begin + 1'000'000; time += 100) {
    watch.progressed(at(time));
    if (watch.state() == State::kRuns) return at(time) - at(begin);
  }
  return Duration::max();
}

TEST(ShmPeerWatch, APeerThatIsOftenAwayIsBelievedLaterEachTime) {
  PeerWatch watch(std::make_shared<PeerActivity>());
  Duration before{};
  int time = 1'000'000;
  for (int i = 0; i < 10; ++i) {
    watch.full(at(time));
    watch.full(at(time + 300));
    ASSERT_EQ(watch.state(), State::kAway);
    const Duration took = until_believed(watch, time + 400);
    EXPECT_GE(took, std::min((std::int64_t{1} << i) * PeerWatch::kShortest, PeerWatch::kLongest));
    EXPECT_GE(took, before);
    EXPECT_LE(took, 2 * PeerWatch::kLongest);
    before = took;
    time += 400 + static_cast<int>(took / std::chrono::microseconds(1)) + 100;
  }
  time += 1'000'000;
  watch.full(at(time));
  watch.full(at(time + 300));
  EXPECT_LT(until_believed(watch, time + 400), 2 * PeerWatch::kShortest) << "that was long ago";
}

TEST(ShmPeerWatch, AnEndThatSleepsForRoomTakesThePeerForAway) {
  PeerWatch watch(std::make_shared<PeerActivity>());
  watch.slept(at(0));
  EXPECT_EQ(watch.state(), State::kRuns) << "it did not sleep for room";
  watch.full(at(10));
  watch.slept(at(20));
  EXPECT_EQ(watch.state(), State::kAway);
}

}  // namespace
}  // namespace tombolo::transport::shm
