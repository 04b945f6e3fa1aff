// Clients that attack a store which admits them, as one without a secret does; and a job's ranks, which must
// not notice the limits.
#include <gtest/gtest.h>
#include <malloc.h>

#include <array>
#include <atomic>
#include <fstream>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "base/format.h"
#include "base/sanitizer.h"
#include "base/units.h"
#include "collectives/rendezvous/bootstrap.h"
#include "collectives/rendezvous/store_client.h"

namespace tombolo::collectives {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class StoreUnderAttack : public ::testing::Test {
 protected:
  static Deadline soon() { return Deadline::after(seconds(60)); }
  void start(const StoreLimits& limits) {
    server_ = std::make_unique<StoreServer>("127.0.0.1", 0, transport::Secret(),
                                            Log(LogLevel::kWarning,
                                                [this](LogLevel, std::string_view line) {
                                                  const std::lock_guard lock(mutex_);
                                                  lines_.emplace_back(line);
                                                }),
                                            StoreServer::Resolve{}, limits);
  }
  std::unique_ptr<Store> client() const {
    return Store::connect("127.0.0.1", server_->port(), {}, soon(), Log());
  }
  std::unique_ptr<store::Channel> attacker() const {
    return store::Channel::connect("127.0.0.1", server_->port(), {}, soon());
  }
  std::size_t lines(std::string_view part) const {
    const std::lock_guard lock(mutex_);
    return static_cast<std::size_t>(std::count_if(lines_.begin(), lines_.end(), [&](const std::string& line) {
      return line.find(part) != std::string::npos;
    }));
  }
  /// Waits until the log has such a line; false where it did not come.
  bool logged(std::string_view part) const {
    for (const auto deadline = soon(); lines(part) == 0;) {
      if (deadline.passed()) return false;
      std::this_thread::sleep_for(milliseconds(1));
    }
    return true;
  }
  static bool dropped(store::Channel& channel) {
    try {
      for (const auto deadline = soon(); !deadline.passed();) channel.receive(deadline);
      return false;
    } catch (const Error& error) {
      return error.cause() == Cause::kRemote;
    }
  }
  /// False where they were neither taken nor refused in time.
  static bool sent_or_dropped(store::Channel& channel, std::span<const std::byte> bytes) {
    try {
      channel.send(bytes, soon());
    } catch (const Error& error) {
      return error.cause() == Cause::kRemote;
    }
    return true;
  }
  static std::size_t bytes_held_here() {
    const auto info = mallinfo2();
    return info.uordblks + info.hblkhd;
  }

