// Comms whose messages have tags, over the transport within a process. The lanes are made late, and in any
// order, as a test says.
#include "net_plugin/comms/lanes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <numeric>
#include <random>
#include <vector>

#include "base/error.h"
#include "base/randomized_test.h"
#include "net_plugin/comms/comm.h"
#include "net_plugin/comms/lane_label.h"
#include "net_plugin/limits.h"
#include "transport/memory/pair.h"

namespace tombolo::net_plugin {
namespace {

using transport::Connection;
using transport::memory::make_pair;

/// Both ends of what makes further lanes.
struct Exchange {
  std::deque<std::unique_ptr<Connection>> arrived;  ///< of which the receiver has not taken them
  std::map<int, int> dialled;                       ///< by tag
  int polls_until_there = 0;                        ///< of the sender
  int polls_until_arrival = 0;                      ///< of the receiver
  std::unique_ptr<Error> refusal;                   ///< what a dial, once polled, fails with
};

class Dialling final : public transport::Connecting {
 public:
  Dialling(std::shared_ptr<Exchange> exchange, int tag)
      : exchange_(std::move(exchange)), tag_(tag), left_(exchange_->polls_until_there) {}
  std::unique_ptr<Connection> poll() override {
    if (exchange_->refusal) throw Error(*exchange_->refusal);
    if (left_-- > 0) return nullptr;
    auto [near, far] = make_pair(LaneLabel{5, tag_}.encode());
    exchange_->arrived.push_back(std::move(far));
    return std::move(near);
  }
  void append_wait_handles(std::vector<pollfd>&) const override {}

 private:
  std::shared_ptr<Exchange> exchange_;
  int tag_, left_;
};

class Dialer final : public LaneDialer {
 public:
  explicit Dialer(std::shared_ptr<Exchange> exchange) : exchange_(std::move(exchange)) {}
  std::unique_ptr<transport::Connecting> dial(int tag) override {
    ++exchange_->dialled[tag];
    return std::make_unique<Dialling>(exchange_, tag);
  }

 private:
  std::shared_ptr<Exchange> exchange_;
};

class Arrivals final : public LaneArrivals {
 public:
  explicit Arrivals(std::shared_ptr<Exchange> exchange) : exchange_(std::move(exchange)) {}
  std::unique_ptr<Connection> next() override {
    if (exchange_->arrived.empty() || exchange_->polls_until_arrival-- > 0) return nullptr;
    auto one = std::move(exchange_->arrived.front());
    exchange_->arrived.pop_front();
    return one;
  }

