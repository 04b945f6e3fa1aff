#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <ctime>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "base/unused_port_test.h"
#include "collectives/rendezvous/bootstrap.h"
#include "collectives/rendezvous/store_client.h"

namespace tombolo::collectives {
namespace {

using transport::Secret;
constexpr auto kPatience = std::chrono::seconds(20);
const Secret kSecret = Secret::from_text("open sesame");

std::unique_ptr<Store> connect(int port, const Secret& secret = kSecret, Duration patience = kPatience) {
  return Store::connect("127.0.0.1", port, secret, Deadline::after(patience), Log());
}

std::vector<std::byte> bytes(std::string_view text) {
  const auto all = std::as_bytes(std::span(text));
  return {all.begin(), all.end()};
}

template <typename Action>
std::string message_of(Cause cause, Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), cause) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

void expect_words(const std::string& text, std::initializer_list<std::string_view> words) {
  for (const auto word : words) EXPECT_NE(text.find(word), std::string::npos) << text;
}

// Everything that a raw client can send, so that the server meets what no real client says.
class RawClient {
 public:
  explicit RawClient(int port) : descriptor_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(0, ::connect(descriptor_, reinterpret_cast<sockaddr*>(&address), sizeof(address)));
  }
  ~RawClient() { ::close(descriptor_); }
  void send(const void* data, std::size_t size) {
    [[maybe_unused]] const ssize_t sent = ::send(descriptor_, data, size, MSG_NOSIGNAL);
  }
  /// Reads until the server closes.
  std::size_t drain() {
    std::size_t total = 0;
    char buffer[4096];
    for (ssize_t got = 0; (got = ::recv(descriptor_, buffer, sizeof(buffer), 0)) > 0;)
      total += static_cast<std::size_t>(got);
    return total;
  }

 private:
  int descriptor_;
};

TEST(Store, KeepsValuesForItsClients) {
  StoreServer server("127.0.0.1", 0, kSecret, Log());
  const auto one = connect(server.port()), two = connect(server.port());
  EXPECT_FALSE(two->try_get("color"));
  one->set("color", bytes("green"));
  EXPECT_EQ(two->get("color", Deadline::after(kPatience)), bytes("green"));
  EXPECT_EQ(two->try_get("color"), bytes("green"));
  EXPECT_EQ(two->claim("color", bytes("red")), bytes("green"));
  EXPECT_EQ(two->claim("shape", bytes("round")), bytes("round"));
  EXPECT_EQ(one->add("count", 5), 5);
  EXPECT_EQ(two->add("count", -2), 3);
  expect_words(message_of(Cause::kRemote, [&] { one->add("color", 1); }), {"color", "no counter"});
  EXPECT_EQ(one->add("count", 1), 4) << "a refusal leaves the connection usable";
}

TEST(Store, CarriesLargeValues) {
  StoreServer server("127.0.0.1", 0, kSecret, Log());
  const auto client = connect(server.port());
  std::vector<std::byte> large(store::kMaxValue);
  for (std::size_t i = 0; i < large.size(); ++i) large[i] = static_cast<std::byte>(i * 7);
  client->set("large", large);
  EXPECT_EQ(client->get("large", Deadline::after(kPatience)), large);
  large.push_back({});
  message_of(Cause::kInvalidUsage, [&] { client->set("larger", large); });
}

TEST(Store, GetWaitsForTheKey) {
  StoreServer server("127.0.0.1", 0, kSecret, Log());
  std::thread setter([&] {
    const auto client = connect(server.port());
    client->get("ready", Deadline::after(kPatience));
    client->set("answer", bytes("42"));
  });
  const auto client = connect(server.port());
  client->set("ready", {});
  EXPECT_EQ(client->get("answer", Deadline::after(kPatience)), bytes("42"));
  setter.join();
}

TEST(Store, GetNamesTheKeyAfterTheDeadlineAndGoesOn) {
  StoreServer server("127.0.0.1", 0, kSecret, Log());
  const auto client = connect(server.port());
  expect_words(message_of(Cause::kTimeout,
                          [&] { client->get("missing", Deadline::after(std::chrono::milliseconds(30))); }),
               {"'missing'", "127.0.0.1"});
  client->set("missing", bytes("late"));  // the answer to the abandoned get comes first, and is skipped
  EXPECT_EQ(client->get("missing", Deadline::after(kPatience)), bytes("late"));
}

