// Connections that move to another way, over a library of verbs without hardware whose network is cut at any
// point: of what is under way it loses all, a part, or the acknowledgement alone, and it delivers some late.
#include "transport/routing/failover_connection.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iostream>
#include <regex>
#include <set>

#include "transport/testing/failover_fixture.h"
#include "transport/testing/random_exchange.h"
#include "transport/testing/test_messages.h"

namespace tombolo::transport {
namespace {

using Failover = test::FailoverTest;

TEST_F(Failover, ACutAfterAnyPieceOfWorkLosesNothing) {
  std::mt19937_64 random(test_seed());
  const auto rounds = static_cast<std::size_t>(test_rounds(50));
  std::size_t moved = 0;
  for (std::size_t piece = 1; piece <= rounds; ++piece) {
    SCOPED_TRACE(fmt::format("cut after {} pieces of work", piece));
    const std::size_t nics = 1 + random() % 2;
    connect(nics, 1 + static_cast<int>(random() % 3), random() % 3 == 0 ? 100 : 4096);
    verbs_.cut_after(piece, random() % 2 == 0);
    test::exchange_randomly(left(), right(), random, 12);
    if (HasFatalFailure()) return;
    moved += moving(left()).moves();
    EXPECT_EQ(left().statistics().messages_received, 13u);
    EXPECT_EQ(right().statistics().messages_sent, 13u);
    pair_ = {};
    verbs_.reset(static_cast<unsigned>(random()));
  }
  EXPECT_GT(moved, rounds / 2) << "most cuts are within the traffic";
}

TEST_F(Failover, SeveralFailuresInOneConnectionLoseNothing) {
  std::mt19937_64 random(test_seed());
  for (int round = 0; round < test_rounds(6); ++round) {
    connect(2, 2);
    // The next one as soon as it has moved for the one before, so that messages are left.
    std::uint64_t cuts = 0;
    test::exchange_randomly(left(), right(), random, 60, [&](std::size_t) {
      if (cuts >= 4 || moving(left()).moves() < cuts) return;
      ++cuts;
      verbs_.cut_after(1 + random() % 40, cuts == 4);
    });
    if (HasFatalFailure()) return;
    EXPECT_GE(moving(left()).moves(), 2u);
    pair_ = {};
    verbs_.reset(static_cast<unsigned>(random()));
  }
}

TEST_F(Failover, ThreadsThatSleepGoOnOverTcp) {
  connect();
  EXPECT_EQ(left().route().transport, "carrier 6");
  verbs_.cut_after(40, true);
  test::expect_random_messages_both_ways(pair_, test_rounds(200), 5'000, 600'000);
  EXPECT_EQ(left().route().transport, "tcp");
  EXPECT_EQ(right().route().transport, "tcp");
  EXPECT_EQ(left().label(), 77u);
  EXPECT_EQ(right().label(), 77u);
  // The log says whither, what the time is made of, and why.
  test::expect_in(book_.text(), "goes on over tcp");
  EXPECT_TRUE(std::regex_search(
      book_.text(),
      std::regex("later: [0-9.e+]+ [mu]?s until the last way was stopped, [0-9.e+]+ [mu]?s until this one "
                 "was there, "
                 "[0-9.e+]+ [mu]?s until both ends knew what is missing; messages to send again: [0-9]+[.]")))
      << book_.text();
  test::expect_in(book_.text(), "It moved because");
  test::expect_in(book_.text(), "acknowledged nothing, 8 tries");
}

TEST_F(Failover, MessagesThatCameBeforeTheirReceivesAreKept) {
  connect();
  std::mt19937_64 random(test_seed());
  std::vector<std::vector<std::byte>> messages;
  std::vector<Request*> sends;
  for (int i = 0; i < 20; ++i) messages.push_back(test::random_data(random, random() % 4000));
  for (const auto& message : messages) sends.push_back(left().post_send(message));
  std::size_t bytes = 0;
  for (Request* send : sends) ASSERT_EQ(test::finish(left(), send, bytes, &right()), Outcome::kDone);
  verbs_.cut_after(1, true);
  std::byte one{};
  Request* last = left().post_send({&one, 1});
  move_until([&] { return moving(left()).moves() == 1 && moving(right()).moves() == 1; });
  for (const auto& message : messages) {
    std::vector<std::byte> buffer(5000);
    Request* receive = right().post_receive(buffer);
    ASSERT_EQ(test::finish(right(), receive, bytes, &left()), Outcome::kDone);
    ASSERT_EQ(bytes, message.size());
    ASSERT_TRUE(std::equal(message.begin(), message.end(), buffer.begin()));
  }
  Request* receive = right().post_receive({&one, 1});
  EXPECT_EQ(test::finish(right(), receive, bytes, &left()), Outcome::kDone);
  EXPECT_EQ(test::finish(left(), last, bytes, &right()), Outcome::kDone);
}

TEST_F(Failover, AnOwnerThatMakesNoCallsHoldsNobodyUp) {
  std::mt19937_64 random(test_seed());
  for (const bool from_left : {true, false}) {
    connect();
    Connection& idle = from_left ? right() : left();
    Connection& busy = from_left ? left() : right();
    // Over TCP it is done once it is copied; larger ones wait for the peer's calls, as they do there always.
    const auto message = test::random_data(random, 20'000);
    std::vector<std::byte> buffer(message.size());
    Request* receive = idle.post_receive(buffer);
    idle.progress();
    verbs_.cut_after(1, true);
    Request* send = busy.post_send(message);
    std::size_t bytes = 0;
    ASSERT_EQ(test::finish(busy, send, bytes), Outcome::kDone) << test::why_failed(busy);
    EXPECT_EQ(test::finish(idle, receive, bytes), Outcome::kDone) << test::why_failed(idle);
    EXPECT_EQ(message, buffer);
    EXPECT_EQ(idle.route().transport, "tcp");
    pair_ = {};
    verbs_.reset(static_cast<unsigned>(random()));
  }
}

TEST_F(Failover, AnEndThatOnlyAcceptedTellsTheOtherThatItsPortIsDown) {
  connect();
  verbs_.raise("pretended2", IBV_EVENT_PORT_ERR);
  verbs_.cut_after(1, true);
  std::byte byte{};
  Request* receive = left().post_receive({&byte, 1});
  std::vector<std::byte> message(1, std::byte{9});
  Request* send = right().post_send(message);
  std::size_t bytes = 0;
  EXPECT_EQ(test::finish(left(), receive, bytes, &right()), Outcome::kDone);
  EXPECT_EQ(test::finish(right(), send, bytes, &left()), Outcome::kDone);
  EXPECT_EQ(byte, std::byte{9});
  EXPECT_EQ(left().route().transport, "tcp");
}

TEST_F(Failover, AnAcknowledgedMessageThatADeadNicKeepsIsAnErrorAndNotAGap) {
  connect();
  std::vector<std::byte> message(10);
  Request* send = left().post_send(message);
  std::size_t bytes = 0;
  ASSERT_EQ(test::finish(left(), send, bytes), Outcome::kDone) << "the NIC has it, and nobody looked there";
  verbs_.lose_completions();
  verbs_.raise("pretended2", IBV_EVENT_DEVICE_FATAL);
  test::expect_in(failure_of(left()), "message 1 is lost: the peer's NIC acknowledged it");
}

TEST_F(Failover, WhereNothingIsLeftTheErrorNamesEachLegAndItsCause) {
  RouterOptions from = options("left"), to = options("right");
  from.tcp.idle_timeout = to.tcp.idle_timeout = std::chrono::seconds(1);
  connect(std::move(from), std::move(to));
  verbs_.cut_after(1, true);
  std::byte byte{};
  left().post_send({&byte, 1});
  while (moving(left()).state() == FailoverState::kUp) left().progress();
  pair_.second.reset();
  const std::string text = failure_of(left());
  test::expect_in(text, "connect to host right");
  test::expect_in(text, "before that; leg 0 over carrier 6");
  test::expect_in(text, "acknowledged nothing, 8 tries");
}

TEST_F(Failover, APeerThatClosesEndsTheConnectionAndMovesNothing) {
  connect();
  pair_.second.reset();
  test::expect_in(failure_of(left()), "the peer closed the connection");
  EXPECT_EQ(moving(left()).moves(), 0u);
}

// An owner that waits for the peer elsewhere asks this.
TEST_F(Failover, AnEndSeesThatItsPeerHasEndedBehindMessagesWithoutReceives) {
  connect();
  const std::vector<std::byte> message(100, std::byte{5});
  std::size_t bytes = 0;
  for (int i = 0; i < 3; ++i)
    ASSERT_EQ(test::finish(left(), left().post_send(message), bytes, &right()), Outcome::kDone);
  EXPECT_FALSE(right().peer_ended());
  pair_.first.reset();
  bool ended = false;
  for (const auto deadline = test::soon(); !ended && !deadline.passed(); ended = right().peer_ended())
    right().progress();
  EXPECT_TRUE(ended);
  for (int i = 0; i < 3; ++i) {
    std::vector<std::byte> buffer(message.size());
    ASSERT_EQ(test::finish(right(), right().post_receive(buffer), bytes), Outcome::kDone);
    EXPECT_EQ(buffer, message);
  }
}

TEST_F(Failover, AMessageThatIsTooLargeFailsBothEnds) {
  connect();
  std::vector<std::byte> data(100), buffer(10);
  right().post_receive(buffer);
  left().post_send(data);
  test::expect_in(failure_of(right()), "has 100 bytes, but the receive posted for it takes 10 bytes");
  test::expect_in(failure_of(left()), "a message of 100 bytes, but the receive posted for it takes 10");
}

TEST_F(Failover, EitherEndTurnsItOff) {
  for (const bool near : {true, false}) {
    RouterOptions from = options("left"), to = options("right");
    (near ? from : to).failover = false;
    connect(std::move(from), std::move(to));
    EXPECT_EQ(dynamic_cast<FailoverConnection*>(&left()), nullptr);
    EXPECT_EQ(dynamic_cast<FailoverConnection*>(&right()), nullptr);
    verbs_.silence();
    std::byte byte{};
    left().post_send({&byte, 1});
    test::expect_in(failure_of(left()), "acknowledged nothing, 8 tries");
    test::expect_in(failure_of(right()), "the peer closed it after a failure of its own");
    pair_ = {};
    verbs_.reset(1);
  }
}

TEST_F(Failover, TcpGainsNoLayer) {
  pair_ = test::connect_routers(test::router_options("left"), test::router_options("right"));
  EXPECT_EQ(dynamic_cast<FailoverConnection*>(&left()), nullptr);
  EXPECT_EQ(dynamic_cast<FailoverConnection*>(&right()), nullptr);
}

TEST_F(Failover, GpuMemoryStaysWithItsLeg) {
  RouterOptions from = options("left", 1, 1, 0), to = options("right", 1, 1, 0);
  from.tcp.idle_timeout = to.tcp.idle_timeout = std::chrono::seconds(1);
  connect(std::move(from), std::move(to));
  std::vector<std::byte> gpu(1000);
  auto memory = left().register_memory(gpu, MemoryKind::kCuda);
  Request* flush = left().post_flush(gpu, memory.get());
  std::size_t bytes = 0;
  EXPECT_EQ(test::finish(left(), flush, bytes), Outcome::kDone);
  verbs_.cut_after(1, true);
  Request* receive = right().post_receive(gpu);
  Request* send = left().post_send(gpu, memory.get());
  test::expect_in(failure_of(left()), "GPU memory is registered with it");
  EXPECT_EQ(left().test(send, bytes), Outcome::kFailed);
  EXPECT_EQ(test::finish(right(), receive, bytes), Outcome::kFailed);
  memory.reset();
}

TEST(FailoverStates, AnEventHasOneOutcomeInAStateAndFailureIsTheEnd) {
  std::set<std::pair<FailoverState, FailoverEvent>> seen;
  for (const FailoverTransition& one : kFailoverTransitions) {
    EXPECT_TRUE(seen.insert({one.from, one.event}).second) << to_text(one.from) << ", " << to_text(one.event);
    EXPECT_NE(one.from, one.to);
    EXPECT_NE(one.from, FailoverState::kFailed);
  }
}

TEST(FailoverStates, AreAsDocumented) {
  std::ifstream file(TOMBOLO_SOURCE_DIR "/docs/transports.md");
  std::vector<std::string> found, wanted;
  bool in_table = false;
  for (std::string line; std::getline(file, line);) {
    if (line == "| what happens | from | to |") {
      in_table = true;
      std::getline(file, line);  // the rule
    } else if (in_table && line.starts_with("|")) {
      found.push_back(line);
    } else {
      in_table = false;
    }
  }
  for (const FailoverTransition& one : kFailoverTransitions)
    wanted.push_back(fmt::format("| {} | {} | {} |", to_text(one.event), to_text(one.from), to_text(one.to)));
  EXPECT_EQ(found, wanted);
}

TEST(FailoverRecordTest, IsReadAsItWasWritten) {
  std::mt19937_64 random(test_seed());
  FailoverRecord record;
  record.prefix = random();
  for (std::size_t i = 0; i < FailoverRecord::kBits; ++i) record.beyond[i] = random() % 2 == 0;
  record.endpoint.process = random();
  record.endpoint.listener = 12;
  record.endpoint.offers = {Offer{"eth0", topology::NicKind::kTcp, 0, "10.0.0.1", 4711}};
  const auto bytes = record.encode();
  ASSERT_EQ(bytes.size(), FailoverRecord::kBytes);
  const FailoverRecord read = FailoverRecord::decode(bytes);
  EXPECT_EQ(read.prefix, record.prefix);
  EXPECT_EQ(read.beyond, record.beyond);
  EXPECT_EQ(read.endpoint.process, record.endpoint.process);
  EXPECT_EQ(read.endpoint.listener, 12u);
  ASSERT_EQ(read.endpoint.offers.size(), 1u);
  EXPECT_EQ(read.endpoint.offers[0].address, "10.0.0.1");
}

TEST(FailoverRecordTest, CountsTheMessagesThatAreLacking) {
  std::mt19937_64 random(test_seed());
  FailoverRecord record;
  record.prefix = random() % 1000;
  for (std::size_t i = 0; i < FailoverRecord::kBits; ++i) record.beyond[i] = random() % 2 == 0;
  std::uint64_t n = 0;
  for (std::uint64_t sequence = 0; sequence < record.prefix + FailoverRecord::kBits + 100; ++sequence)
    if (!record.has(sequence)) {
      EXPECT_EQ(record.lacking(n++), sequence);
    }
}

TEST(FailoverRecordTest, WhateverAPeerSendsIsReadOrRefused) {
  std::mt19937_64 random(test_seed());
  const auto whole = FailoverRecord{}.encode();
  for (int round = 0; round < test_rounds(2000); ++round) {
    auto bytes = whole;
    for (std::uint64_t changes = 1 + random() % 8; changes > 0; --changes)
      bytes[random() % (random() % 2 == 0 ? 120 : bytes.size())] = static_cast<std::byte>(random());
    bytes.resize(random() % 4 == 0 ? random() % bytes.size() : bytes.size());
    try {
      FailoverRecord::decode(bytes);
    } catch (const Error& error) {
      EXPECT_EQ(error.cause(), Cause::kRemote) << error.what();
    }
  }
}

TEST(FailoverRecordTest, AnotherVersionIsNamed) {
  auto bytes = FailoverRecord{}.encode();
  bytes[4] = std::byte{9};
  try {
    FailoverRecord::decode(bytes);
    ADD_FAILURE() << "read";
  } catch (const Error& error) {
    test::expect_in(error.what(), "version 9, this build speaks 3");
  }
}

}  // namespace
}  // namespace tombolo::transport