 private:
  std::shared_ptr<Exchange> exchange_;
};

std::vector<std::byte> message(int tag, std::size_t number, std::size_t size) {
  std::vector<std::byte> bytes(size);
  std::mt19937 random(static_cast<unsigned>(tag) * 1000003U + static_cast<unsigned>(number));
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

class NetLanes : public testing::Test {
 protected:
  using Bytes = std::vector<std::byte>;
  /// A group of receives under way.
  struct Group {
    Request* request = nullptr;
    std::vector<Bytes> buffers;
    std::vector<int> sizes;
  };

  NetLanes() { connect(); }
  void connect() {
    send_.reset();
    receive_.reset();
    exchange_ = std::make_shared<Exchange>();
    auto [near, far] = make_pair(LaneLabel{5, std::nullopt}.encode());
    send_ = std::make_unique<Comm>(
        Comm::Direction::kSend, nullptr,
        std::make_unique<SendLanes>(std::move(near), std::make_unique<Dialer>(exchange_)), log());
    first_of_receiver_ = far.get();
    receive_ = std::make_unique<Comm>(
        Comm::Direction::kReceive, nullptr,
        std::make_unique<ReceiveLanes>(std::move(far), std::make_unique<Arrivals>(exchange_), clock_), log());
  }
  Log log() {
    return {LogLevel::kInfo, [this](LogLevel, std::string_view text) { log_ += fmt::format("{}\n", text); }};
  }

  /// One call of isend. The data must stay; null: try again.
  Request* try_send(Bytes& data, int tag, Registration* memory = nullptr) {
    Request* request = nullptr;
    const Buffer buffer{data, tag, memory};
    EXPECT_EQ(send_->post(Comm::Direction::kSend, {&buffer, 1}, request), abi::ncclSuccess) << log_;
    return request;
  }
  Request* send(Bytes& data, int tag) {
    for (int i = 0; i < 1000; ++i)
      if (Request* request = try_send(data, tag)) return request;
    ADD_FAILURE() << "isend with tag " << tag << " is never taken\n" << log_;
    return nullptr;
  }
  Group receive(const std::vector<int>& tags, std::size_t size = 100) {
    Group group;
    group.buffers.assign(tags.size(), Bytes(size));
    group.sizes.assign(tags.size(), -1);
    std::vector<Buffer> buffers;
    for (std::size_t i = 0; i < tags.size(); ++i) buffers.push_back({group.buffers[i], tags[i], nullptr});
    EXPECT_EQ(receive_->post(Comm::Direction::kReceive, buffers, group.request), abi::ncclSuccess) << log_;
    EXPECT_NE(group.request, nullptr);
    return group;
  }
  static bool poll(Request* request, int* sizes) {
    bool done = false;
    EXPECT_EQ(request->comm->test(*request, done, sizes), abi::ncclSuccess);
    return done;
  }
  bool finish(Group& group) {
    for (int i = 0; i < 1000; ++i)
      if (poll(group.request, group.sizes.data())) return true;
    ADD_FAILURE() << "a group of receives never ends\n" << log_;
    return false;
  }
  void finish(Request* send) {
    ASSERT_NE(send, nullptr);
    for (int i = 0; i < 1000; ++i)
      if (poll(send, nullptr)) return;
    ADD_FAILURE() << "a send never ends\n" << log_;
  }
  void expect(const Group& group, std::size_t at, const Bytes& wanted) const {
    ASSERT_EQ(group.sizes[at], static_cast<int>(wanted.size()));
    EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(), group.buffers[at].begin()));
  }

  std::string log_;
  FakeClock clock_;
  std::shared_ptr<Exchange> exchange_;
  std::unique_ptr<Comm> send_, receive_;
  Connection* first_of_receiver_ = nullptr;
};

TEST_F(NetLanes, AGroupMeetsItsSendsInEveryOrder) {
  for (std::size_t count = 1; count <= 4; ++count) {
    std::vector<int> tags(count);
    std::iota(tags.begin(), tags.end(), 10);
    std::vector<int> order = tags;
    do {
      for (const bool sends_first : {true, false}) {
        connect();
        std::vector<Bytes> data;
        for (const int tag : order) data.push_back(message(tag, 0, 10 + static_cast<std::size_t>(tag)));
        Group group;
        if (!sends_first) group = receive(tags);
        std::vector<Request*> sends;
        for (std::size_t i = 0; i < count; ++i) sends.push_back(send(data[i], order[i]));
        if (sends_first) group = receive(tags);
        ASSERT_TRUE(finish(group));
        for (std::size_t i = 0; i < count; ++i)
          expect(group, i, message(tags[i], 0, 10 + static_cast<std::size_t>(tags[i])));
        for (Request* one : sends) finish(one);
      }
    } while (std::next_permutation(order.begin(), order.end()));
  }
}

TEST_F(NetLanes, EqualTagsMeetInOrderOfTheirSlots) {
  std::vector<Bytes> data;
  for (std::size_t i = 0; i < 8; ++i) data.push_back(message(3, i, 20 + i));
  Group first = receive(std::vector<int>(5, 3)), second = receive(std::vector<int>(3, 3));
  std::vector<Request*> sends;
  for (Bytes& one : data) sends.push_back(send(one, 3));
  ASSERT_TRUE(finish(second));
  ASSERT_TRUE(finish(first));
  for (std::size_t i = 0; i < 8; ++i) expect(i < 5 ? first : second, i < 5 ? i : i - 5, data[i]);
  for (Request* one : sends) finish(one);
  EXPECT_TRUE(exchange_->dialled.empty()) << "one connection is enough for one tag";
}

TEST_F(NetLanes, ATagThatRunsAheadDisturbsNoOther) {
  std::vector<Bytes> ahead;
  for (std::size_t i = 0; i < 8; ++i) ahead.push_back(message(1, i, 30));
  std::vector<Request*> sends;
  for (Bytes& one : ahead) sends.push_back(send(one, 1));
  std::vector<Group> groups;
  for (int i = 0; i < 8; ++i) groups.push_back(receive({2, 1}));
  for (Group& group : groups) EXPECT_FALSE(poll(group.request, group.sizes.data()));
  for (std::size_t i = 0; i < 8; ++i) {
    Bytes data = message(2, i, 40);
    Request* one = send(data, 2);
    ASSERT_TRUE(finish(groups[i]));
    finish(one);
    expect(groups[i], 0, message(2, i, 40));
    expect(groups[i], 1, ahead[i]);
  }
  for (Request* one : sends) finish(one);
}

TEST_F(NetLanes, ThirtyTwoGroupsOfEightAreInFlight) {
  std::vector<int> tags(8);
  std::iota(tags.begin(), tags.end(), 0);
  std::vector<Group> groups;
  for (int i = 0; i < abi::NCCL_NET_MAX_REQUESTS; ++i) groups.push_back(receive(tags));
  Request* further = nullptr;
  Bytes buffer(10);
  const Buffer one{buffer, 0, nullptr};
  EXPECT_EQ(receive_->post(Comm::Direction::kReceive, {&one, 1}, further), abi::ncclSuccess);
  EXPECT_EQ(further, nullptr) << "try again";
  std::vector<Bytes> data;
  data.reserve(groups.size() * tags.size());
  std::vector<Request*> sends;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    for (const int tag : tags) {
      data.push_back(message(tag, i, 50));
      sends.push_back(send(data.back(), tag));
    }
  }
  EXPECT_EQ(try_send(buffer, 0), nullptr) << "as many sends as receives";
  for (std::size_t i = 0; i < groups.size(); ++i) {
    ASSERT_TRUE(finish(groups[i]));
    for (std::size_t at = 0; at < tags.size(); ++at) expect(groups[i], at, message(tags[at], i, 50));
  }
  for (Request* each : sends) finish(each);
}