TEST(Store, TurnsAwayAWrongSecretNamingAddressAndPort) {
  StoreServer server("127.0.0.1", 0, kSecret, Log());
  const auto text = message_of(Cause::kRemote, [&] { connect(server.port(), Secret::from_text("wrong")); });
  expect_words(text, {"wrong secret", "127.0.0.1:" + std::to_string(server.port()), "TOMBOLO_SECRET"});
  EXPECT_EQ(connect(server.port())->add("count", 1), 1);
}

TEST(Store, SaysThatThePortIsInUseAndWhatToDo) {
  StoreServer server("127.0.0.1", 0, kSecret, Log());
  const auto text =
      message_of(Cause::kSystem, [&] { StoreServer second("127.0.0.1", server.port(), kSecret, Log()); });
  expect_words(text, {"port in use", "127.0.0.1:" + std::to_string(server.port()), "MASTER_PORT"});
}

// What a server has logged, from its own thread too.
class Lines {
 public:
  Log log() {
    return {LogLevel::kInfo, [this](LogLevel level, std::string_view text) {
              const std::lock_guard lock(mutex_);
              text_ += fmt::format("{}: {}\n", log_level_name(level), text);
            }};
  }
  std::string text() const {
    const std::lock_guard lock(mutex_);
    return text_;
  }
  int count(std::string_view word) const {
    const std::string all = text();
    int times = 0;
    for (auto at = all.find(word); at != std::string::npos; at = all.find(word, at + 1)) ++times;
    return times;
  }

 private:
  mutable std::mutex mutex_;
  std::string text_;
};

bool reaches(const std::string& address, int port) {
  try {
    Store::connect(address, port, kSecret, Deadline::after(std::chrono::milliseconds(200)), Log());
    return true;
  } catch (const Error&) {
    return false;
  }
}

TEST(Store, ListensOnEveryAddressForAHostsName) {
  for (const std::vector<std::string>& addresses :
       {std::vector<std::string>{"127.0.1.1"}, {"127.0.1.1", "10.255.0.1"}, {"fe80::1", "127.0.0.1"}}) {
    Lines lines;
    StoreServer server("node3", 0, kSecret, lines.log(), [&](const std::string& name) {
      EXPECT_EQ(name, "node3");
      return addresses;
    });
    for (const char* way : {"127.0.0.1", "127.0.1.1", "127.0.0.5"})
      EXPECT_TRUE(Store::connect(way, server.port(), kSecret, Deadline::after(kPatience), Log())) << way;
    EXPECT_EQ(server.own_address(), "127.0.0.1");
    expect_words(lines.text(),
                 {"info: store: listening on every address", std::to_string(server.port()), "node3"});
    EXPECT_EQ(lines.count("warning"), 0) << lines.text();
  }
}

TEST(Store, KeepsToLoopbackWhereOnlyThatIsMeant) {
  Lines lines;
  StoreServer server("127.0.0.1", 0, kSecret, lines.log());
  EXPECT_TRUE(Store::connect("127.0.0.1", server.port(), kSecret, Deadline::after(kPatience), Log()));
  EXPECT_FALSE(reaches("127.0.0.5", server.port()));
  expect_words(lines.text(), {"listening on 127.0.0.1:" + std::to_string(server.port())});
  const auto both = [](const std::string&) { return std::vector<std::string>{"::1", "127.0.0.1"}; };
  StoreServer by_name("localhost", 0, kSecret, Log(), both);
  EXPECT_TRUE(
      Store::connect(by_name.own_address(), by_name.port(), kSecret, Deadline::after(kPatience), Log()));
  EXPECT_FALSE(reaches("127.0.0.5", by_name.port()));
}

TEST(Store, WarnsWhereTheAddressIsNotOfThisHostAndStillServes) {
  Lines lines;
  StoreServer server("192.0.2.1", 0, kSecret, lines.log());  // of a service that forwards to this host, say
  EXPECT_TRUE(
      Store::connect(server.own_address(), server.port(), kSecret, Deadline::after(kPatience), Log()));
  expect_words(lines.text(), {"warning: store: 192.0.2.1 is no address of this host", "MASTER_ADDR"});
}

