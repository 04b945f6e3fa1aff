// Tests UCX between processes, over its own TCP on loopback: peers that are killed, and many connections. The
// peer is this program, started once more: a process that has used UCX must not fork.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <optional>

#include "base/randomized_test.h"
#include "transport/descriptor.h"
#include "transport/testing/test_support.h"

namespace tombolo::transport {
namespace {

constexpr std::size_t kLarge = std::size_t{64} << 20;
constexpr std::size_t kMany = 64;

RouterOptions ucx_options(const std::string& host) {
  return test::ucx_router_options(host, "tcp,self,sm");
}

std::string to_hex(std::span<const std::byte> bytes) {
  std::string text;
  for (std::byte byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return text;
}

std::vector<std::byte> from_hex(const std::string& text) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2)
    bytes.push_back(static_cast<std::byte>(std::stoul(text.substr(i, 2), nullptr, 16)));
  return bytes;
}

std::vector<std::byte> message_of(std::size_t connection, bool answer) {
  std::mt19937_64 random(2 * connection + (answer ? 1 : 0));
  return test::random_data(random, connection * 7919 % 5000 + (connection % 8 == 0 ? 400'000 : 1));
}

/// Sends (or receives) one message on each connection, all at the same time, and checks what came.
bool exchange(std::vector<std::unique_ptr<Connection>>& all, bool sending, bool answer) {
  std::vector<std::vector<std::byte>> buffers;
  std::vector<Request*> requests;
  for (std::size_t i = 0; i < all.size(); ++i) {
    buffers.push_back(sending ? message_of(i, answer) : std::vector<std::byte>(500'000));
    requests.push_back(sending ? all[i]->post_send(buffers[i]) : all[i]->post_receive(buffers[i]));
  }
  std::size_t left = all.size();
  for (auto deadline = test::soon(); left > 0 && !deadline.passed();) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      std::size_t bytes = 0;
      if (requests[i] == nullptr) continue;
      const Outcome outcome = all[i]->test(requests[i], bytes);
      if (outcome == Outcome::kPending) continue;
      requests[i] = nullptr;
      --left;
      buffers[i].resize(bytes);
      if (outcome == Outcome::kFailed || (!sending && buffers[i] != message_of(i, answer))) {
        std::fprintf(stderr, "connection %zu: %s\n", i,
                     outcome == Outcome::kFailed ? all[i]->error()->what() : "the message is damaged");
        return false;
      }
    }
  }
  return left == 0;
}

/// The main function of the other process: it connects, and plays its role until it is killed.
int be_peer(const std::string& role, const std::string& endpoint) {
  Router router(ucx_options("left"));
  std::vector<std::unique_ptr<Connection>> all(role == "many" ? kMany : 1);
  for (std::size_t i = 0; i < all.size(); ++i) {
    ConnectOptions options;
    options.label = i;
    auto connecting = router.connect(Endpoint::decode(from_hex(endpoint)), options);
    while (!(all[i] = connecting->poll())) test::wait_on(*connecting);
  }
  if (role == "many") return exchange(all, true, false) && exchange(all, false, true) ? 0 : 4;
  std::vector<std::byte> out(kLarge, std::byte{1}), in(kLarge);
  if (role == "both-ways") {
    all[0]->post_send(out);
    all[0]->post_receive(in);
  }
  std::puts("ready");
  std::fflush(stdout);
  for (;;) {
    all[0]->progress();
    if (all[0]->error() != nullptr) return 5;
    if (role == "asleep") ::pause();
  }
}

/// The other process, seen from this one. The destructor kills it.
class Peer {
 public:
  Peer(const std::string& role, const Listener& listener) {
    int out[2];
    if (::pipe2(out, O_CLOEXEC) != 0) fail_errno(errno, "pipe");
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    std::string program = "/proc/self/exe", flag = "--peer", name = role,
                endpoint = to_hex(listener.endpoint().encode());
    char* arguments[] = {program.data(), flag.data(), name.data(), endpoint.data(), nullptr};
    const int error = ::posix_spawn(&process_, program.c_str(), &actions, nullptr, arguments, environ);
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(out[1]);
    output_.reset(out[0]);
    if (error != 0) fail_errno(error, "start the peer");
  }
  ~Peer() { kill(); }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  void wait_until_ready() const {
    char line[16];
    ASSERT_GT(::read(output_.get(), line, sizeof line), 0) << "the peer ended early";
  }
  void kill() {
    if (process_ > 0) ::kill(process_, SIGKILL);
    wait();
  }
  int wait() {
    int status = -1;
    if (process_ > 0) ::waitpid(std::exchange(process_, -1), &status, 0);
    return status;
  }

 private:
  pid_t process_ = -1;
  Descriptor output_;
};

std::unique_ptr<Connection> accept_one(Listener& listener) {
  for (auto deadline = test::soon(); !deadline.passed(); test::wait_on(listener))
    if (auto one = listener.accept()) return one;
  return nullptr;
}

class UcxProcesses : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string problem = test::why_no_ucx(); !problem.empty()) GTEST_SKIP() << problem;
    router_.emplace(ucx_options("right"));
    listener_ = router_->listen();
  }
  std::optional<Router> router_;
  std::unique_ptr<Listener> listener_;
};