TEST_F(NetLanes, ASendWhoseLaneIsOpeningIsAskedForAgain) {
  exchange_->polls_until_there = 3;
  Bytes first = message(1, 0, 10), second = message(2, 0, 10);
  Request* of_first = try_send(first, 1);
  EXPECT_NE(of_first, nullptr) << "the first tag has the connection that is there";
  int asked = 0;
  Request* of_second = nullptr;
  while (of_second == nullptr && asked < 10) {
    of_second = try_send(second, 2);
    ++asked;
  }
  EXPECT_GT(asked, 2);
  EXPECT_EQ(exchange_->dialled, (std::map<int, int>{{2, 1}})) << "once, however often it is asked for";
  Group group = receive({2, 1});
  ASSERT_TRUE(finish(group));
  expect(group, 0, second);
  expect(group, 1, first);
  finish(of_first);
  finish(of_second);
}

TEST_F(NetLanes, ALaneOpensWhileOtherRequestsAreTested) {
  exchange_->polls_until_there = 5;
  Bytes first = message(1, 0, 10), second = message(2, 0, 10);
  Request* one = send(first, 1);
  EXPECT_EQ(try_send(second, 2), nullptr);
  for (int i = 0; i < 6; ++i) {
    Group group = receive({1});
    ASSERT_TRUE(finish(group));
    finish(one);
    one = send(first, 1);
  }
  EXPECT_NE(try_send(second, 2), nullptr);
}

TEST_F(NetLanes, AReceiveWaitsForALaneThatArrivesLate) {
  Bytes first = message(1, 0, 10), second = message(2, 0, 10);
  Group group = receive({2, 1});
  exchange_->polls_until_arrival = 4;
  Request *of_first = send(first, 1), *of_second = send(second, 2);
  EXPECT_FALSE(poll(group.request, group.sizes.data()));
  Group later = receive({2});  // does not overtake
  Bytes third = message(2, 1, 10);
  Request* of_third = send(third, 2);
  ASSERT_TRUE(finish(later));
  expect(later, 0, third);
  ASSERT_TRUE(finish(group));
  expect(group, 0, second);
  for (Request* one : {of_first, of_second, of_third}) finish(one);
}

