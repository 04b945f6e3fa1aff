#include "collectives/rendezvous/listener_probe.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <iterator>
#include <memory>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "collectives/rendezvous/bootstrap.h"

namespace tombolo::collectives {
namespace {

using Answer = ListenerProbe::Answer;

const transport::Secret kProbeSecret = transport::Secret::from_text("open sesame");
constexpr auto kProbePatience = std::chrono::seconds(20);

std::unique_ptr<StoreServer> standby() {
  return std::make_unique<StoreServer>("127.0.0.1", 0, kProbeSecret, Log(), StoreServer::Resolve(),
                                       StoreLimits(), StoreServer::Begin::kOnDemand);
}

std::size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

Answer awaited(ListenerProbe& probe, Answer wanted) {
  const auto deadline = Deadline::after(kProbePatience);
  Answer last = probe.look();
  while (last != wanted && !deadline.passed()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    last = probe.look();
  }
  return last;
}

TEST(ListenerProbe, SeesAListenerForAsLongAsThereIsOne) {
  auto store = standby();
  ListenerProbe probe("127.0.0.1", static_cast<std::uint16_t>(store->port()));
  EXPECT_EQ(awaited(probe, Answer::kListens), Answer::kListens);
  EXPECT_EQ(probe.look(), Answer::kListens);
  store.reset();
  EXPECT_EQ(awaited(probe, Answer::kGone), Answer::kGone);
}

TEST(ListenerProbe, KnowsNoneWhereNobodyListens) {
  const int port = standby()->port();
  ListenerProbe probe("127.0.0.1", static_cast<std::uint16_t>(port));
  EXPECT_EQ(awaited(probe, Answer::kGone), Answer::kGone);
}

// A store takes one that says nothing for a stranger after a while, and closes its connection.
TEST(ListenerProbe, DoesNotTakeAClosedConnectionForTheEndOfTheListener) {
  StoreLimits hasty;
  hasty.handshake_patience = std::chrono::milliseconds(1);
  const StoreServer store("127.0.0.1", 0, kProbeSecret, Log(), StoreServer::Resolve(), hasty);
  ListenerProbe probe("127.0.0.1", static_cast<std::uint16_t>(store.port()));
  const auto over = Deadline::after(std::chrono::milliseconds(100));
  while (!over.passed()) EXPECT_NE(probe.look(), Answer::kGone);
  EXPECT_EQ(awaited(probe, Answer::kListens), Answer::kListens);
}

TEST(ListenerProbe, RefusesWhatIsNoAddress) {
  ListenerProbe probe("no address", 1);
  EXPECT_THROW(probe.look(), Error);
}

// They take turns: a job may have more ranks than this process may have descriptors.
TEST(ListenerProbes, FindOutAboutManyByFewConnectionsAtATime) {
  constexpr std::size_t kListeners = 3 * ListenerProbes::kMost, kGone = 2 * ListenerProbes::kMost;
  const int dead = standby()->port();
  const auto store = standby();
  ListenerProbes probes;
  for (std::size_t i = 0; i < kListeners + kGone; ++i)
    probes.add({"127.0.0.1", static_cast<std::uint16_t>(i % 5 < 3 ? store->port() : dead)});
  const std::size_t before = open_descriptors();
  const auto deadline = Deadline::after(kProbePatience);
  std::size_t listen = 0, gone = 0;
  while (listen + gone < kListeners + kGone && !deadline.passed()) {
    listen = gone = 0;
    for (std::size_t i = 0; i < kListeners + kGone; ++i) {
      const Answer answer = probes.look(i);
      listen += answer == Answer::kListens ? 1 : 0;
      gone += answer == Answer::kGone ? 1 : 0;
    }
    ASSERT_LE(open_descriptors(), before + ListenerProbes::kMost);
  }
  EXPECT_EQ(listen, kListeners);
  EXPECT_EQ(gone, kGone);
}

TEST(ListenerProbes, SeeTheEndOfOneThatListenedInItsTurn) {
  auto ends = standby();
  const auto stays = standby();
  ListenerProbes probes;
  probes.add({"127.0.0.1", static_cast<std::uint16_t>(ends->port())});
  for (std::size_t i = 0; i < 2 * ListenerProbes::kMost; ++i)
    probes.add({"127.0.0.1", static_cast<std::uint16_t>(stays->port())});
  const auto look_until = [&](Answer wanted) {
    const auto deadline = Deadline::after(kProbePatience);
    for (Answer first = probes.look(0); first != wanted; first = probes.look(0)) {
      if (deadline.passed()) return false;
      for (std::size_t i = 1; i <= 2 * ListenerProbes::kMost; ++i) probes.look(i);
    }
    return true;
  };
  EXPECT_TRUE(look_until(Answer::kListens));
  ends.reset();
  EXPECT_TRUE(look_until(Answer::kGone));
}

// Each communicator that is made by itself has one.
TEST(StandbyStore, TakesOneDescriptorUntilItServes) {
  const std::size_t before = open_descriptors();
  const auto store = standby();
  EXPECT_EQ(open_descriptors(), before + 1);
  store->serve();
  const auto client =
      Store::connect("127.0.0.1", store->port(), kProbeSecret, Deadline::after(kProbePatience), Log());
  EXPECT_FALSE(client->try_get("key"));
}

TEST(StandbyStore, ServesThoseThatHaveWaitedOnceItIsAsked) {
  const auto store = standby();
  std::atomic<bool> connected{false};
  std::thread early([&] {
    const auto client = Store::connect("127.0.0.1", store->port(), kProbeSecret,
                                       Deadline::after(kProbePatience), Log(), Store::IfNobodyListens::kFail);
    connected = true;
    client->set("key", {});
  });
  EXPECT_THROW(Store::connect("127.0.0.1", store->port(), kProbeSecret,
                              Deadline::after(std::chrono::milliseconds(50)), Log()),
               Error);
  EXPECT_FALSE(connected);
  store->serve();
  store->serve();
  early.join();
  const auto client =
      Store::connect("127.0.0.1", store->port(), kProbeSecret, Deadline::after(kProbePatience), Log());
  EXPECT_TRUE(client->try_get("key").has_value());
}

}  // namespace
}  // namespace tombolo::collectives
