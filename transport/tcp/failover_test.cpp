// Streams that break while data flows: nothing may be lost, doubled or reordered.
#include <dirent.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <random>
#include <set>
#include <span>

#include "base/randomized_test.h"
#include "transport/sockets/socket.h"
#include "transport/testing/test_support.h"

namespace tombolo::transport::tcp {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// This process's connected TCP sockets.
std::vector<int> connected_sockets() {
  std::vector<int> found;
  DIR* directory = opendir("/proc/self/fd");
  while (const dirent* entry = readdir(directory)) {
    const int fd = std::atoi(entry->d_name);
    int protocol = 0;
    socklen_t size = sizeof protocol;
    if (fd > 2 && getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &size) == 0 && protocol == IPPROTO_TCP &&
        sockets::peer_text(fd) != "?") {
      found.push_back(fd);
    }
  }
  closedir(directory);
  return found;
}

/// As a middlebox would: both ends see a reset. Past the sanitizers, which would call it a race with the
/// thread that uses the socket.
void reset_stream(int socket) {
  sockaddr nobody{};
  nobody.sa_family = AF_UNSPEC;
  syscall(SYS_connect, socket, &nobody, sizeof nobody);
}

constexpr std::size_t kLargest = 2'500'000;

/// What a message of `size` bytes holds: a piece of one random text, another one for every message.
std::span<const std::byte> content(std::uint64_t direction, std::uint64_t message, std::size_t size) {
  constexpr std::size_t kStarts = 1'000'000;
  static const std::vector<std::byte> text = [] {
    std::mt19937_64 random(1);
    return test::random_data(random, kStarts + kLargest);
  }();
  return std::span(text).subspan((message * 2 + direction) * 7919 % kStarts, size);
}

/// One direction of a conversation, checked byte by byte.
class Flow {
 public:
  Flow(Connection& from, Connection& to, std::uint64_t direction, std::uint64_t messages,
       std::mt19937_64& random)
      : from_(from), to_(to), direction_(direction), messages_(messages), random_(random) {}

  bool done() const { return received_ == messages_ && sends_.empty(); }
  std::uint64_t received() const { return received_; }

  /// False once something was wrong.
  bool step() {
    if (sent_ < messages_ && sends_.size() < 8) {
      static constexpr std::size_t kSizes[] = {0, 1, 100, 8192, 40'000, 300'000, kLargest};
      std::size_t size = random_() % (kSizes[random_() % std::size(kSizes)] + 1);
      const auto data = content(direction_, sent_, size);
      sizes_.push_back(size);
      sends_.push_back({{data.begin(), data.end()}, nullptr});
      sends_.back().request = from_.post_send(sends_.back().data);
      if (sends_.back().request == nullptr) {
        sends_.pop_back();
        sizes_.pop_back();
      } else {
        ++sent_;
      }
    }
    if (posted_ < messages_ && receives_.size() < 6) {
      if (spare_.empty()) spare_.emplace_back(kLargest + 1);
      receives_.push_back({std::move(spare_.back()), nullptr});
      spare_.pop_back();
      receives_.back().request = to_.post_receive(receives_.back().data);
      if (receives_.back().request == nullptr)
        receives_.pop_back();
      else
        ++posted_;
    }
    std::size_t bytes = 0;
    if (!sends_.empty()) {
      switch (from_.test(sends_.front().request, bytes)) {
        case Outcome::kFailed:
          ADD_FAILURE() << "send: " << from_.error()->what();
          return false;
        case Outcome::kDone:
          // The caller may do so: the buffer is his again.
          std::ranges::fill(sends_.front().data, std::byte{0xee});
          sends_.pop_front();
          break;
        case Outcome::kPending:
          break;
      }
    }
    if (!receives_.empty()) {
      switch (to_.test(receives_.front().request, bytes)) {
        case Outcome::kFailed:
          ADD_FAILURE() << "receive: " << to_.error()->what();
          return false;
        case Outcome::kDone: {
          const auto& data = receives_.front().data;
          const auto wanted = content(direction_, received_, sizes_[received_]);
          if (bytes != wanted.size() || std::memcmp(data.data(), wanted.data(), bytes) != 0) {
            ADD_FAILURE() << "message " << received_ << " of " << wanted.size() << " bytes came as " << bytes
                          << " or differs";
            return false;
          }
          ++received_;
          spare_.push_back(std::move(receives_.front().data));
          receives_.pop_front();
          break;
        }
        case Outcome::kPending:
          break;
      }
    }
    return true;
  }

