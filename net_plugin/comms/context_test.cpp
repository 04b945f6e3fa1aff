// Contexts, the listeners that they make and the attempts to connect that they keep.
#include "net_plugin/comms/context.h"

#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "net_plugin/testing/loopback_node.h"

namespace tombolo::net_plugin {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing_support::loopback_node;

class NetContext : public testing::Test {
 protected:
  Log log() {
    return {LogLevel::kWarning, [this](LogLevel, std::string_view text) {
              const std::lock_guard guard(lock_);
              log_ += fmt::format("{}\n", text);
            }};
  }
  /// As NCCL asks: again and again with the same memory.
  std::unique_ptr<Comm> connect(Context& context, const HandleBytes& handle, ListenComm& listener,
                                std::unique_ptr<Comm>& accepted) {
    std::unique_ptr<Comm> made;
    for (const auto deadline = Deadline::after(seconds(60)); !(made && accepted) && !deadline.passed();) {
      if (!made) made = context.connect(0, handle);
      if (!accepted) accepted = listener.accept();
      std::this_thread::yield();
    }
    return made;
  }
  template <typename Action>
  static std::string error_of(Cause cause, const Action& action) {
    try {
      action();
    } catch (const Error& error) {
      EXPECT_EQ(error.cause(), cause) << error.what();
      return error.what();
    }
    return "no error";
  }
  static void expect_connected(Comm& from, Comm& to, std::byte value) {
    std::array<std::byte, 8> out{}, in{};
    out.fill(value);
    const Buffer from_buffer{out}, to_buffer{in};
    Request *send = nullptr, *receive = nullptr;
    ASSERT_EQ(to.post(Comm::Direction::kReceive, {&to_buffer, 1}, receive), abi::ncclSuccess);
    ASSERT_EQ(from.post(Comm::Direction::kSend, {&from_buffer, 1}, send), abi::ncclSuccess);
    bool sent = false, received = false;
    for (const auto deadline = Deadline::after(seconds(60)); !(sent && received);) {
      ASSERT_FALSE(deadline.passed());
      if (!sent) {
        ASSERT_EQ(from.test(*send, sent, nullptr), abi::ncclSuccess);
      }
      if (!received) {
        ASSERT_EQ(to.test(*receive, received, nullptr), abi::ncclSuccess);
      }
    }
    EXPECT_EQ(in, out);
  }

