#include "collectives/abort/abort_signal.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "base/unused_port_test.h"
#include "collectives/rendezvous/bootstrap.h"
#include "collectives/rendezvous/store_protocol.h"
#include "collectives/testing/test_support.h"

namespace tombolo::collectives {
namespace {

using std::chrono::seconds;
using test::kTestSecret;

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

Rendezvous at(int port) {
  return {store_at("127.0.0.1", port, kTestSecret), "127.0.0.1", port, "comm/7"};
}

Rendezvous at(const StoreServer& server) {
  return at(server.port());
}

bool readable(const AbortSignal& signal) {
  std::vector<pollfd> handles;
  signal.append_wait_handles(handles);
  return ::poll(handles.data(), static_cast<nfds_t>(handles.size()), 0) > 0;
}

/// Looks until there are news; kNone where none came in time.
AbortSignal::News next_news(AbortSignal& signal) {
  for (const auto deadline = Deadline::after(seconds(60)); !deadline.passed();) {
    if (const auto news = signal.check(); news != AbortSignal::News::kNone) return news;
    std::vector<pollfd> handles;
    signal.append_wait_handles(handles);
    ::poll(handles.data(), static_cast<nfds_t>(handles.size()), 20);
  }
  return AbortSignal::News::kNone;
}

TEST(AbortNote, ComesBackAsItWasWritten) {
  for (const Cause cause : {Cause::kSystem, Cause::kRemote, Cause::kTimeout, Cause::kAborted,
                            Cause::kInvalidUsage, Cause::kUnsupported, Cause::kInternal}) {
    const AbortNote note{123, cause, "rank 5 on host b1: 3 of 4 bytes\nand a second line"};
    const AbortNote read = AbortNote::decode(note.encode());
    EXPECT_EQ(read.rank, note.rank);
    EXPECT_EQ(read.cause, note.cause);
    EXPECT_EQ(read.text, note.text);
  }
  EXPECT_EQ(AbortNote::decode(AbortNote{4, Cause::kRemote, ""}.encode()).rank, 4);
}

TEST(AbortNote, BytesThatAreNoneGiveDefaults) {
  for (const std::string_view text : {"", "5", "five 1 text", "\xff\xfe"}) {
    const AbortNote note = AbortNote::decode(bytes_of(text));
    EXPECT_EQ(note.cause, Cause::kAborted) << text;
    EXPECT_EQ(note.text, "") << text;
  }
  for (const std::string_view text : {"3 7 odd", "3 -1 odd", "3 1000000 odd"}) {
    const AbortNote note = AbortNote::decode(bytes_of(text));
    EXPECT_EQ(note.rank, 3) << text;
    EXPECT_EQ(note.cause, Cause::kAborted) << "there is no such cause: " << text;
    EXPECT_EQ(note.text, "odd");
  }
}

TEST(AbortNote, TakesNoMoreTextThanAMessageNeeds) {
  AbortNote note{1, Cause::kRemote, std::string(1 << 20, 'x')};
  EXPECT_LT(note.encode().size(), AbortNote::kLongestText + 20);
  const AbortNote read = AbortNote::decode(bytes_of("1 1 " + note.text));
  EXPECT_EQ(read.text, std::string(AbortNote::kLongestText, 'x'));
  EXPECT_EQ(AbortNote::decode(bytes_of("99999999999 1 text")).text, "") << "no rank has such a number";
}

TEST(AbortSignal, IsQuietUntilItIsRaisedAndKeepsTheFirstReason) {
  AbortSignal signal;
  EXPECT_FALSE(signal.is_raised());
  EXPECT_FALSE(signal.raised());
  EXPECT_FALSE(readable(signal));
  EXPECT_EQ(signal.check(), AbortSignal::News::kNone) << "no store is watched";
  std::thread([&] { signal.raise("the first"); }).join();
  signal.raise("the second");
  EXPECT_TRUE(signal.is_raised());
  EXPECT_EQ(signal.raised(), "the first");
  // It stays so: every later wait has to end too.
  EXPECT_TRUE(readable(signal));
  EXPECT_TRUE(readable(signal));
}

TEST(AbortSignal, WakesAThreadThatSleepsOnIt) {
  AbortSignal signal;
  std::thread sleeper([&] {
    std::vector<pollfd> handles;
    signal.append_wait_handles(handles);
    EXPECT_EQ(::poll(handles.data(), static_cast<nfds_t>(handles.size()), 60'000), 1);
  });
  signal.raise("now");
  sleeper.join();
}

TEST(AbortSignal, BringsAnotherRanksNoteOfWhichTheFirstStands) {
  StoreServer server("127.0.0.1", 0, kTestSecret, Log());
  AbortSignal signal;
  signal.watch(at(server), 0, Deadline::after(seconds(60)));
  EXPECT_EQ(signal.check(), AbortSignal::News::kNone);
  const AbortNote first = AbortSignal::publish(at(server), {2, Cause::kTimeout, "rank 2 waited"});
  EXPECT_EQ(first.rank, 2);
  const AbortNote second = AbortSignal::publish(at(server), {1, Cause::kRemote, "rank 1 noticed"});
  EXPECT_EQ(second.rank, 2) << "the first note stands";
  EXPECT_EQ(second.text, "rank 2 waited");
  ASSERT_EQ(next_news(signal), AbortSignal::News::kNote);
  EXPECT_EQ(signal.note().rank, 2);
  EXPECT_EQ(signal.note().cause, Cause::kTimeout);
  EXPECT_EQ(signal.note().text, "rank 2 waited");
  EXPECT_EQ(signal.check(), AbortSignal::News::kNote) << "it stays so";
}

TEST(AbortSignal, IsAwaitedUntilTheDeadlineOrWhileThereMayBeNews) {
  FakeClock standing;
  const auto deadline = Deadline::after(seconds(1), standing);
  AbortSignal signal, late;
  EXPECT_EQ(signal.await(deadline), AbortSignal::News::kNone) << "no store is watched";
  auto server = std::make_unique<StoreServer>("127.0.0.1", 0, kTestSecret, Log());
  signal.watch(at(*server), 0, Deadline::after(seconds(60)));
  late.watch(at(*server), 1, Deadline::after(seconds(60)));
  EXPECT_EQ(signal.await(Deadline::after(std::chrono::milliseconds(1))), AbortSignal::News::kNone);
  AbortSignal::publish(at(*server), {2, Cause::kTimeout, "rank 2 waited"});
  EXPECT_EQ(signal.await(deadline), AbortSignal::News::kNote);
  EXPECT_EQ(signal.note().rank, 2);
  server.reset();
  EXPECT_EQ(late.await(deadline), AbortSignal::News::kNote) << "it was told before the store closed";
  server = std::make_unique<StoreServer>("127.0.0.1", 0, kTestSecret, Log());
  AbortSignal in_vain;
  in_vain.watch(at(*server), 0, Deadline::after(seconds(60)));
  server.reset();
  EXPECT_EQ(in_vain.await(deadline), AbortSignal::News::kNone) << "the store will tell nothing more";
}

TEST(AbortSignal, DoesNotHearOtherCommunicators) {
  StoreServer server("127.0.0.1", 0, kTestSecret, Log());
  AbortSignal signal;
  signal.watch(at(server), 0, Deadline::after(seconds(60)));
  Rendezvous other = at(server);
  other.prefix = "comm/70";
  AbortSignal::publish(other, {1, Cause::kRemote, "elsewhere"});
  AbortSignal::publish(at(server), {3, Cause::kRemote, "here"});
  ASSERT_EQ(next_news(signal), AbortSignal::News::kNote);
  EXPECT_EQ(signal.note().text, "here");
}

TEST(AbortSignal, AStoreThatClosesOnPurposeIsNoNewsAndNothingToSleepOn) {
  auto server = std::make_unique<StoreServer>("127.0.0.1", 0, kTestSecret, Log());
  AbortSignal signal;
  signal.watch(at(*server), 0, Deadline::after(seconds(60)));
  std::vector<pollfd> before, after;
  signal.append_wait_handles(before);
  server.reset();
  // Once it has read that the store closes, its descriptor would be readable for ever.
  for (const auto deadline = Deadline::after(seconds(60)); after.size() != 1 && !deadline.passed();) {
    EXPECT_EQ(signal.check(), AbortSignal::News::kNone);
    after.clear();
    signal.append_wait_handles(after);
  }
  EXPECT_EQ(before.size(), 2u);
  EXPECT_EQ(after.size(), 1u);
}

/// A store that proves itself to one client and then ends as a killed process does: without a word.
class DyingStore {
 public:
  DyingStore() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(listener_, 1), 0);
    EXPECT_EQ(::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~DyingStore() {
    thread_.join();
    ::close(listener_);
  }
  int port = 0;

 private:
  void serve() const {
    const int client = ::accept(listener_, nullptr, nullptr);
    const store::Nonce nonce = store::random_nonce();
    const auto hello = store::make_hello(nonce);
    EXPECT_EQ(::send(client, hello.data(), hello.size(), MSG_NOSIGNAL), static_cast<ssize_t>(hello.size()));
    std::array<std::byte, store::kProofBytes> proof{};
    EXPECT_EQ(::recv(client, proof.data(), proof.size(), MSG_WAITALL), static_cast<ssize_t>(proof.size()));
    store::Nonce theirs{};
    EXPECT_TRUE(store::check_proof(kTestSecret, nonce, proof, theirs));
    const auto verdict = store::make_verdict(kTestSecret, nonce, theirs, StoreId{});
    ::send(client, verdict.data(), verdict.size(), MSG_NOSIGNAL);
    auto held = store::encode(store::Kind::kHold, 1, "comm/7/present/0", {});
    EXPECT_EQ(::recv(client, held.data(), held.size(), MSG_WAITALL), static_cast<ssize_t>(held.size()));
    const auto answer = store::encode(store::Kind::kValue, 1, {}, {});
    ::send(client, answer.data(), answer.size(), MSG_NOSIGNAL);
    std::byte request{};  // the watch has asked for its key by then
    ::recv(client, &request, 1, 0);
    ::close(client);
  }
  int listener_;
  std::thread thread_;
};

TEST(AbortSignal, AStoreThatDiesIsNews) {
  DyingStore server;
  AbortSignal signal;
  signal.watch(at(server.port), 0, Deadline::after(seconds(60)));
  EXPECT_EQ(next_news(signal), AbortSignal::News::kStoreLost);
}

TEST(AbortSignal, TellsNobodyInALaterStoreAtTheSameAddress) {
  auto server = std::make_unique<StoreServer>("127.0.0.1", 0, kTestSecret, Log());
  const int port = server->port();
  AbortSignal earlier, later;
  const Rendezvous of_earlier = at(port);
  earlier.watch(of_earlier, 0, Deadline::after(seconds(60)));
  server.reset();
  server = std::make_unique<StoreServer>("127.0.0.1", port, kTestSecret, Log());
  later.watch(at(port), 0, Deadline::after(seconds(60)));
  EXPECT_EQ(AbortSignal::publish(of_earlier, {6, Cause::kSystem, "alone"}).rank, 6);
  AbortSignal::publish(at(port), {1, Cause::kRemote, "here"});
  ASSERT_EQ(next_news(later), AbortSignal::News::kNote);
  EXPECT_EQ(later.note().text, "here");
}

TEST(AbortSignal, TheOwnNoteStandsWhereNoStoreCanBeReached) {
  const AbortNote note = AbortSignal::publish(at(unused_port()), {6, Cause::kSystem, "alone"});
  EXPECT_EQ(note.rank, 6);
  EXPECT_EQ(note.cause, Cause::kSystem);
  EXPECT_EQ(note.text, "alone");
}

}  // namespace
}  // namespace tombolo::collectives