 private:
  struct Posted {
    std::vector<std::byte> data;
    Request* request;
  };
  Connection &from_, &to_;
  std::uint64_t direction_, messages_;
  std::mt19937_64& random_;
  std::uint64_t sent_ = 0, posted_ = 0, received_ = 0;
  std::deque<Posted> sends_, receives_;
  std::vector<std::vector<std::byte>> spare_;  // fresh memory for every receive costs more than the transfer
  std::vector<std::size_t> sizes_;
};

struct FailoverCase {
  int streams;
  TlsUse tls;
};
void PrintTo(const FailoverCase& tested, std::ostream* stream) {
  *stream << tested.streams << (tested.tls == TlsUse::kOn ? " with TLS" : "");
}
class Failover : public testing::TestWithParam<FailoverCase> {};

TEST_P(Failover, ResetStreamsLoseAndDoubleNothing) {
  std::mt19937_64 random(test_seed());
  TcpOptions tcp;
  tcp.streams = GetParam().streams;
  tcp.idle_timeout = seconds(60);
  std::mutex lock;  // the transport's own thread logs too
  std::string log;
  auto options_of = [&](const std::string& host) {
    auto options = test::router_options(host, tcp, {GetParam().tls});
    options.log = Log(LogLevel::kInfo, [&lock, &log, host](LogLevel, std::string_view text) {
      const std::lock_guard guard(lock);
      log += fmt::format("{}: {}\n", host, text);
    });
    return options;
  };
  Router left(options_of("left")), right(options_of("right"));
  auto listener = right.listen();
  auto [near, far] = test::connect_pair(left, *listener);
  listener.reset();
  Flow there(*near, *far, 0, test_rounds(400), random), back(*far, *near, 1, test_rounds(400), random);
  int resets = 0;
  std::uint64_t next = 10;
  for (auto deadline = test::soon(); !(there.done() && back.done());) {
    ASSERT_TRUE(there.step() && back.step());
    ASSERT_FALSE(deadline.passed()) << there.received() << " and " << back.received() << " messages, "
                                    << resets << " resets\n"
                                    << log;
    if (there.received() + back.received() < next) continue;
    next += 1 + random() % 30;
    auto sockets = connected_sockets();
    if (sockets.empty()) continue;
    reset_stream(sockets[random() % sockets.size()]);
    ++resets;
  }
  EXPECT_GT(resets, test_rounds(10) / 2);
}

// One way only: no chunk ever shows the sender's end that its words about broken streams have been heard.
TEST(FailoverOneWay, AStreamMayBreakVeryOftenWhereMessagesGoOneWay) {
  std::mt19937_64 random(test_seed(7));
  TcpOptions tcp;
  tcp.streams = 1;
  tcp.idle_timeout = seconds(60);
  Router left(test::router_options("left", tcp)), right(test::router_options("right", tcp));
  auto listener = right.listen();
  auto [near, far] = test::connect_pair(left, *listener);
  Flow there(*near, *far, 0, test_rounds(620), random);
  int resets = 0;
  // 9 s, more on a busy machine.
  for (auto deadline = Deadline::after(seconds(300)); !there.done();) {
    ASSERT_TRUE(there.step());
    ASSERT_FALSE(deadline.passed()) << there.received() << " messages, " << resets << " resets";
    if (there.received() < static_cast<std::uint64_t>(resets + 1)) continue;
    auto sockets = connected_sockets();
    if (sockets.empty()) continue;
    reset_stream(sockets[random() % sockets.size()]);
    ++resets;
  }
  EXPECT_GT(resets, test_rounds(540));
}

INSTANTIATE_TEST_SUITE_P(Streams, Failover,
                         testing::Values(FailoverCase{1, TlsUse::kOff}, FailoverCase{2, TlsUse::kOff},
                                         FailoverCase{5, TlsUse::kOff}, FailoverCase{1, TlsUse::kOn},
                                         FailoverCase{3, TlsUse::kOn}));

}  // namespace
}  // namespace tombolo::transport::tcp