  std::mutex lock_;
  std::string log_;
  std::shared_ptr<const Node> node_ = loopback_node();
};

TEST_F(NetContext, ADeviceThatDoesNotExistIsRefusedByNumber) {
  Context context(node_, log());
  HandleBytes handle = context.listen(0)->handle();
  for (const int device : {-1, 1, 1000}) {
    const std::string text = fmt::format("device {} does not exist: there are 1", device);
    EXPECT_EQ(error_of(Cause::kInvalidUsage, [&] { context.listen(device); }), text);
    EXPECT_EQ(error_of(Cause::kInvalidUsage, [&] { context.connect(device, handle); }), text);
  }
}

TEST_F(NetContext, ATunerThatChoosesByAnotherFileIsRefusedAndBothFilesAreNamed) {
  TunerSettings mine, its;
  for (TunerSettings* one : {&mine, &its}) {
    one->mode = TunerMode::kAuto;
    one->file.emplace();
  }
  mine.file->path = "/etc/mine.json";
  mine.file->content_hash = 0x1122334455667788;
  its.file->content_hash = 0x1122334455667799;
  const auto my_node = loopback_node(), its_node = loopback_node();
  my_node->tuner = &mine;
  its_node->tuner = &its;
  Context context(my_node, log()), peer(its_node, log());
  const auto try_it = [&] {
    const auto listener = peer.listen(0);
    return error_of(Cause::kInvalidUsage, [&] { context.connect(0, listener->handle()); });
  };
  EXPECT_EQ(try_it(), "no error") << "neither has chosen";
  its.active = true;
  const std::string error = try_it();
  for (const char* part :
       {"/etc/mine.json, content 1122334455667788, which ends in 88", "content ends in 99"})
    EXPECT_NE(error.find(part), std::string::npos) << error;
  its.file->content_hash = mine.file->content_hash;
  EXPECT_EQ(try_it(), "no error") << "they are alike";
  its.mode = TunerMode::kSpanning;
  EXPECT_NE(try_it().find("TOMBOLO_TUNER=spanning"), std::string::npos);
  its_node->tuner = nullptr;
  EXPECT_EQ(try_it(), "no error") << "neither has chosen";
  mine.active = true;
  EXPECT_NE(try_it().find("the peer has no tuner"), std::string::npos);
}

TEST_F(NetContext, AHandleThatIsNoneIsRefused) {
  Context context(node_, log());
  const HandleBytes nothing{};
  EXPECT_NE(error_of(Cause::kRemote, [&] { context.connect(0, nothing); }), "no error");
}

TEST_F(NetContext, EachListenerHasASecretAndAHandleOfItsOwn) {
  Context context(node_, log());
  const auto first = context.listen(0), second = context.listen(0);
  EXPECT_NE(first->handle(), second->handle());
  EXPECT_EQ(first->handle(), first->handle());
  const auto secret_of = [](const HandleBytes& handle) {
    const Handle read = Handle::decode(handle);
    return std::vector<std::byte>(read.secret.bytes().begin(), read.secret.bytes().end());
  };
  EXPECT_NE(secret_of(first->handle()), secret_of(second->handle()));
  EXPECT_EQ(first->accept(), nullptr) << "nobody has connected";
}

TEST_F(NetContext, AConnectIsAskedForAgainWithTheSameMemoryUntilItIsThere) {
  Context context(node_, log());
  auto listener = context.listen(0);
  const HandleBytes handle = listener->handle();
  std::unique_ptr<Comm> accepted;
  auto made = connect(context, handle, *listener, accepted);
  ASSERT_TRUE(made && accepted);
  expect_connected(*made, *accepted, std::byte{1});
  // The next call with the same memory is another connection.
  std::unique_ptr<Comm> accepted_again;
  auto again = connect(context, handle, *listener, accepted_again);
  ASSERT_TRUE(again && accepted_again);
  listener.reset();  // which both outlive
  expect_connected(*again, *accepted_again, std::byte{2});
  expect_connected(*made, *accepted, std::byte{3});
}

TEST_F(NetContext, AnotherHandleInTheSameMemoryIsAnotherAttempt) {
  Context context(node_, log());
  auto abandoned = context.listen(0);
  auto wanted = context.listen(0);
  HandleBytes memory = abandoned->handle();
  EXPECT_EQ(context.connect(0, memory), nullptr);
  memory = wanted->handle();  // NCCL gave the first one up, and used the memory again
  std::unique_ptr<Comm> accepted;
  const auto made = connect(context, memory, *wanted, accepted);
  ASSERT_TRUE(made && accepted);
  expect_connected(*made, *accepted, std::byte{4});
}

TEST_F(NetContext, AnAttemptThatIsAskedForNoMoreEndsAfterItsTime) {
  FakeClock clock;
  auto node = loopback_node();
  node->router.clock = &clock;
  Context context(node, log());
  const auto listener = context.listen(0);
  const HandleBytes handle = listener->handle();
  const HandleBytes abandoned = handle, kept = handle;  // each in a memory of its own
  EXPECT_EQ(context.connect(0, abandoned), nullptr);
  clock.advance(seconds(59));
  EXPECT_EQ(context.connect(0, kept), nullptr);
  EXPECT_EQ(context.attempts(), 2u);
  clock.advance(seconds(2));
  context.drop_abandoned();
  EXPECT_EQ(context.attempts(), 1u);
  std::unique_ptr<Comm> accepted;
  EXPECT_NE(connect(context, kept, *listener, accepted), nullptr) << "the other one goes on";
}

TEST_F(NetContext, AnAttemptThatFailsIsOverAndTheNextCallBeginsAnother) {
  const auto node = loopback_node();
  node->deadline = milliseconds(300);
  Context context(node, log());
  auto listener = context.listen(0);
  const HandleBytes handle = listener->handle();
  // The listener does not accept in time.
  const auto attempt = [&] {
    return error_of(Cause::kTimeout, [&] {
      for (const auto deadline = Deadline::after(seconds(60)); !deadline.passed();)
        if (context.connect(0, handle)) return;
    });
  };
  EXPECT_NE(attempt().find("not connected within"), std::string::npos);
  EXPECT_NE(attempt().find("not connected within"), std::string::npos) << "it has its own time";
}

TEST_F(NetContext, AttemptsOfManyThreadsDoNotMeet) {
  constexpr std::size_t kThreads = 4;
  Context context(node_, log());
  auto listener = context.listen(0);
  const HandleBytes handle = listener->handle();
  std::vector<std::unique_ptr<Comm>> made(kThreads), accepted;
  std::atomic<std::size_t> connected{0};
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      const HandleBytes own = handle;  // each in a memory of its own
      for (const auto deadline = Deadline::after(seconds(60)); !made[i] && !deadline.passed();)
        made[i] = context.connect(0, own);
      ++connected;
    });
  }
  for (const auto deadline = Deadline::after(seconds(60));
       (connected < kThreads || accepted.size() < kThreads) && !deadline.passed();) {
    if (auto one = listener->accept()) accepted.push_back(std::move(one));
    std::this_thread::yield();
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(accepted.size(), kThreads);
  for (const auto& one : made) EXPECT_NE(one, nullptr);
}