TEST(Store, SaysThatANameHasNoAddressAndWhatToDo) {
  const auto text =
      message_of(Cause::kSystem, [&] { StoreServer server("no such host.invalid", 0, kSecret, Log()); });
  expect_words(text, {"'no such host.invalid'", "MASTER_ADDR", "rank 0"});
}

// A client that never says a word holds one of the places for unauthenticated connections.
TEST(Store, ClientsWithoutTheSecretCannotKeepRanksOut) {
  Lines lines;
  StoreServer server("127.0.0.1", 0, kSecret, lines.log());
  const auto friendly = connect(server.port());
  std::vector<std::unique_ptr<RawClient>> unauthenticated;
  for (int i = 0; i < 300; ++i) unauthenticated.push_back(std::make_unique<RawClient>(server.port()));
  EXPECT_EQ(connect(server.port())->add("count", 1), 1);
  EXPECT_LE(unauthenticated.front()->drain(), store::kHelloBytes) << "the oldest is dropped";
  EXPECT_EQ(lines.count("did not finish the handshake"), 0) << "for want of room, not of time";
  EXPECT_EQ(friendly->add("count", 1), 2) << "who has proven itself stays";
  EXPECT_EQ(lines.count("have not proven that they know the secret"), 1) << lines.text();
}

TEST(Store, RestsWhileThereAreNoDescriptorsThenGoesOn) {
  Lines lines;
  StoreServer server("127.0.0.1", 0, kSecret, lines.log());
  const int client = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const timeval patience{20, 0};
  ASSERT_EQ(0, ::setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)));
  rlimit usual{};
  ASSERT_EQ(0, ::getrlimit(RLIMIT_NOFILE, &usual));
  rlimit tight = usual;
  tight.rlim_cur = static_cast<rlim_t>(client) + 8;
  ASSERT_EQ(0, ::setrlimit(RLIMIT_NOFILE, &tight));
  std::vector<int> held;
  for (int one = 0; (one = ::dup(client)) >= 0;) held.push_back(one);

  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(server.port()));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int connected = ::connect(client, reinterpret_cast<sockaddr*>(&address), sizeof(address));
  const auto deadline = Deadline::after(kPatience);
  while (lines.count("cannot accept") == 0 && !deadline.passed())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const auto processor_seconds = [] {
    timespec used{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
  };
  const double before = processor_seconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  const double used = processor_seconds() - before;

  for (const int one : held) ::close(one);
  ::setrlimit(RLIMIT_NOFILE, &usual);
  EXPECT_EQ(0, connected);
  EXPECT_LT(used, 0.25) << "seconds of processor time in half a second of waiting";
  EXPECT_EQ(lines.count("cannot accept"), 1) << lines.text();
  expect_words(lines.text(), {"warning: store: cannot accept", "Too many open files"});
  std::byte hello[store::kHelloBytes];
  EXPECT_EQ(::recv(client, hello, sizeof(hello), MSG_WAITALL), static_cast<ssize_t>(sizeof(hello)));
  ::close(client);
}

TEST(Store, ConnectRetriesUntilAServerListens) {
  const int port = unused_port();
  std::thread client([&] { EXPECT_EQ(connect(port)->add("count", 1), 1); });
  std::this_thread::sleep_for(
      std::chrono::milliseconds(50));  // most likely after the first attempt; either is fine
  StoreServer server("127.0.0.1", port, kSecret, Log());
  client.join();
}

TEST(Store, ConnectNamesTheAddressAfterTheDeadline) {
  const int port = unused_port();
  const auto text =
      message_of(Cause::kTimeout, [&] { connect(port, kSecret, std::chrono::milliseconds(100)); });
  expect_words(text, {"127.0.0.1:" + std::to_string(port), "refused"});
}

TEST(Store, DropsGarbageAndServesTheOthers) {
  StoreServer server("127.0.0.1", 0, kSecret, Log());
  RawClient garbage(server.port());
  const std::string request = "GET / HTTP/1.1\r\nHost: example\r\n\r\n" + std::string(200, 'x');
  garbage.send(request.data(), request.size());
  EXPECT_LE(garbage.drain(), store::kHelloBytes + store::kVerdictBytes);
  EXPECT_EQ(connect(server.port())->add("count", 1), 1);
}