TEST_F(UcxProcesses, AKilledPeerFailsWhatWaitsForItByName) {
  for (const char* role : {"waiting", "asleep"}) {
    Peer peer(role, *listener_);
    auto connection = accept_one(*listener_);
    ASSERT_TRUE(connection);
    peer.wait_until_ready();
    std::vector<std::byte> buffer(100);
    Request* receive = connection->post_receive(buffer);
    peer.kill();
    std::size_t bytes = 0;
    ASSERT_EQ(test::finish(*connection, receive, bytes), Outcome::kFailed);
    EXPECT_EQ(connection->error()->cause(), Cause::kRemote);
    const std::string text = connection->error()->what();
    EXPECT_NE(text.find("ucx connection to host left"), std::string::npos) << text;
    EXPECT_NE(text.find("NIC eth0 -> "), std::string::npos) << text;
    EXPECT_NE(text.find("the peer vanished"), std::string::npos) << text;
  }
}

TEST_F(UcxProcesses, APeerKilledInTheMiddleOfLargeMessagesIsAnErrorAndNoHarm) {
  std::mt19937_64 random(test_seed());
  for (int round = 0; round < 8; ++round) {
    Peer peer("both-ways", *listener_);
    auto connection = accept_one(*listener_);
    ASSERT_TRUE(connection);
    std::vector<std::byte> in(kLarge), out(kLarge, std::byte{2});
    Request* requests[] = {connection->post_receive(in), connection->post_send(out),
                           connection->post_receive(out)};
    peer.wait_until_ready();
    const auto until = std::chrono::steady_clock::now() +
                       std::chrono::microseconds(random() % (round % 2 == 0 ? 1000 : 40'000));
    while (std::chrono::steady_clock::now() < until) connection->progress();
    peer.kill();
    std::size_t bytes = 0;
    for (Request* request : {requests[0], requests[1]}) {
      // Messages that completed before the kill must be right.
      const Outcome outcome = test::finish(*connection, request, bytes);
      EXPECT_NE(outcome, Outcome::kPending);
      if (request == requests[0] && outcome == Outcome::kDone) {
        EXPECT_TRUE(std::ranges::all_of(in, [](std::byte byte) { return byte == std::byte{1}; }));
      }
    }
    EXPECT_EQ(test::finish(*connection, requests[2], bytes), Outcome::kFailed);
    EXPECT_EQ(connection->error()->cause(), Cause::kRemote) << connection->error()->what();
  }
}

double resident_kib() {
  std::ifstream file("/proc/self/smaps_rollup");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("Pss:")) return std::stod(line.substr(4));
  return 0;
}

TEST_F(UcxProcesses, ManyConnectionsCarryCheckedData) {
  const double before = resident_kib();
  Peer peer("many", *listener_);
  std::vector<std::unique_ptr<Connection>> all(kMany);
  for (std::size_t i = 0; i < kMany; ++i) {
    auto one = accept_one(*listener_);
    ASSERT_TRUE(one);
    const std::uint64_t label = one->label();
    ASSERT_FALSE(all.at(label));
    all[label] = std::move(one);
  }
  std::printf("an idle connection over ucx: %.1f KiB resident\n",
              (resident_kib() - before) / static_cast<double>(kMany));
  EXPECT_TRUE(exchange(all, false, false));
  EXPECT_TRUE(exchange(all, true, true));
  all.clear();
  EXPECT_EQ(peer.wait(), 0);
}

}  // namespace
}  // namespace tombolo::transport

int main(int count, char** arguments) {
  if (count == 4 && std::string_view(arguments[1]) == "--peer") {
    try {
      return tombolo::transport::be_peer(arguments[2], arguments[3]);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "peer: %s\n", error.what());
      return 1;
    }
  }
  testing::InitGoogleTest(&count, arguments);
  return RUN_ALL_TESTS();
}
