// A staged way that a connection leaves for a better one: it fails while it retires, or the better one fails
// as it is made. Over a library of verbs without hardware, whose NICs write the memory of a pretended GPU.
#include <gtest/gtest.h>

#include <array>
#include <iostream>

#include "net_plugin/testing/gpu_failover.h"

namespace tombolo::net_plugin::gpu {
namespace {

using transport::FailoverState;
constexpr int kLaunchFailed = 719;  // what CUDA calls it

class RetiringLeg : public GpuFailover {
 protected:
  static constexpr const char* kStays = "stays on tcp, for the better way failed as it was made";

  static FailoverState state_of(transport::Connection& one) {
    return dynamic_cast<FailoverConnection&>(one).state();
  }
  /// Both ends use the staged way, and nothing is under way.
  void begin(PretendedCudaOptions of) {
    start(of);
    connect(1);
    verbs_.set_link(kLeft, false);
    go_on_until("tcp", 1);
  }
  void end() {
    pair_ = {};
    for (const std::string& breach : cuda().breaches()) ADD_FAILURE() << breach;
    staging_.reset();
    verbs_.reset(test_seed());
  }
  /// Calls both ends, the left one first.
  template <typename Done>
  void until(Done&& done) {
    for (auto deadline = soon(); !done();) {
      left().progress();
      right().progress();
      ASSERT_FALSE(deadline.passed()) << transport_of(left()) << ", " << transport_of(right());
    }
  }
  void both_fail() {
    until([this] { return left().error() != nullptr && right().error() != nullptr; });
  }
  /// The right end has left the staged way, and the left one has most likely not heard of it.
  void until_right_leaves() {
    until([this] { return state_of(right()) != FailoverState::kUp; });
  }
  static bool is_over(transport::Connection& one, transport::Request* request, Outcome expected) {
    std::size_t bytes = 0;
    const Outcome outcome = one.test(request, bytes);
    if (outcome == Outcome::kPending) return false;
    EXPECT_EQ(outcome, expected);
    return true;
  }
  /// A message whose copy never ends: out of the left end's GPU, or into that of the right end.
  void leave_under_way(bool at_left, Buffer& from, Buffer& to, transport::Request*& send,
                       transport::Request*& receive) {
    if (!at_left) return leave_a_copy_under_way(from, to, send, receive);
    cuda().set_pace(PretendedPace::kNever);
    receive = right().post_receive(to.span(), to.memory());
    send = left().post_send(from.span(), from.memory());
  }
  /// A message from host memory, whose bytes wait in the right end's GPU for their copy.
  void leave_a_copy_under_way(Buffer& from, Buffer& to, transport::Request*& send,
                              transport::Request*& receive) {
    cuda().set_pace(PretendedPace::kNever);
    receive = right().post_receive(to.span(), to.memory());
    send = left().post_send(from.span(), from.memory());
    until([&] { return right().way_of(receive).waits == WaitsFor::kGpuCopy; });
  }
};

TEST_F(RetiringLeg, FailsBeforeTheBetterOneIsThereAndTheConnectionWithIt) {
  for (const bool at_left : {true, false}) {
    SCOPED_TRACE(at_left);
    begin(two_gpus());
    {
      Buffer from(left(), 1000, at_left), to(right(), 1000, !at_left);
      transport::Request *send = nullptr, *receive = nullptr;
      leave_under_way(at_left, from, to, send, receive);
      verbs_.set_link(kLeft, true);
      until_right_leaves();
      cuda().fail_with(kLaunchFailed);
      both_fail();
      if (HasFatalFailure()) return;
      const std::string why = right().error()->what();
      EXPECT_NE(why.find("; the connection was leaving that way for a better one"), std::string::npos) << why;
      EXPECT_TRUE(is_over(left(), send, at_left ? Outcome::kFailed : Outcome::kDone));
      EXPECT_TRUE(is_over(right(), receive, Outcome::kFailed));
      auto* more = left().post_send(from.span(), from.memory());
      ASSERT_NE(more, nullptr);
      EXPECT_TRUE(is_over(left(), more, Outcome::kFailed));
    }
    cuda().fail_with(0);
    end();
  }
}

TEST_F(RetiringLeg, FailsWhileTheBetterOneIsInUseAndTheConnectionWithIt) {
  for (const bool at_left : {true, false}) {
    SCOPED_TRACE(at_left);
    begin(two_gpus());
    {
      Buffer from(left(), 1000, at_left), to(right(), 1000, !at_left);
      Buffer later_from(left(), 1000, false), later_to(right(), 1000, false);
      transport::Request *send = nullptr, *receive = nullptr;
      leave_under_way(at_left, from, to, send, receive);
      verbs_.set_link(kLeft, true);
      until([this] { return transport_of(left()) == "rdma" && transport_of(right()) == "rdma"; });
      // What was posted before comes over the one, and what is posted now over the other.
      EXPECT_EQ(right().way_of(receive).route->transport, "tcp");
      auto* later_receive = right().post_receive(later_to.span(), later_to.memory());
      finish(left(), left().post_send(later_from.span(), later_from.memory()), 1000, &right());
      finish(right(), later_receive, 1000, &left());
      EXPECT_EQ(right().way_of(later_receive).route->transport, "rdma");
      auto* last = right().post_receive(later_to.span(), later_to.memory());
      cuda().fail_with(kLaunchFailed);
      both_fail();
      if (HasFatalFailure()) return;
      auto& failed_first = at_left ? left() : right();
      const std::string why = failed_first.error()->what();
      for (const char* part :
           {"CUDA_ERROR_LAUNCH_FAILED", "; the connection was leaving that way for a better one"})
        EXPECT_NE(why.find(part), std::string::npos) << why;
      if (at_left) {
        EXPECT_TRUE(is_over(left(), send, Outcome::kFailed));
      }
      EXPECT_TRUE(is_over(right(), receive, Outcome::kFailed));
      EXPECT_TRUE(is_over(right(), last, Outcome::kFailed));
    }
    cuda().fail_with(0);
    end();
  }
}

// Receives that were posted on the way that retires, and of which the peer's messages come over the better
// one: their owner has their memory back before that way has ended.
TEST_F(RetiringLeg, TakesTheFarewellThoughTheMemoryOfItsReceivesHasBeenEnded) {
  begin(two_gpus());
  Buffer from(left(), 1000, true), to(right(), 1000, true);
  const auto bytes = data(1000);
  from.write(bytes);
  cuda().set_pace(PretendedPace::kNever);
  auto* receive = right().post_receive(to.span(), to.memory());
  auto later_to = std::make_unique<Buffer>(right(), 1000, true);
  auto* later_receive = right().post_receive(later_to->span(), later_to->memory());
  auto* send = left().post_send(from.span(), from.memory());
  verbs_.set_link(kLeft, true);
  until([this] { return transport_of(left()) == "rdma" && transport_of(right()) == "rdma"; });
  {
    Buffer later_from(left(), 1000, true);
    finish(left(), left().post_send(later_from.span(), later_from.memory()), 1000, &right());
    finish(right(), later_receive, 1000, &left());
  }
  EXPECT_EQ(left().way_of(send).route->transport, "tcp");
  later_to.reset();
  // Where the memory was, something else is.
  std::vector<std::unique_ptr<std::array<std::byte, 2 * sizeof(void*) + 8>>> others(64);
  for (auto& one : others) {
    one = std::make_unique<std::array<std::byte, 2 * sizeof(void*) + 8>>();
    one->fill(std::byte{0x5a});
  }
  cuda().set_pace(PretendedPace::kRandom);
  finish(left(), send, 1000, &right());
  finish(right(), receive, 1000, &left());
  EXPECT_TRUE(to.read() == bytes);
  // Both farewells are over once the way can be left for a staged one again.
  verbs_.set_link(kRight, false);
  go_on_until("tcp", 1);
}

TEST_F(RetiringLeg, AnEndThatClosesMeanwhileHasSentEverything) {
  for (const bool there : {true, false}) {
    SCOPED_TRACE(there);
    begin(two_gpus());
    auto& from = there ? left() : right();
    auto& to = there ? right() : left();
    constexpr std::size_t kCount = StagedConnection::kOwnPieces, kBytes = 1000;
    std::vector<std::unique_ptr<Buffer>> into;
    for (std::size_t i = 0; i < kCount; ++i) into.push_back(std::make_unique<Buffer>(to, kBytes, true));
    {
      Buffer source(from, kBytes, false);
      source.write(data(kBytes));
      for (std::size_t i = 0; i < kCount; ++i)
        finish(from, from.post_send(source.span(), source.memory()), kBytes, &to);
      if (HasFatalFailure()) return;
      verbs_.set_link(kLeft, true);
      until([this] { return transport_of(left()) == "rdma" && transport_of(right()) == "rdma"; });
    }
    (there ? pair_.first : pair_.second).reset();
    for (auto deadline = soon(); !to.peer_ended(); to.progress()) ASSERT_FALSE(deadline.passed());
    for (std::size_t i = 0; i < kCount; ++i) {
      finish(to, to.post_receive(into[i]->span(), into[i]->memory()), kBytes);
      if (HasFatalFailure()) return;
      EXPECT_TRUE(into[i]->read() == data(kBytes)) << i;
    }
    into.clear();
    end();
  }
}

TEST_F(RetiringLeg, IsUsedOnWhereTheBetterOneFailsAsItIsMade) {
  for (const std::size_t device : {kLeft, kRight}) {
    // The other end may have gone over before.
    std::size_t stayed = 0;
    for (int round = 0; round < 20 && stayed == 0; ++round) {
      SCOPED_TRACE(fmt::format("device {}, round {}", device, round));
      begin(two_gpus());
      if (HasFatalFailure()) return;
      const std::size_t before = book_.count(kStays);
      verbs_.set_link(kLeft, true);
      {
        Buffer from(left(), 3 * kPieceBytes, true), to(right(), 3 * kPieceBytes, true);
        const auto bytes = data(3 * kPieceBytes);
        from.write(bytes);
        auto* send = left().post_send(from.span(), from.memory());
        until_right_leaves();
        verbs_.set_link(device, false);
        auto* receive = right().post_receive(to.span(), to.memory());
        finish(left(), send, 3 * kPieceBytes, &right());
        finish(right(), receive, 3 * kPieceBytes, &left());
        EXPECT_TRUE(to.read() == bytes);
      }
      exchange(10, test_seed());
      if (HasFatalFailure()) return;
      stayed = book_.count(kStays) - before;
      verbs_.set_link(device, true);
      go_on_until("rdma", 1);
      if (HasFatalFailure()) return;
      EXPECT_EQ(left().error(), nullptr);
      end();
    }
    EXPECT_GT(stayed, 0U) << device;
  }
}

TEST_F(RetiringLeg, ACutOfTheBetterOneAfterAnyPieceOfWorkLosesNothing) {
  std::mt19937_64 random(test_seed());
  std::size_t cut = 0;
  const auto rounds = static_cast<std::size_t>(test_rounds(60));
  for (std::size_t piece = 1; piece <= rounds; ++piece) {
    SCOPED_TRACE(fmt::format("cut after {} pieces of work", piece));
    PretendedCudaOptions of = two_gpus();
    of.seed = random();
    streams_ = piece % 2 == 0 ? 4 : 0;
    begin(of);
    if (HasFatalFailure()) return;
    verbs_.set_link(kLeft, true);
    verbs_.cut_after(piece);
    exchange(30, static_cast<unsigned>(random()));
    if (HasFatalFailure()) return;
    cut += verbs_.is_cut() ? 1 : 0;
    go_on_until("rdma", 1);
    if (HasFatalFailure()) return;
    end();
  }
  EXPECT_GT(cut, rounds / 2);
  std::cout << cut << " of " << rounds << " were cut, " << book_.count(kStays) << " ends stayed\n";
}

}  // namespace
}  // namespace tombolo::net_plugin::gpu