  mutable std::mutex mutex_;
  std::vector<std::string> lines_;
  std::unique_ptr<StoreServer> server_;  // ends before what its thread logs to
};

/// Whose requests arrive in one piece: the honest client's are never late, however little it runs.
const std::vector<std::byte> kSmallValue(3000);

TEST_F(StoreUnderAttack, AClientThatDoesNotReadHoldsOneAnswerAndIsDroppedWithOneLine) {
  StoreLimits limits;
  limits.patience = milliseconds(500);
  start(limits);
  const auto honest = client();
  honest->set("key", kSmallValue);
  // Their answers are many times as large as the buffers of two sockets.
  std::vector<std::byte> requests;
  for (std::uint32_t request = 1; request <= 40'000; ++request) {
    const auto one = store::encode(store::Kind::kGet, request, "key", {});
    requests.insert(requests.end(), one.begin(), one.end());
  }
  const std::size_t before = bytes_held_here();
  const auto channel = attacker();
  EXPECT_TRUE(sent_or_dropped(*channel, requests));
  std::size_t most = 0;
  for (const auto deadline = soon(); lines("did not read its answers") == 0 && !deadline.passed();) {
    most = std::max(most, bytes_held_here());
    std::this_thread::sleep_for(milliseconds(1));
  }
  EXPECT_EQ(lines("did not read its answers"), 1U);
  if (!kSanitized) {
    EXPECT_LT(most, before + (std::size_t{512} << 10));
  }
  EXPECT_EQ(honest->add("count", 1), 1);
}

TEST_F(StoreUnderAttack, RequestsThatComeInPartTakeTheStoresShareAndEnd) {
  constexpr std::uint32_t kRequest = 64 << 10;
  StoreLimits limits;
  limits.bytes = 4 * kRequest - 1;
  limits.patience = milliseconds(500);
  start(limits);
  const auto honest = client();
  std::vector<std::unique_ptr<store::Channel>> attackers;
  for (int i = 0; i < 20; ++i) attackers.push_back(attacker());
  for (const auto& one : attackers) one->send(std::as_bytes(std::span(&kRequest, 1)), soon());
  EXPECT_TRUE(logged("the store is full"));
  EXPECT_EQ(honest->add("count", 1), 1) << "small requests go on";
  for (const auto& one : attackers) EXPECT_TRUE(dropped(*one)) << "for want of room, or for sending no more";
  // More than is left while any of these requests has its share.
  for (std::size_t held = 0; held < limits.bytes - kRequest / 2; held += kSmallValue.size() + 1000)
    honest->set(fmt::format("{:01000}", held), kSmallValue);
}

TEST_F(StoreUnderAttack, AFullStoreSaysSoAndServesOn) {
  StoreLimits limits;
  limits.bytes = 1 << 20;
  start(limits);
  const auto attacker = client(), honest = client();
  honest->set("mine", std::vector<std::byte>(8));
  std::string text;
  for (int i = 0; text.empty() && i < 10'000; ++i) {
    try {
      attacker->set("key " + std::to_string(i), std::vector<std::byte>(1000));
    } catch (const Error& error) {
      EXPECT_EQ(error.cause(), Cause::kRemote);
      text = error.what();
    }
  }
  EXPECT_NE(text.find("the store is full"), std::string::npos) << text;
  EXPECT_NE(text.find("'key "), std::string::npos) << text;
  EXPECT_EQ(honest->get("mine", soon()).size(), 8U);
}

TEST_F(StoreUnderAttack, AValueLongerThanAllowedReachesNobody) {
  start({});
  const auto channel = attacker();
  const auto waiting = attacker();
  waiting->send(store::encode(store::Kind::kGet, 1, "k", {}), soon());
  // Its key is shorter than the longest, so that the frame is not too long, but the value is.
  auto frame = store::encode(store::Kind::kSet, 1, std::string(store::kMaxKey, 'k'),
                             std::vector<std::byte>(store::kMaxValue));
  frame[store::kLengthBytes + 5] = std::byte{1};
  frame[store::kLengthBytes + 6] = std::byte{0};
  channel->send(frame, soon());
  const auto answer = channel->receive(soon());
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->kind, store::Kind::kRefused);
  channel->send(store::encode(store::Kind::kSet, 2, "k", {}), soon());
  const auto news = waiting->receive(soon());
  ASSERT_TRUE(news) << "the waiting client is still served";
  EXPECT_TRUE(news->value.empty());
}

TEST_F(StoreUnderAttack, ConnectionsBeyondTheLimitAreClosedWithOneLine) {
  StoreLimits limits;
  limits.clients = 20;
  start(limits);
  const auto honest = client();
  std::vector<std::unique_ptr<store::Channel>> attackers;
  for (int i = 0; i < 19; ++i) attackers.push_back(attacker());
  for (int i = 0; i < 20; ++i) {
    EXPECT_THROW(store::Channel::connect("127.0.0.1", server_->port(), {}, Deadline::after(milliseconds(30))),
                 Error);
  }
  EXPECT_EQ(lines("no more are accepted"), 1U);
  EXPECT_EQ(honest->add("count", 1), 1);
  attackers.pop_back();
  EXPECT_NE(client(), nullptr) << "there is room again";
}

TEST_F(StoreUnderAttack, AFloodOfWrongClientsDoesNotFillTheLog) {
  const TimePoint begin = Clock::steady().now();
  start({});
  for (int i = 0; i < 300; ++i) {
    const auto channel = attacker();
    channel->send(store::encode(store::Kind::kValue, 1, "no request", {}), soon());
    EXPECT_TRUE(dropped(*channel));
  }
  const auto more = static_cast<std::size_t>(to_seconds(Clock::steady().now() - begin) / 10);
  EXPECT_GE(lines("unknown request"), 1U);
  EXPECT_LE(lines("unknown request"), 5 + more);
  EXPECT_EQ(client()->add("count", 1), 1);
}