TEST(Store, DropsATrustedClientThatSendsAbsurdLengths) {
  StoreServer server("127.0.0.1", 0, kSecret, Log());
  const auto channel =
      store::Channel::connect("127.0.0.1", server.port(), kSecret, Deadline::after(kPatience));
  const std::uint32_t length = 0xffffffff;
  channel->send(std::as_bytes(std::span(&length, 1)), Deadline::after(kPatience));
  message_of(Cause::kRemote, [&] { channel->receive(Deadline::after(kPatience)); });
  auto frame = store::encode(store::Kind::kSet, 1, "key", {});
  frame[9] = std::byte{200};  // a key longer than its frame
  const auto second =
      store::Channel::connect("127.0.0.1", server.port(), kSecret, Deadline::after(kPatience));
  second->send(frame, Deadline::after(kPatience));
  message_of(Cause::kRemote, [&] { second->receive(Deadline::after(kPatience)); });
  EXPECT_EQ(connect(server.port())->add("count", 1), 1);
}

std::unique_ptr<StoreWatch> watch_of(const StoreServer& server, std::string_view key,
                                     std::string_view presence = {}) {
  return store_at("127.0.0.1", server.port(), kSecret)->watch(key, presence, Deadline::after(kPatience));
}

TEST(StoreWatch, TellsOfTheKeyAndOfAServerThatCloses) {
  auto server = std::make_unique<StoreServer>("127.0.0.1", 0, kSecret, Log());
  const auto watch = watch_of(*server, "abort");
  const auto other = watch_of(*server, "never");
  EXPECT_EQ(watch->check(), StoreWatch::News::kNone);
  connect(server->port())->set("abort", bytes("why"));
  const auto deadline = Deadline::after(kPatience);
  while (watch->check() == StoreWatch::News::kNone && !deadline.passed()) std::this_thread::yield();
  EXPECT_EQ(watch->check(), StoreWatch::News::kValue);
  EXPECT_EQ(watch->value(), bytes("why"));
  EXPECT_EQ(other->check(), StoreWatch::News::kNone);
  server.reset();
  while (other->check() == StoreWatch::News::kNone && !deadline.passed()) std::this_thread::yield();
  EXPECT_EQ(other->check(), StoreWatch::News::kStoreLeft);
}

TEST(StoreWatch, AnswersQuestionsAboutOtherKeysAndWaitsOn) {
  StoreServer server("127.0.0.1", 0, kSecret, Log());
  const auto client = connect(server.port());
  client->set("there", bytes("value"));
  const auto watch = watch_of(server, "abort", "present/1");
  EXPECT_EQ(watch->answer(), std::nullopt) << "nothing was asked";
  const auto deadline = Deadline::after(kPatience);
  for (const auto& [key, there] : {std::pair("there", true), {"not there", false}, {"present/1", true}}) {
    watch->ask(key);
    std::optional<bool> answer;
    while (!(answer = watch->answer()) && !deadline.passed()) std::this_thread::yield();
    EXPECT_EQ(answer, there) << key;
    EXPECT_EQ(watch->answer(), std::nullopt) << "once";
    EXPECT_EQ(watch->check(), StoreWatch::News::kNone);
  }
  client->set("abort", bytes("why"));
  while (watch->check() == StoreWatch::News::kNone && !deadline.passed()) std::this_thread::yield();
  EXPECT_EQ(watch->value(), bytes("why"));
  watch->ask("there");
  EXPECT_EQ(watch->answer(), std::nullopt) << "behind the news";
}

// Both ways cross in the network.
TEST(StoreWatch, TellsOfAKeyThatWasSetAsItAskedForAnother) {
  for (int round = 0; round < 200; ++round) {
    StoreServer server("127.0.0.1", 0, kSecret, Log());
    const auto watch = watch_of(server, "abort");
    std::thread other([&] { connect(server.port())->set("abort", bytes("why")); });
    const auto deadline = Deadline::after(kPatience);
    for (bool open = false; watch->check() == StoreWatch::News::kNone && !deadline.passed();) {
      if (!open) watch->ask("there");
      open = !watch->answer();
    }
    EXPECT_EQ(watch->value(), bytes("why"));
    other.join();
    EXPECT_FALSE(watch->has_ended(Deadline::after(Duration::zero())));
  }
}

