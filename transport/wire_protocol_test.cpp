// docs/wire-protocol.md says what the code does.
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "base/format.h"
#include "base/limited_warning.h"
#include "transport/bootstrap/half_open_streams.h"
#include "transport/bootstrap/handshake.h"
#include "transport/bootstrap/listener.h"
#include "transport/bootstrap/process_helpers.h"
#include "transport/bootstrap/registrations.h"
#include "transport/goodbye.h"
#include "transport/rdma/set_up_message.h"
#include "transport/routing/failover_record.h"
#include "transport/shm/connection.h"
#include "transport/shm/set_up_message.h"
#include "transport/sockets/sealed_bytes.h"
#include "transport/tcp/connection.h"
#include "transport/tcp/lifecycle/reconnector.h"
#include "transport/tcp/stream/wire.h"
#include "transport/ucx/set_up_message.h"

namespace tombolo::transport {
namespace {

constexpr auto kAll = std::byte{0xff};

std::string document() {
  std::ifstream file(TOMBOLO_SOURCE_DIR "/docs/wire-protocol.md");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// The rows below the first table header after `title`, as they stand, without the rule.
std::vector<std::string> table_after(const std::string& title) {
  const std::string text = document();
  std::vector<std::string> rows;
  std::istringstream lines(text.substr(std::min(text.find("\n" + title + "\n"), text.size())));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("|"))
      rows.push_back(line);
    else if (!rows.empty())
      break;
  }
  if (rows.size() < 3) return {};
  rows.erase(rows.begin(), rows.begin() + 2);
  return rows;
}

/// "| offset | bytes |" of the bytes in which the two differ, which must lie together.
std::string place_of(std::span<const std::byte> one, std::span<const std::byte> other) {
  std::size_t first = one.size(), last = 0;
  for (std::size_t i = 0; i < one.size(); ++i) {
    if (one[i] == other[i]) continue;
    first = std::min(first, i);
    last = i;
  }
  return fmt::format("| {} | {} |", first, last + 1 - first);
}

template <typename Message>
void expect_rows(const std::string& title, std::size_t skip,
                 const std::vector<std::function<void(Message&)>>& changes) {
  const auto rows = table_after(title);
  ASSERT_EQ(rows.size(), skip + changes.size()) << title;
  for (std::size_t i = 0; i < changes.size(); ++i) {
    Message changed;
    changes[i](changed);
    const std::string place = place_of(Message{}.encode(), changed.encode());
    EXPECT_TRUE(rows[skip + i].starts_with(place)) << title << " " << rows[skip + i] << " is at " << place;
  }
}

TEST(WireProtocol, OffsetsOfTheHandshakeAreAsDocumented) {
  using bootstrap::Challenge, bootstrap::Hello, bootstrap::Proof, bootstrap::Reply;
  const std::string host(64, 'h'), nic(32, 'n');
  expect_rows<Hello>(
      "Hello:", 3,
      {[](Hello& hello) { hello.connection.fill(kAll); }, [](Hello& hello) { hello.nonce.fill(kAll); },
       [](Hello& hello) { hello.process = UINT64_MAX; }, [](Hello& hello) { hello.sender = UINT64_MAX; },
       [](Hello& hello) { hello.stream = UINT16_MAX; }, [](Hello& hello) { hello.streams = 0xfefe; },
       [](Hello& hello) { hello.label = UINT64_MAX; },
       [](Hello& hello) { hello.kind = topology::NicKind{0}; }, [](Hello& hello) { hello.emulated = true; },
       [](Hello& hello) { hello.carrier = Carrier::kUcx; },
       [](Hello& hello) { hello.patience_ms = UINT32_MAX; },
       [](Hello& hello) { hello.purpose = bootstrap::Purpose::kAsk; },
       [](Hello& hello) { hello.listener = UINT32_MAX; }, [](Hello& hello) { hello.epoch = UINT32_MAX; },
       [](Hello& hello) { hello.cluster = UINT32_MAX; }, [](Hello& hello) { hello.reply_port = UINT16_MAX; },
       [&](Hello& hello) { hello.host = host; }, [&](Hello& hello) { hello.nic = nic; },
       [](Hello& hello) { hello.resumable = true; }});
  expect_rows<Challenge>("Challenge:", 1,
                         {[](Challenge& one) { one.status = bootstrap::HandshakeStatus::kRefused; },
                          [](Challenge& one) { one.nonce.fill(kAll); }});
  expect_rows<Proof>("Proof:", 0, {[](Proof& proof) { proof.mac.fill(kAll); }});
  expect_rows<Reply>(
      "Reply:", 1,
      {[](Reply& reply) { reply.status = bootstrap::HandshakeStatus::kGone; },
       [&](Reply& reply) { reply.host = host; }, [&](Reply& reply) { reply.nic = nic; },
       [](Reply& reply) { reply.resumable = true; }, [](Reply& reply) { reply.legs_listener = UINT32_MAX; },
       [](Reply& reply) { reply.mac.fill(kAll); }});
}

/// Whose the numbers are: a compiler warns of a status that is not here.
bool is_status(bootstrap::HandshakeStatus status) {
  using enum bootstrap::HandshakeStatus;
  switch (status) {
    case kOk:
    case kOtherVersion:
    case kOtherSecret:
    case kRefused:
    case kNoCarrier:
    case kGone:
    case kTlsOff:
    case kTlsWanted:
    case kOtherProcess:
      return true;
  }
  return false;
}

TEST(WireProtocol, StatusesAreAsDocumented) {
  const auto rows = table_after("What no row names is zero. Statuses:");
  using enum bootstrap::HandshakeStatus;
  const std::vector<std::pair<bootstrap::HandshakeStatus, std::string>> statuses = {
      {kOk, "Challenge, Reply | fine"},
      {kOtherVersion, "Challenge | another protocol version"},
      {kOtherSecret, "Reply | another secret"},
      {kRefused, "Challenge | values that make no sense"},
      {kNoCarrier, "Challenge | this end cannot use that carrier"},
      {kGone, "Challenge, Reply | there is no such listener or connection"},
      {kTlsOff, "Challenge | the stream came with TLS, which this end does not use"},
      {kTlsWanted, "Challenge | the stream came without TLS, which this end wants"},
      {kOtherProcess, "Challenge | meant for another process"}};
  ASSERT_EQ(rows.size(), statuses.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::string begins =
        fmt::format("| {} | {}", static_cast<int>(statuses[i].first), statuses[i].second);
    EXPECT_TRUE(rows[i].starts_with(begins)) << rows[i] << " instead of " << begins;
  }
  std::size_t known = 0;
  for (int number = 0; number <= UINT8_MAX; ++number)
    known += is_status(static_cast<bootstrap::HandshakeStatus>(number));
  EXPECT_EQ(known, rows.size());
}

TEST(WireProtocol, OffsetsOfAFailoverRecordAreAsDocumented) {
  const auto rows = table_after("## Failover");
  ASSERT_EQ(rows.size(), 6u);
  FailoverRecord prefix, bits, at;
  prefix.prefix = UINT64_MAX;
  bits.beyond.set();
  at.endpoint.process = UINT64_MAX;
  const auto plain = FailoverRecord{}.encode();
  EXPECT_TRUE(rows[2].starts_with(place_of(plain, prefix.encode()))) << rows[2];
  EXPECT_TRUE(rows[3].starts_with(place_of(plain, bits.encode()))) << rows[3];
  const std::vector<std::byte> bytes = at.encode();
  const std::size_t endpoint = std::stoul(rows[5].substr(2));
  EXPECT_EQ(Endpoint::decode(std::span(bytes).subspan(endpoint)).process, UINT64_MAX);
  EXPECT_NE(document().find(fmt::format("it has {} bytes", FailoverRecord::kBytes)), std::string::npos);
}

TEST(WireProtocol, OffsetsOfAFrameAreAsDocumented) {
  using tcp::FrameHeader;
  const std::vector<std::function<void(FrameHeader&)>> changes = {
      [](FrameHeader& header) { header.type = tcp::FrameType::kPing; },
      [](FrameHeader& header) { header.flags = tcp::kAllFlags; },
      [](FrameHeader& header) { header.length = UINT32_MAX; },
      [](FrameHeader& header) { header.sequence = UINT64_MAX; },
      [](FrameHeader& header) { header.total = tcp::kLongestMessage; },
      [](FrameHeader& header) { header.offset = tcp::kLongestMessage; },
      [](FrameHeader& header) { header.ack = UINT32_MAX; },
      [](FrameHeader& header) { header.checksum = UINT32_MAX; }};
  const auto rows = table_after("## Frames of a TCP stream");
  ASSERT_EQ(rows.size(), changes.size() + 2);
  for (std::size_t i = 0; i < changes.size(); ++i) {
    FrameHeader changed;
    changes[i](changed);
    tcp::HeaderBytes plain, other;
    encode(FrameHeader{}, plain);
    encode(changed, other);
    constexpr std::size_t kSealed = tcp::kHeaderBytes - 4;  // the header's own checksum differs too
    const std::string place = place_of(std::span(plain).first(kSealed), std::span(other).first(kSealed));
    EXPECT_TRUE(rows[i + 1].starts_with(place)) << rows[i + 1] << " is at " << place;
  }
}

TEST(WireProtocol, LimitsAreAsDocumented) {
  const auto seconds = [](Duration time) {
    return static_cast<std::uint64_t>(time / std::chrono::seconds(1));
  };
  const std::vector<std::pair<std::string, std::uint64_t>> limits = {
      {"Hello::kBytes", bootstrap::Hello::kBytes},
      {"Challenge::kBytes", bootstrap::Challenge::kBytes},
      {"Proof::kBytes", bootstrap::Proof::kBytes},
      {"Reply::kBytes", bootstrap::Reply::kBytes},
      {"kHeaderBytes", tcp::kHeaderBytes},
      {"Secret::kBytes", Secret::kBytes},
      {"kMostStreams", tcp::kMostStreams},
      {"kMostCarriers", kMostCarriers},
      {"kMostOffers", kMostOffers},
      {"kLongestMessage", tcp::kLongestMessage},
      {"kLongestChunk", tcp::kLongestChunk},
      {"FailoverRecord::kBytes", FailoverRecord::kBytes},
      {"Goodbye::kBytes", Goodbye::kBytes},
      {"shm::SetUpMessage::kBytes", shm::SetUpMessage::kBytes},
      {"rdma::SetUpMessage::kBytes", rdma::SetUpMessage::kBytes},
      {"ucx::SetUpMessage::kBytes", ucx::SetUpMessage::kBytes},
      {"kMostEpochsAhead", tcp::kMostEpochsAhead},
      {"Receiver::kMostEpochSummaries", tcp::Receiver::kMostEpochSummaries},
      {"ReceiveSide::kMostAhead", tcp::ReceiveSide::kMostAhead},
      {"kRequestsPerDirection", kRequestsPerDirection},
      {"HalfOpenStreams::kMost", bootstrap::HalfOpenStreams::kMost},
      {"ProcessHelpers::kMostRefused", bootstrap::ProcessHelpers::kMostRefused},
      {"Registrations::kMostClosed", bootstrap::Registrations::kMostClosed},
      {"ClosingSockets::kMostSockets", sockets::ClosingSockets::kMostSockets},
      {"HalfOpenStreams::kMostAccepted", bootstrap::HalfOpenStreams::kMostAccepted},
      {"AuthenticatingListener::kMostTaken", bootstrap::AuthenticatingListener::kMostTaken},
      {"TcpConnection::kMostArrivals", tcp::TcpConnection::kMostArrivals},
      {"TcpConnection::kMostPerCall", tcp::TcpConnection::kMostPerCall},
      {"shm::TurnBudget::kMost", shm::TurnBudget::kMost},
      {"ClosingSockets::kMostRead", sockets::ClosingSockets::kMostRead},
      {"SealedBytes::kHandshakeIn", sockets::SealedBytes::kHandshakeIn},
      {"kHelloTime", seconds(bootstrap::kHelloTime)},
      {"Dial::kAnswerWithin", seconds(bootstrap::Dial::kAnswerWithin)},
      {"Reconnector::kHandshake", seconds(tcp::Reconnector::kHandshake)},
      {"kMostPatience", seconds(bootstrap::kMostPatience)},
      {"ProcessHelpers::kLongestRefused", seconds(bootstrap::ProcessHelpers::kLongestRefused)},
      {"LimitedWarning::kFirst", LimitedWarning::kFirst},
      {"LimitedWarning::kInterval", seconds(LimitedWarning::kInterval)}};
  const auto rows = table_after("## Limits");
  ASSERT_EQ(rows.size(), limits.size());
  for (std::size_t i = 0; i < limits.size(); ++i)
    EXPECT_TRUE(rows[i].ends_with(fmt::format("| {} | `{}` |", limits[i].second, limits[i].first)))
        << rows[i];
}

TEST(WireProtocol, VersionIsAsDocumented) {
  const std::string said =
      fmt::format("This is version {}, and it speaks no other", bootstrap::kProtocolVersion);
  EXPECT_NE(document().find(said), std::string::npos) << said;
}

}  // namespace
}  // namespace tombolo::transport
