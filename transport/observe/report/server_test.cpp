#include "transport/observe/report/server.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "transport/descriptor.h"

namespace tombolo::transport::report {
namespace {

Descriptor connect_to(std::uint16_t port) {
  Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  EXPECT_EQ(connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  return socket;
}

/// Everything up to the peer's end, or what came within 30 s.
std::string read_all(int socket) {
  std::string all;
  std::array<char, 4096> part;
  for (;;) {
    pollfd ready{socket, POLLIN, 0};
    if (poll(&ready, 1, 30'000) != 1) return all + "(no end)";
    const ssize_t got = recv(socket, part.data(), part.size(), 0);
    if (got <= 0) return all;
    all.append(part.data(), static_cast<std::size_t>(got));
  }
}

std::string ask(std::uint16_t port, const std::string& request) {
  Descriptor socket = connect_to(port);
  send(socket.get(), request.data(), request.size(), MSG_NOSIGNAL);
  return read_all(socket.get());
}

ServerOptions options_at(const std::string& listen) {
  ServerOptions options;
  options.meters = std::make_shared<Meters>();
  options.reporter = {"a0", 77};
  options.listen = listen;
  return options;
}

std::string body_of(const std::string& response) {
  const auto end = response.find("\r\n\r\n");
  return end == std::string::npos ? "" : response.substr(end + 4);
}

TEST(MetersServer, AnswersItsTwoPagesAndNothingElse) {
  ServerOptions options = options_at("0");
  auto meters = std::make_shared<Meters>();
  options.meters = meters;
  Server server(options);
  Metering one(meters, {});
  one->sent_bytes.add(4711);
  const std::string metrics = ask(server.port(), "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(metrics.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4;")) << metrics;
  EXPECT_NE(metrics.find(" 4711\n"), std::string::npos);
  const auto json = nlohmann::json::parse(body_of(ask(server.port(), "GET /json HTTP/1.0\r\n\r\n")));
  EXPECT_EQ(json["connections"][0]["sent_bytes"], 4711);
  EXPECT_EQ(json["host"], "a0");
  EXPECT_TRUE(ask(server.port(), "GET /etc/passwd HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
  EXPECT_TRUE(ask(server.port(), "DELETE /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405 "));
  EXPECT_TRUE(ask(server.port(), std::string(20'000, 'x')).starts_with("HTTP/1.1 431 "));
  EXPECT_EQ(body_of(ask(server.port(), "HEAD /metrics HTTP/1.1\r\n\r\n")), "");
}

TEST(MetersServer, AnswersWhileOthersHoldTheirRequestsBack) {
  Server server(options_at("127.0.0.1:0"));
  std::vector<Descriptor> slow;
  for (int i = 0; i < 8; ++i) {
    slow.push_back(connect_to(server.port()));
    send(slow.back().get(), "GET /met", 8, MSG_NOSIGNAL);
  }
  EXPECT_TRUE(ask(server.port(), "GET /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200 "));
}

TEST(MetersServer, TakesTheFirstFreePortOfARangeAndNamesThePortThatIsTaken) {
  Server first(options_at("0"));
  const unsigned port = first.port();
  try {
    Server second(options_at(std::to_string(port)));
    FAIL() << "two servers at port " << port;
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::kSystem);
    const std::string what = error.what();
    EXPECT_NE(what.find(fmt::format("port {}", port)), std::string::npos) << what;
    EXPECT_NE(what.find("in use"), std::string::npos) << what;
  }
  if (port < 65'000) {
    Server third(options_at(fmt::format("{}-{}", port, port + 50)));
    EXPECT_GT(third.port(), port);
  }
}

TEST(MetersServer, EndsThoughAForkedChildLives) {
  auto server = std::make_unique<Server>(options_at("0"));
  const std::string port = std::to_string(server->port());
  Descriptor client = connect_to(server->port());
  send(client.get(), "GET /met", 8, MSG_NOSIGNAL);
  EXPECT_TRUE(ask(server->port(), "GET /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200 "));
  int begun[2], life[2];  // the child lives for as long as the parent holds the writing end of this one
  ASSERT_EQ(pipe(begun), 0);
  ASSERT_EQ(pipe(life), 0);
  const pid_t child = fork();
  if (child == 0) {
    alarm(120);
    ::close(life[1]);
    char byte = 0;
    const bool told = ::write(begun[1], &byte, 1) == 1 && ::read(life[0], &byte, 1) == 0;
    server.reset();  // as its exit would: it must not wait for the thread, which a child does not have
    _exit(told ? 0 : 1);
  }
  ASSERT_GT(child, 0);
  ::close(begun[1]);
  char byte = 0;
  EXPECT_EQ(::read(begun[0], &byte, 1), 1);
  server.reset();
  EXPECT_EQ(read_all(client.get()), "") << "the connection ends with the server";
  EXPECT_NO_THROW(Server(options_at(port)));
  for (const int end : {begun[0], life[0], life[1]}) ::close(end);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(MetersServer, WritesItsFileAgainAndAgain) {
  const auto path = std::filesystem::temp_directory_path() / fmt::format("tombolo_meters_{}.json", getpid());
  ServerOptions options = options_at("");
  options.file = path.string();
  options.every = std::chrono::milliseconds(20);
  {
    Server server(options);
    EXPECT_EQ(server.port(), 0);
    for (int round = 0; round < 2; ++round) {
      std::filesystem::remove(path);
      const auto deadline = Deadline::after(std::chrono::seconds(30));
      while (!std::filesystem::exists(path) && !deadline.passed()) usleep(1000);
      ASSERT_TRUE(std::filesystem::exists(path));
      std::ifstream in(path);
      EXPECT_EQ(nlohmann::json::parse(in)["process"], 77);
    }
  }
  std::filesystem::remove(path);
}

TEST(MetersAddress, IsReadWithAndWithoutHostAndRange) {
  const auto is = [](const std::string& text, const std::string& host, int first, int last) {
    const Address address = parse_address(text, "X");
    EXPECT_EQ(address.host, host);
    EXPECT_EQ(address.first_port, first);
    EXPECT_EQ(address.last_port, last);
  };
  is("9400", "127.0.0.1", 9400, 9400);
  is(":9400", "127.0.0.1", 9400, 9400);
  is("0.0.0.0:9400-9407", "0.0.0.0", 9400, 9407);
  is("[::1]:0", "::1", 0, 0);
  for (const char* bad : {"", "x", "99999", "1-", "5-4", "0-4", "localhost:80", "1.2.3:80", "-1", "80x"}) {
    EXPECT_THROW(parse_address(bad, "X"), Error) << bad;
  }
}

}  // namespace
}  // namespace tombolo::transport::report
