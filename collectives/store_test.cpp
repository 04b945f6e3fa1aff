#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include "base/error.h"
#include "collectives/bootstrap.h"
#include "collectives/store_client.h"

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

TEST(Store, SaysThatAnAddressIsNotOfThisHost) {
  const auto text = message_of(Cause::kSystem, [&] { StoreServer server("192.0.2.1", 0, kSecret, Log()); });
  expect_words(text, {"192.0.2.1", "rank 0"});
}

TEST(Store, ConnectRetriesUntilSomebodyListens) {
  int port = 0;
  {
    StoreServer probe("127.0.0.1", 0, kSecret, Log());
    port = probe.port();
  }
  std::thread client([&] { EXPECT_EQ(connect(port)->add("count", 1), 1); });
  std::this_thread::sleep_for(
      std::chrono::milliseconds(50));  // most likely after the first attempt; either is fine
  StoreServer server("127.0.0.1", port, kSecret, Log());
  client.join();
}

TEST(Store, ConnectNamesTheAddressAfterTheDeadline) {
  int port = 0;
  {
    StoreServer probe("127.0.0.1", 0, kSecret, Log());
    port = probe.port();
  }
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

TEST(StoreWatch, TellsOfTheKeyAndOfAFarewell) {
  auto server = std::make_unique<StoreServer>("127.0.0.1", 0, kSecret, Log());
  store::Watch watch("127.0.0.1", server->port(), kSecret, "abort", Deadline::after(kPatience));
  store::Watch other("127.0.0.1", server->port(), kSecret, "never", Deadline::after(kPatience));
  EXPECT_EQ(watch.check(), store::Watch::News::kNone);
  connect(server->port())->set("abort", bytes("why"));
  const auto deadline = Deadline::after(kPatience);
  while (watch.check() == store::Watch::News::kNone && !deadline.passed()) std::this_thread::yield();
  EXPECT_EQ(watch.check(), store::Watch::News::kValue);
  EXPECT_EQ(watch.value(), bytes("why"));
  EXPECT_EQ(other.check(), store::Watch::News::kNone);
  server.reset();
  while (other.check() == store::Watch::News::kNone && !deadline.passed()) std::this_thread::yield();
  EXPECT_EQ(other.check(), store::Watch::News::kStoreLeft);
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