TEST_F(NetLanes, SizesAreNotAskedForOrAreThoseOfTheGroup) {
  Bytes data = message(0, 0, 33), empty;
  std::array<int, 8> sizes{};
  sizes.fill(-7);
  Group group = receive({0, 0});
  Request *one = send(data, 0), *other = send(empty, 0);
  for (int i = 0; i < 1000; ++i)
    if (poll(group.request, sizes.data())) break;
  EXPECT_EQ(sizes, (std::array<int, 8>{33, 0, -7, -7, -7, -7, -7, -7})) << "exactly two";
  finish(one);
  finish(other);
}

TEST_F(NetLanes, WithoutGroupsTagsMeanNothing) {
  auto [near, far] = make_pair();
  send_ = std::make_unique<Comm>(Comm::Direction::kSend, nullptr, std::make_unique<OneLane>(std::move(near)),
                                 log());
  receive_ = std::make_unique<Comm>(Comm::Direction::kReceive, nullptr,
                                    std::make_unique<OneLane>(std::move(far)), log());
  EXPECT_EQ(receive_->most_receives(), 1);
  Bytes data = message(0, 0, 12);
  Group group = receive({5});
  finish(send(data, 6));
  ASSERT_TRUE(finish(group));
  expect(group, 0, data);
}

// ---- failures

TEST_F(NetLanes, ALaneThatCannotBeMadeFailsTheCommAndNamesTheTag) {
  Bytes data = message(1, 0, 10);
  Request* one = send(data, 1);
  exchange_->refusal = std::make_unique<Error>(Cause::kTimeout, "nobody answers");
  Request* request = nullptr;
  const Buffer buffer{data, 77, nullptr};
  abi::ncclResult_t result = abi::ncclSuccess;
  for (int i = 0; i < 3 && result == abi::ncclSuccess; ++i)
    result = send_->post(Comm::Direction::kSend, {&buffer, 1}, request);
  EXPECT_EQ(result, abi::ncclRemoteError);
  EXPECT_EQ(request, nullptr);
  EXPECT_NE(log_.find("no connection for tag 77"), std::string::npos) << log_;
  EXPECT_NE(log_.find("nobody answers"), std::string::npos) << log_;
  const Buffer known{data, 1, nullptr};
  EXPECT_EQ(send_->post(Comm::Direction::kSend, {&known, 1}, request), abi::ncclRemoteError);
  bool done = true;
  EXPECT_EQ(send_->test(*one, done, nullptr), abi::ncclRemoteError);
  EXPECT_FALSE(done);
  EXPECT_EQ(std::ranges::count(log_, '\n'), 1) << log_;
}

TEST_F(NetLanes, AnOpeningLaneIsGivenUpWhenThePeerHasGone) {
  exchange_->polls_until_there = 1 << 30;
  Bytes data = message(1, 0, 10);
  send(data, 1);
  EXPECT_EQ(try_send(data, 2), nullptr);
  receive_.reset();
  Request* request = nullptr;
  const Buffer buffer{data, 2, nullptr};
  EXPECT_EQ(send_->post(Comm::Direction::kSend, {&buffer, 1}, request), abi::ncclRemoteError);
  EXPECT_NE(log_.find("no connection for tag 2"), std::string::npos) << log_;
}

TEST_F(NetLanes, AReceiveWhosePeerHasGoneFailsAfterAMomentOfGrace) {
  Bytes data = message(1, 0, 10);
  Group group = receive({1, 2});
  Request* one = send(data, 1);
  EXPECT_FALSE(poll(group.request, nullptr));
  finish(one);
  send_.reset();
  bool done = true;
  EXPECT_EQ(receive_->test(*group.request, done, nullptr), abi::ncclSuccess);
  clock_.advance(ReceiveLanes::kGrace - std::chrono::milliseconds(1));
  EXPECT_EQ(receive_->test(*group.request, done, nullptr), abi::ncclSuccess) << "its lane may still arrive";
  clock_.advance(std::chrono::milliseconds(2));
  EXPECT_EQ(receive_->test(*group.request, done, nullptr), abi::ncclRemoteError);
  EXPECT_FALSE(done);
  EXPECT_NE(log_.find("no connection for tag 2"), std::string::npos) << log_;
}