// What Communicator does, with as many clients as the default limit on descriptors allows in one process.
TEST(StoreOfAJob, ServesAFewHundredRanksAndTheirWatches) {
  constexpr int kRanks = 200, kThreads = 4;
  std::atomic<int> warnings{0};
  StoreServer server("127.0.0.1", 0, {},
                     Log(LogLevel::kWarning, [&](LogLevel, std::string_view) { ++warnings; }));
  const auto deadline = Deadline::after(seconds(120));
  const auto name = [](const char* what, int rank) { return fmt::format("comm/0/{}/{}", what, rank); };
  std::vector<std::unique_ptr<Store>> clients;
  std::vector<std::unique_ptr<StoreWatch>> watches;
  const auto access = store_at("127.0.0.1", server.port(), {});
  for (int rank = 0; rank < kRanks; ++rank) {
    clients.push_back(Store::connect("127.0.0.1", server.port(), {}, deadline, Log()));
    watches.push_back(access->watch("comm/0/abort", name("present", rank), deadline));
  }
  std::atomic<int> wrong{0};
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        for (int rank = thread; rank < kRanks; rank += kThreads)
          clients[static_cast<std::size_t>(rank)]->claim(name("rank", rank), std::vector<std::byte>(700));
        for (int rank = thread; rank < kRanks; rank += kThreads) {
          Store& own = *clients[static_cast<std::size_t>(rank)];
          for (int other = 0; other < kRanks; ++other)
            wrong += own.get(name("rank", other), deadline).size() == 700 ? 0 : 1;
          own.set(name("read-by", rank), {});
        }
      });
    }
  }
  EXPECT_EQ(wrong, 0);
  clients[0]->set("comm/0/abort", {});
  for (const auto& watch : watches) {
    while (watch->check() == StoreWatch::News::kNone && !deadline.passed()) std::this_thread::yield();
    EXPECT_EQ(watch->check(), StoreWatch::News::kValue);
  }
  EXPECT_EQ(warnings, 0);
}

constexpr StoreLimits kDefaults;
constexpr std::size_t kBytesPerRank = 1024 + (kMostKeysPerRank - 1) * 256;
static_assert(kDefaults.bytes >= kRanksOfALargeJob * kBytesPerRank * 100, "records of 100 communicators");
static_assert(kDefaults.bytes >= kRanksOfALargeJob * 200 * 1024, "a tool's value of every rank");

/// "32,768"
std::string grouped(std::size_t number) {
  std::string digits = std::to_string(number);
  for (std::size_t at = digits.size(); at > 3;) digits.insert(at -= 3, ",");
  return digits;
}

TEST(StoreLimits, AreAsDocumented) {
  std::ifstream file(TOMBOLO_SOURCE_DIR "/docs/wire-protocol.md");
  std::vector<std::string> rows;
  bool here = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("#")) here = line == "### Of the store";
    if (here && line.starts_with("|") && line.find('`') != std::string::npos) rows.push_back(line);
  }
  const auto in_seconds = [](Duration time) { return time / seconds(1); };
  const auto unauthenticated = fmt::format("{}, for {} s each", grouped(kDefaults.unauthenticated),
                                           in_seconds(kDefaults.handshake_patience));
  const std::vector<std::array<std::string, 3>> limits = {
      {grouped(kDefaults.clients), "StoreLimits::clients",
       fmt::format("{} communicators", kDefaults.clients / kRanksOfALargeJob - 1)},
      {unauthenticated, "StoreLimits::unauthenticated", ""},
      {grouped(kDefaults.keys), "StoreLimits::keys",
       fmt::format("{} per rank and communicator at most: {} communicators", kMostKeysPerRank,
                   kDefaults.keys / (kRanksOfALargeJob * kMostKeysPerRank))},
      {format_size(kDefaults.bytes), "StoreLimits::bytes", ""},
      {format_size(store::kMaxKey), "store::kMaxKey", ""},
      {format_size(store::kMaxValue), "store::kMaxValue", ""},
      {fmt::format("{} s", in_seconds(kDefaults.patience)), "StoreLimits::patience", ""}};
  ASSERT_EQ(rows.size(), limits.size());
  for (std::size_t i = 0; i < limits.size(); ++i) {
    const auto& [value, where, room] = limits[i];
    EXPECT_NE(rows[i].find(fmt::format("| {} | `{}` |", value, where)), std::string::npos)
        << rows[i] << " has to say " << value << " and " << where;
    EXPECT_TRUE(rows[i].ends_with(room + " |")) << rows[i] << " has to end with " << room;
  }
}

}  // namespace
}  // namespace tombolo::collectives
