// What NCCL's calls do beyond what they are named for.
#include "net_plugin/entry_points.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>

#include "base/clock.h"
#include "net_plugin/comms/context.h"
#include "net_plugin/parameters.h"
#include "net_plugin/plugin.h"

namespace tombolo::net_plugin {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

void say_nothing(abi::ncclDebugLogLevel, unsigned long, const char*, int, const char*, ...) {}

/// Of NCCL up to v10, whose communicators share a context that no call ends. In a process of its own, because
/// that context stays. Ends it with 0 where `close` ends an attempt that was abandoned: NCCL stopped to ask
/// and says nothing of that.
[[noreturn]] void abandon_one_and(const std::function<void(void* listen_comm)>& close) {
  ::setenv("NCCL_SOCKET_IFNAME", "lo", 1);
  ::setenv(kNetDeadlineParameter.name.data(), "0.5", 1);
  const auto expect = [](bool holds, const char* what) {
    if (holds) return;
    std::fprintf(stderr, "not so: %s\n", what);
    std::_Exit(1);
  };
  expect(entry::init_shared(say_nothing, nullptr, 8) == abi::ncclSuccess, "init");
  Context& context = Plugin::instance().shared();
  HandleBytes handle{}, other{};
  void *listens = nullptr, *to_close = nullptr, *comm = nullptr;
  expect(entry::listen(&context, 0, handle.data(), &listens) == abi::ncclSuccess, "listen");
  expect(entry::listen(&context, 0, other.data(), &to_close) == abi::ncclSuccess, "listen again");
  expect(entry::connect(&context, 0, nullptr, handle.data(), &comm) == abi::ncclSuccess, "connect");
  expect(comm == nullptr && context.attempts() == 1, "an attempt is under way");
  const auto time = Deadline::after(milliseconds(600));
  while (!time.passed()) std::this_thread::sleep_for(milliseconds(10));
  expect(context.attempts() == 1, "it is kept until somebody calls");
  close(to_close);
  expect(context.attempts() == 0, "the call has ended it");
  std::fputs("the attempt is over", stderr);
  std::_Exit(0);
}

class EntryPoints : public testing::Test {
 protected:
  EntryPoints() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(EntryPoints, AListenerThatIsClosedEndsAttemptsThatWereAbandoned) {
  EXPECT_EXIT(abandon_one_and([](void* listen_comm) { entry::close_listen(listen_comm); }),
              testing::ExitedWithCode(0), "the attempt is over");
}

TEST_F(EntryPoints, ACommThatIsClosedEndsAttemptsThatWereAbandoned) {
  EXPECT_EXIT(abandon_one_and([](void*) { entry::close_comm(nullptr); }), testing::ExitedWithCode(0),
              "the attempt is over");
}

}  // namespace
}  // namespace tombolo::net_plugin
