// Many routers of one process.
#include "transport/bootstrap/process_helpers.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "transport/testing/certificates.h"
#include "transport/testing/forwarding_kernel.h"
#include "transport/testing/test_messages.h"
#include "transport/testing/test_support.h"

namespace tombolo::transport::bootstrap {
namespace {

std::size_t background_threads() {
  std::size_t count = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    count += name == "tombolo-bg";
  }
  return count;
}

void expect_talk(test::Pair& pair) {
  ASSERT_TRUE(pair.first && pair.second);
  std::vector<std::byte> out(100'000, std::byte{7}), in(out.size());
  Request* receive = pair.second->post_receive(in);
  Request* send = pair.first->post_send(out);
  std::size_t bytes = 0;
  ASSERT_EQ(test::finish(*pair.second, receive, bytes, pair.first.get()), Outcome::kDone);
  ASSERT_EQ(test::finish(*pair.first, send, bytes, pair.second.get()), Outcome::kDone);
  EXPECT_EQ(in, out);
}

TEST(ProcessHelpers, ManyRoutersHaveOneThreadAndOnePort) {
  auto helpers = std::make_shared<ProcessHelpers>();
  const std::size_t threads_before = background_threads();
  std::vector<std::unique_ptr<Router>> routers;
  std::vector<std::unique_ptr<Listener>> listeners;
  std::vector<test::Pair> pairs;
  for (int i = 0; i < 12; ++i) {
    RouterOptions options = test::router_options("here");
    options.secret = Secret::random();  // as the plugin has it
    options.helpers = helpers;
    options.policy.transports = {"tcp"};
    routers.push_back(std::make_unique<Router>(options));
    listeners.push_back(routers.back()->listen());
    EXPECT_EQ(listeners.back()->endpoint().offers[0].port, listeners[0]->endpoint().offers[0].port);
    EXPECT_EQ(listeners.back()->endpoint().process, helpers->process());
    // Both ends of the connection are in this process, and of different routers.
    auto from = std::make_unique<Router>(options);
    pairs.push_back(test::connect_pair(*from, *listeners.back()));
    routers.push_back(std::move(from));
  }
  for (test::Pair& pair : pairs) expect_talk(pair);
  EXPECT_EQ(background_threads() - threads_before, 1u);
  listeners.clear();
  routers.clear();
  for (test::Pair& pair : pairs) expect_talk(pair);
  const std::weak_ptr<ProcessHelpers> seen = helpers;
  helpers.reset();
  EXPECT_FALSE(seen.expired()) << "the connections hold it";
  pairs.clear();
  EXPECT_TRUE(seen.expired()) << "the last connection ended it, so that a library can be unloaded";
  // The kernel shows a thread for a moment after it was joined.
  for (const auto deadline = test::soon(); background_threads() != threads_before && !deadline.passed();)
    std::this_thread::yield();
  EXPECT_EQ(background_threads(), threads_before);
}

/// Pretends that a peer's host acknowledges nothing, and counts how often this thread asks.
class Silence final : public test::ForwardingKernel {
 public:
  int unacknowledged(int socket, int* bytes) noexcept override {
    const int result = ForwardingKernel::unacknowledged(socket, bytes);
    if (!silent || result != 0) return result;
    if (::gettid() == owner) ++asked;
    *bytes = 1;
    return 0;
  }
  int getsockopt(int socket, int level, int name, void* value, socklen_t* length) noexcept override {
    const int result = ForwardingKernel::getsockopt(socket, level, name, value, length);
    // The first byte of TCP_INFO is the state: the end of the stream was sent, and is not acknowledged.
    if (silent && level == IPPROTO_TCP && name == TCP_INFO)
      *static_cast<unsigned char*>(value) = TCP_FIN_WAIT1;
    return result;
  }
  const pid_t owner = ::gettid();
  std::atomic<bool> silent{false};
  int asked = 0;
};

// The owner's thread looks at each socket once; it used to wait for each connection by itself.
TEST(ProcessHelpers, ClosingTowardsSilenceWaitsForNoConnection) {
  Silence kernel;
  const KernelInPlace in_place(kernel);
  const auto helpers = std::make_shared<ProcessHelpers>();
  struct One {
    std::unique_ptr<Router> router;
    test::Pair pair;
  };
  std::vector<One> all;
  for (int i = 0; i < 6; ++i) {
    RouterOptions options = test::router_options("here");
    options.helpers = helpers;
    options.policy.transports = {"tcp"};
    One one{std::make_unique<Router>(options), {}};
    const auto listener = one.router->listen();
    one.pair = test::connect_pair(*one.router, *listener);
    ASSERT_TRUE(one.pair.first && one.pair.second);
    all.push_back(std::move(one));
  }
  kernel.silent = true;
  const std::size_t sockets = 2 * all.size();
  all.clear();
  EXPECT_LE(kernel.asked, 2 * static_cast<int>(sockets));
  EXPECT_TRUE(helpers->closing_sockets().progress()) << "they are kept until their peers have all";
  kernel.silent = false;
}

// Secrets, clusters and ways of TLS differ; all come in at one port.
TEST(ProcessHelpers, RoutersWithDifferentSettingsWorkBesideEachOther) {
  test::certificates::Folder folder;
  const auto authority = test::certificates::make_identity("authority", nullptr);
  const auto rank = test::certificates::make_identity("rank", &authority);
  TlsOptions on, between;
  on.use = TlsUse::kOn;
  between.use = TlsUse::kBetweenClusters;
  struct Setting {
    const char *secret, *listening, *connecting;
    TlsOptions tls;
    const char* transport;
  };
  const std::vector<Setting> settings = {
      {"a", "east", "east", {}, "tcp"},
      {"b", "east", "east", on, "tcp+tls"},
      {"c", "east", "east", folder.options("rank", rank, authority), "tcp+tls"},
      {"d", "west", "west", between, "tcp"},
      {"e", "west", "east", between, "tcp+tls"},
      {"f", "west", "east", on, "tcp+tls"},
  };
  const auto accepting = std::make_shared<ProcessHelpers>(), connecting = std::make_shared<ProcessHelpers>();
  const auto options_of = [&](const Setting& setting, bool accepts) {
    RouterOptions options = test::router_options(accepts ? "right" : "left", {}, setting.tls);
    options.secret = Secret::from_text(setting.secret);
    options.host.cluster = accepts ? setting.listening : setting.connecting;
    options.helpers = accepts ? accepting : connecting;
    return options;
  };
  std::vector<std::unique_ptr<Router>> routers;
  std::vector<std::unique_ptr<Listener>> listeners;
  for (const Setting& setting : settings) {
    routers.push_back(std::make_unique<Router>(options_of(setting, true)));
    listeners.push_back(routers.back()->listen());
    EXPECT_EQ(listeners.back()->endpoint().offers[0].port, listeners[0]->endpoint().offers[0].port);
  }
  for (std::size_t i = 0; i < settings.size(); ++i) {
    SCOPED_TRACE(settings[i].secret);
    Router from(options_of(settings[i], false));
    test::Pair pair = test::connect_pair(from, *listeners[i]);
    expect_talk(pair);
    EXPECT_EQ(pair.first->route().transport, settings[i].transport);
    EXPECT_EQ(pair.second->route().transport, settings[i].transport);
    // The secret of one router does not open another's door.
    for (std::size_t other = 0; other < settings.size(); ++other) {
      if (other == i) continue;
      std::unique_ptr<Connecting> wrong;
      bool refused = false;
      for (const auto deadline = test::soon(); !refused && !deadline.passed();) {
        try {
          if (!wrong) wrong = from.connect(listeners[other]->endpoint(), {});
          ASSERT_EQ(wrong->poll(), nullptr) << other;
        } catch (const Error& error) {
          EXPECT_EQ(error.cause(), Cause::kRemote) << error.what();
          refused = true;
        }
        ASSERT_EQ(listeners[other]->accept(), nullptr) << other;
      }
      EXPECT_TRUE(refused) << other;
    }
  }
}

TEST(ProcessHelpers, AreMadeAgainWhereTheLastHaveEnded) {
  auto first = ProcessHelpers::of_process();
  EXPECT_EQ(ProcessHelpers::of_process(), first);
  const std::uint64_t process = first->process();
  first.reset();
  EXPECT_NE(ProcessHelpers::of_process()->process(), process);
}

TEST(ProcessHelpers, AForkedProcessHasItsOwn) {
  const auto mine = ProcessHelpers::of_process();
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto its = ProcessHelpers::of_process();
    ::_exit(its != mine && its->process() != mine->process() ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace tombolo::transport::bootstrap