TEST_F(NetLanes, AFailedLaneNamesItsTag) {
  Bytes data = message(4, 0, 60);
  Group group = receive({4}, 50);
  Request* one = send(data, 4);
  bool done = true;
  EXPECT_NE(receive_->test(*group.request, done, nullptr), abi::ncclSuccess);
  EXPECT_FALSE(done);
  EXPECT_NE(log_.find("receive with tag 4: "), std::string::npos) << log_;
  EXPECT_NE(log_.find("60"), std::string::npos) << log_;
  EXPECT_NE(log_.find("50"), std::string::npos) << log_;
  (void)one;
}

TEST_F(NetLanes, APeerWithoutGroupsIsTold) {
  auto [near, far] = make_pair();
  send_ = std::make_unique<Comm>(Comm::Direction::kSend, nullptr, std::make_unique<OneLane>(std::move(near)),
                                 log());
  receive_ = std::make_unique<Comm>(
      Comm::Direction::kReceive, nullptr,
      std::make_unique<ReceiveLanes>(std::move(far), std::make_unique<Arrivals>(exchange_)), log());
  Bytes data = message(0, 0, 2);
  send(data, 0);
  Bytes buffer(10);
  const Buffer slot{buffer, 0, nullptr};
  Request* request = nullptr;
  EXPECT_EQ(receive_->post(Comm::Direction::kReceive, {&slot, 1}, request), abi::ncclRemoteError);
  EXPECT_NE(log_.find("TOMBOLO_NET_GROUPS must be alike"), std::string::npos) << log_;
}

TEST_F(NetLanes, TwoConnectionsForOneTagAreRefused) {
  Bytes data = message(1, 0, 10);
  send(data, 1);
  Group group = receive({1, 2});
  for (int i = 0; i < 2; ++i) exchange_->arrived.push_back(make_pair(LaneLabel{5, 2}.encode()).second);
  bool done = true;
  EXPECT_EQ(receive_->test(*group.request, done, nullptr), abi::ncclRemoteError);
  EXPECT_NE(log_.find("made two connections for tag 2"), std::string::npos) << log_;
}

// As NCCL does when it aborts: its buffers are gone once this returns.
TEST_F(NetLanes, MemoryOfAReceiveThatWaitsForItsLaneIsDeregisteredWithTheComm) {
  Bytes buffer(50), other(50), data = message(2, 0, 10);
  Registration* memory = receive_->register_memory(buffer, abi::NCCL_PTR_HOST);
  Registration* of_other = receive_->register_memory(other, abi::NCCL_PTR_HOST);
  send(data, 2);
  Request* request = nullptr;
  const std::array<Buffer, 2> slots{Buffer{buffer, 1, memory}, Buffer{other, 2, of_other}};
  ASSERT_EQ(receive_->post(Comm::Direction::kReceive, slots, request), abi::ncclSuccess);
  ASSERT_NE(request, nullptr);
  receive_->deregister_memory(memory);
  receive_->deregister_memory(of_other);
  bool done = true;
  EXPECT_EQ(receive_->test(*request, done, nullptr), abi::ncclRemoteError);
  EXPECT_NE(log_.find("memory was deregistered while a receive was under way"), std::string::npos) << log_;
}

TEST_F(NetLanes, AGroupThatFailedKeepsTheMemoryOfItsOtherMessagesInUse) {
  Bytes small(5), large(50), data = message(1, 0, 10);
  Registration* memory = receive_->register_memory(large, abi::NCCL_PTR_HOST);
  Request* request = nullptr;
  const std::array<Buffer, 2> slots{Buffer{large, 2, memory}, Buffer{small, 1, nullptr}};
  ASSERT_EQ(receive_->post(Comm::Direction::kReceive, slots, request), abi::ncclSuccess);
  Bytes of_two = message(2, 0, 10);
  send(data, 1);  // which its slot is too small for
  bool done = true;
  abi::ncclResult_t result = abi::ncclSuccess;
  for (int i = 0; i < 10 && result == abi::ncclSuccess; ++i) result = receive_->test(*request, done, nullptr);
  EXPECT_NE(result, abi::ncclSuccess);
  EXPECT_FALSE(done);
  receive_->deregister_memory(memory);  // closes the comm, since tag 2 might still be written there
  try_send(of_two, 2);
  EXPECT_EQ(large, Bytes(50));
  EXPECT_EQ(receive_->test(*request, done, nullptr), result) << "the same as before";
}