// Rank 0 fails, says why, and ends with its store while another rank's question is on its way.
TEST(StoreWatch, TellsOfAKeyThatWasSetWhileAnAnswerWasOnItsWay) {
  auto server = std::make_unique<StoreServer>("127.0.0.1", 0, kSecret, Log());
  const auto watch = watch_of(*server, "abort");
  const auto other = connect(server->port());
  watch->ask("there");
  pollfd answered{watch->descriptor(), POLLIN, 0};
  ASSERT_EQ(poll(&answered, 1, 60000), 1);
  other->set("abort", bytes("why"));
  server.reset();
  const auto deadline = Deadline::after(kPatience);
  while (watch->check() == StoreWatch::News::kNone && !deadline.passed()) std::this_thread::yield();
  EXPECT_EQ(watch->check(), StoreWatch::News::kValue) << static_cast<int>(watch->check());
}

TEST(StoreWatch, TellsOfTheServersEndAlsoBehindTheKey) {
  auto server = std::make_unique<StoreServer>("127.0.0.1", 0, kSecret, Log());
  const auto watch = watch_of(*server, "abort");
  const auto other = watch_of(*server, "never");
  const auto at_once = [] { return Deadline::after(Duration::zero()); };
  EXPECT_FALSE(watch->has_ended(at_once()));
  connect(server->port())->set("abort", bytes("why"));
  const auto deadline = Deadline::after(kPatience);
  while (watch->check() == StoreWatch::News::kNone && !deadline.passed()) std::this_thread::yield();
  EXPECT_FALSE(watch->has_ended(at_once()));
  EXPECT_FALSE(other->has_ended(at_once()));
  server.reset();
  EXPECT_TRUE(watch->has_ended(Deadline::after(kPatience)));
  EXPECT_EQ(watch->check(), StoreWatch::News::kValue) << "what came stays";
  EXPECT_EQ(watch->value(), bytes("why"));
  EXPECT_TRUE(other->has_ended(Deadline::after(kPatience)));
  EXPECT_EQ(other->check(), StoreWatch::News::kStoreLeft);
}

TEST(Store, HoldsAKeyForAsLongAsItsClientIsThere) {
  StoreServer server("127.0.0.1", 0, kSecret, Log());
  const auto other = connect(server.port());
  auto client = connect(server.port());
  client->hold("here/1");
  EXPECT_TRUE(other->try_get("here/1"));
  EXPECT_THROW(client->hold("here/2"), Error) << "one key";
  client.reset();
  const auto deadline = Deadline::after(kPatience);
  while (other->try_get("here/1") && !deadline.passed()) std::this_thread::yield();
  EXPECT_FALSE(other->try_get("here/1"));
}

TEST(StoreWatch, IsPresentInTheStoreUntilItsConnectionEnds) {
  StoreServer server("127.0.0.1", 0, kSecret, Log());
  const auto client = connect(server.port());
  auto watch = watch_of(server, "abort", "present/1");
  EXPECT_TRUE(client->try_get("present/1"));
  client->set("abort", bytes("why"));
  const auto deadline = Deadline::after(kPatience);
  while (watch->check() == StoreWatch::News::kNone && !deadline.passed()) std::this_thread::yield();
  EXPECT_EQ(watch->value(), bytes("why"));
  EXPECT_TRUE(client->try_get("present/1")) << "also once it has told its news";
  watch.reset();
  while (client->try_get("present/1") && !deadline.passed()) std::this_thread::yield();
  EXPECT_FALSE(client->try_get("present/1"));
}

TEST(Store, ClientsLearnThatTheServerIsGone) {
  auto server = std::make_unique<StoreServer>("127.0.0.1", 0, kSecret, Log());
  const auto client = connect(server->port());
  server.reset();
  expect_words(message_of(Cause::kRemote, [&] { client->get("key", Deadline::after(kPatience)); }),
               {"127.0.0.1"});
}

}  // namespace
}  // namespace tombolo::collectives