TEST_F(NetContext, KeepsWhatNcclSaysAboutItsConnectionsAndShowsItOnce) {
  Context context(node_, {LogLevel::kTrace, [this](LogLevel, std::string_view text) {
                            const std::lock_guard guard(lock_);
                            log_ += fmt::format("{}\n", text);
                          }});
  const abi::ncclNetAttr_v11_t said{{4, 1, 2, 2}, {3, 3, 1, 1}, 0x3, 0x10, 0x7};
  context.set_attributes(said);
  context.set_attributes(said);
  EXPECT_EQ(context.attributes().get().sendCommAttr.maxConcurrentPeers, 4);
  EXPECT_EQ(log_, "NCCL " + describe(said) + "\n");
}

TEST_F(NetContext, ATrafficClassThatIsNoneIsRefused) {
  for (const int traffic_class : {-2, 256}) {
    EXPECT_EQ(
        error_of(Cause::kInvalidUsage, [&] { Context(node_, log(), traffic_class); }),
        fmt::format("the communicator's traffic class is {} (ncclConfig_t's trafficClass): expected 0 to "
                    "255",
                    traffic_class));
  }
  for (const int traffic_class : {std::numeric_limits<int>::min(), -1, 0, 255})
    EXPECT_NO_THROW(Context(node_, log(), traffic_class));
}

// Whoever has the port but not the handle gets nothing.
TEST_F(NetContext, AHandleWithAnotherSecretIsTurnedAwayWithWhatItMayMean) {
  Context context(node_, log());
  auto listener = context.listen(0);
  Handle forged = Handle::decode(listener->handle());
  forged.secret = transport::Secret::from_text("a guess");
  const HandleBytes handle = forged.encode();
  const std::string text = error_of(Cause::kRemote, [&] {
    for (const auto deadline = Deadline::after(seconds(60)); !deadline.passed();) {
      if (context.connect(0, handle)) return;
      EXPECT_EQ(listener->accept(), nullptr);
    }
  });
  EXPECT_NE(text.find("the handle that NCCL carried is of another run"), std::string::npos) << text;
}

}  // namespace
}  // namespace tombolo::net_plugin