// ---- at random

TEST_F(NetLanes, RandomGroupsMeetRandomSends) {
  std::mt19937 random(test_seed());
  const auto draw = [&](std::size_t least, std::size_t most) {
    return std::uniform_int_distribution<std::size_t>(least, most)(random);
  };
  for (int round = 0; round < test_rounds(60); ++round) {
    connect();
    exchange_->polls_until_there = static_cast<int>(draw(0, 5));
    exchange_->polls_until_arrival = static_cast<int>(draw(0, 5));
    // The receiver's groups say which messages there are; the sender keeps the order of each tag alone.
    const int tags = static_cast<int>(draw(1, 6));
    std::vector<std::vector<int>> groups(draw(1, 60));
    std::map<int, std::size_t> left;
    for (auto& group : groups) {
      group.resize(draw(0, 2) == 0 ? 1 : draw(1, kMaxReceives));
      for (int& tag : group)
        ++left[tag = static_cast<int>(draw(0, static_cast<std::size_t>(tags) - 1)) * 7 - 3];
    }
    struct Send {
      Request* request;
      Bytes data;
    };
    std::map<int, std::size_t> sent, met;
    std::vector<Send> sends;
    sends.reserve(500);  // of which the data stays where it is
    struct Receive {
      Group group;
      std::vector<Bytes> wanted;
    };
    std::deque<Receive> receives;
    std::size_t posted = 0, done = 0;
    for (int step = 0; step < 1'000'000 && (done < groups.size() || !left.empty() || !sends.empty());
         ++step) {
      switch (draw(0, 3)) {
        case 0: {
          if (posted == groups.size() || receives.size() == 32) break;
          Receive one;
          for (const int tag : groups[posted]) {
            const std::size_t number = met[tag]++;
            one.wanted.push_back(message(tag, number, number * 13 % 90));
          }
          one.group = receive(groups[posted++]);
          receives.push_back(std::move(one));
          break;
        }
        case 1: {
          if (left.empty() || sends.size() == 256) break;
          const auto of_tag = std::next(left.begin(), static_cast<std::ptrdiff_t>(draw(0, left.size() - 1)));
          const int tag = of_tag->first;
          const std::size_t number = sent[tag];
          sends.push_back({nullptr, message(tag, number, number * 13 % 90)});
          sends.back().request = try_send(sends.back().data, tag);
          if (sends.back().request == nullptr) {
            sends.pop_back();
            break;
          }
          ++sent[tag];
          if (--of_tag->second == 0) left.erase(of_tag);
          break;
        }
        case 2: {
          if (receives.empty()) break;
          const auto at = receives.begin() + static_cast<std::ptrdiff_t>(draw(0, receives.size() - 1));
          if (!poll(at->group.request, at->group.sizes.data())) break;
          for (std::size_t i = 0; i < at->wanted.size(); ++i) expect(at->group, i, at->wanted[i]);
          receives.erase(at);
          ++done;
          break;
        }
        default: {
          if (sends.empty()) break;
          const auto at = sends.begin() + static_cast<std::ptrdiff_t>(draw(0, sends.size() - 1));
          if (poll(at->request, nullptr)) sends.erase(at);
          break;
        }
      }
      if (HasFailure()) return;
    }
    ASSERT_EQ(done, groups.size()) << log_;
    ASSERT_TRUE(left.empty() && sends.empty()) << log_;
    ASSERT_LE(exchange_->dialled.size() + 1, static_cast<std::size_t>(tags));
  }
}

}  // namespace
}  // namespace tombolo::net_plugin
