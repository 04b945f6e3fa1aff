// Staged connections over loopback TCP, shared memory and memory, with the memory of a pretended GPU, which
// the processor cannot touch and whose driver notes every breach of the rules
// (topology/testing/pretended_cuda.h).
#include "net_plugin/gpu/staged_connection.h"

#include <gtest/gtest.h>

#include <deque>
#include <future>
#include <random>

#include "base/randomized_test.h"
#include "topology/testing/pretended_cuda.h"
#include "transport/testing/test_support.h"

namespace tombolo::net_plugin::gpu {
namespace {

using topology::test::PretendedCuda;
using topology::test::PretendedCudaOptions;
using topology::test::PretendedPace;
using MemoryOf = PretendedCuda::MemoryOf;
using transport::MemoryKind;
using transport::Outcome;
using transport::test::soon;
using transport::test::TestedBackend;

PretendedCuda& cuda() {
  return PretendedCuda::instance();
}

TestedBackend tcp() {
  TestedBackend backend;
  backend.name = "tcp";
  return backend;
}
TestedBackend shm(TestedBackend::Shm how) {
  TestedBackend backend;
  backend.name = how == TestedBackend::Shm::kFetch ? "shm" : "shm_ring";
  backend.shm = how;
  return backend;
}
TestedBackend memory() {
  TestedBackend backend;
  backend.name = "memory";
  backend.memory = true;
  return backend;
}

/// A buffer in host memory or a GPU's, registered with a connection.
class Buffer {
 public:
  Buffer(transport::Connection& connection, std::size_t bytes, bool on_gpu, int gpu = 0,
         MemoryOf of = MemoryOf::kNoContext)
      : bytes_(bytes), on_gpu_(on_gpu), host_(on_gpu ? 0 : bytes, std::byte{0xa5}) {
    data_ = on_gpu ? cuda().allocate(bytes, gpu, of) : host_.data();
    memory_ = connection.register_memory(span(), on_gpu ? MemoryKind::kCuda : MemoryKind::kHost);
  }
  ~Buffer() {
    memory_.reset();
    if (on_gpu_) cuda().release(data_);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  std::span<std::byte> span() const { return {data_, bytes_}; }
  transport::Memory* memory() const { return memory_.get(); }
  void write(const std::vector<std::byte>& bytes) {
    if (on_gpu_) {
      cuda().write(data_, bytes);
    } else {
      std::ranges::copy(bytes, data_);
    }
  }
  std::vector<std::byte> read() const { return on_gpu_ ? cuda().read(data_, bytes_) : host_; }

 private:
  std::size_t bytes_;
  bool on_gpu_;
  std::vector<std::byte> host_;
  std::byte* data_ = nullptr;
  std::unique_ptr<transport::Memory> memory_;
};

class StagedConnections : public ::testing::Test {
 protected:
  ~StagedConnections() override {
    staging_.reset();
    cuda().check_thread();
    for (const std::string& breach : cuda().breaches()) ADD_FAILURE() << breach;
    if (!memory_given_up_) {
      const auto held = cuda().holdings();
      EXPECT_EQ(held.contexts, 0);
      EXPECT_EQ(held.streams, 0);
      EXPECT_EQ(held.events, 0);
      EXPECT_EQ(held.host_allocations, 0);
      EXPECT_EQ(held.allocations, 0);
    }
    cuda().reset();
  }

  /// Both ends share what a process shares.
  void start(PretendedCudaOptions options, std::size_t buffer_bytes = std::size_t{64} << 20,
             std::size_t copies = 4, Duration copy_time = std::chrono::seconds(10)) {
    cuda().reset(options);
    staging_ = std::make_shared<Staging>(CudaFunctions::load(nullptr), buffer_bytes, copies, copy_time);
  }
  struct Ends {
    std::unique_ptr<StagedConnection> from, to;
  };
  Ends connect(const TestedBackend& backend = gpu::memory(), Directions from = Directions::kSend,
               Directions to = Directions::kReceive,
               transport::Overlong overlong = transport::Overlong::kError) {
    auto [near, far] = transport::test::make_connected(backend);
    return {std::make_unique<StagedConnection>(std::move(near), from, staging_, log(), overlong),
            std::make_unique<StagedConnection>(std::move(far), to, staging_, log(), overlong)};
  }
  Log log() {
    return {LogLevel::kWarning, [this](LogLevel, std::string_view text) { logged_ += text; }};
  }

  static void finish(transport::Connection& connection, transport::Request* request, std::size_t bytes,
                     transport::Connection* other = nullptr) {
    ASSERT_NE(request, nullptr);
    std::size_t moved = 0;
    ASSERT_EQ(transport::test::finish(connection, request, moved, other), Outcome::kDone)
        << (connection.error() != nullptr ? connection.error()->what() : "no error");
    EXPECT_EQ(moved, bytes);
  }
  static std::vector<std::byte> data(std::size_t bytes, unsigned seed = 1) {
    std::mt19937_64 random(seed);
    return transport::test::random_data(random, bytes);
  }

  std::shared_ptr<Staging> staging_;
  std::string logged_;
  bool memory_given_up_ = false;
};

/// A size that has something to do with pieces, or none.
std::size_t draw_size(std::mt19937_64& random) {
  switch (random() % 6) {
    case 0:
      return random() % 9;
    case 1:
      return random() % 16384;
    case 2:
      return (random() % 4) * kPieceBytes;
    case 3:
      return (1 + random() % 3) * kPieceBytes + random() % 3 - 1;
    case 4:
      return std::size_t{1} << (random() % 21);
    default:
      return random() % 1'000'000;
  }
}

/// One direction of a connection in which messages of all kinds are under way.
class Traffic {
 public:
  Traffic(transport::Connection& from, transport::Connection& to, std::size_t count, unsigned seed, int gpus)
      : from_(from), to_(to), random_(seed) {
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t size = draw_size(random_), room = size + random_() % 3 * (random_() % 1000);
      auto& one = messages_.emplace_back();
      one.bytes = transport::test::random_data(random_, size);
      const auto gpu = [&] { return static_cast<int>(random_() % static_cast<unsigned>(gpus)); };
      const auto of = [&] { return random_() % 4 == 0 ? MemoryOf::kPrimaryContext : MemoryOf::kNoContext; };
      one.from = std::make_unique<Buffer>(from, size, random_() % 2 == 0, gpu(), of());
      one.to = std::make_unique<Buffer>(to, room, random_() % 2 == 0, gpu(), of());
      one.from->write(one.bytes);
    }
  }
  bool over() const { return sent_ == messages_.size() && received_ == messages_.size(); }

  /// Does one thing at random.
  void turn() {
    switch (random_() % 4) {
      case 0:
        if (posted_sends_ < messages_.size() && posted_sends_ - sent_ < 8) {
          Message& next = messages_[posted_sends_];
          next.send = from_.post_send(next.from->span(), next.from->memory());
          if (next.send != nullptr) ++posted_sends_;
        }
        break;
      case 1:
        if (posted_receives_ < messages_.size() && posted_receives_ - received_ < 8) {
          Message& next = messages_[posted_receives_];
          next.receive = to_.post_receive(next.to->span(), next.to->memory());
          if (next.receive != nullptr) ++posted_receives_;
        }
        break;
      case 2:
        test_any(from_, &Message::send, posted_sends_, sent_);
        break;
      default:
        test_any(to_, &Message::receive, posted_receives_, received_);
        break;
    }
  }

 private:
  struct Message {
    std::vector<std::byte> bytes;
    std::unique_ptr<Buffer> from, to;
    transport::Request* send = nullptr;
    transport::Request* receive = nullptr;
  };

  /// Any posted one, in whatever order.
  void test_any(transport::Connection& connection, transport::Request* Message::*which, std::size_t posted,
                std::size_t& count) {
    std::vector<Message*> under_way;
    for (std::size_t i = 0; i < posted; ++i)
      if (messages_[i].*which != nullptr) under_way.push_back(&messages_[i]);
    if (under_way.empty()) {
      connection.progress();
      return;
    }
    Message& message = *under_way[random_() % under_way.size()];
    transport::Request*& request = message.*which;
    std::size_t bytes = 0;
    const Outcome outcome = connection.test(request, bytes);
    if (outcome == Outcome::kPending) return;
    ASSERT_EQ(outcome, Outcome::kDone) << connection.error()->what();
    EXPECT_EQ(bytes, message.bytes.size());
    request = nullptr;
    ++count;
    if (which == &Message::send) return;
    std::vector<std::byte> got = message.to->read();
    for (std::size_t at = bytes; at < got.size(); ++at)
      ASSERT_EQ(got[at], std::byte{0xa5}) << "behind the message";
    got.resize(bytes);
    ASSERT_TRUE(got == message.bytes) << bytes << " bytes differ";
  }

  transport::Connection& from_;
  transport::Connection& to_;
  std::mt19937_64 random_;
  std::deque<Message> messages_;
  std::size_t posted_sends_ = 0, sent_ = 0, posted_receives_ = 0, received_ = 0;
};

struct Case {
  TestedBackend backend;
  PretendedPace pace = PretendedPace::kRandom;
  std::size_t buffer_bytes = std::size_t{64} << 20;
  std::size_t copies = 4;
};

void PrintTo(const Case& tested, std::ostream* stream) {
  *stream << tested.backend.name;
}

class StagedTraffic : public StagedConnections, public ::testing::WithParamInterface<Case> {};

TEST_P(StagedTraffic, ArrivesByteForByteBetweenHostAndGpuMemoryOfEitherEnd) {
  const Case& tested = GetParam();
  const unsigned seed = test_seed();
  PretendedCudaOptions options;
  options.gpus = 2;
  options.pace = tested.pace;
  options.seed = seed;
  start(options, tested.buffer_bytes, tested.copies);
  auto ends = connect(tested.backend, Directions::kBoth, Directions::kBoth);
  Traffic there(*ends.from, *ends.to, 40, seed, 2), back(*ends.to, *ends.from, 40, seed + 1, 2);
  cuda().forbid_making(true);
  for (auto deadline = soon(); !there.over() || !back.over();) {
    there.turn();
    back.turn();
    if (HasFatalFailure()) return;
    ASSERT_FALSE(deadline.passed());
  }
  EXPECT_LE(cuda().most_copies_to_host(), 4 * tested.copies);  // two GPUs, with memory of two kinds
  EXPECT_LE(cuda().most_copies_to_device(), 4 * tested.copies);
  EXPECT_GT(cuda().copies(), 10U);
  if (tested.buffer_bytes == 0) {
    EXPECT_EQ(staging_->pool().pieces(), staging_->pool().reserved()) << "exactly the minimum";
  }
}

INSTANTIATE_TEST_SUITE_P(All, StagedTraffic,
                         testing::Values(Case{memory()}, Case{memory(), PretendedPace::kLate, 0, 1},
                                         Case{tcp()}, Case{tcp(), PretendedPace::kEarly},
                                         Case{tcp(), PretendedPace::kLate, 0, 1},
                                         Case{shm(TestedBackend::Shm::kFetch)},
                                         Case{shm(TestedBackend::Shm::kFetch), PretendedPace::kLate, 0, 2},
                                         Case{shm(TestedBackend::Shm::kRing)}),
                         [](const auto& one) {
                           const Case& tested = one.param;
                           return fmt::format("{}{}{}", tested.backend.name,
                                              tested.pace == PretendedPace::kEarly  ? "_early"
                                              : tested.pace == PretendedPace::kLate ? "_late"
                                                                                    : "",
                                              tested.buffer_bytes == 0
                                                  ? fmt::format("_least_memory_{}_copies", tested.copies)
                                                  : "");
                         });

TEST_F(StagedConnections, MemoryOfNoContextIsCopiedWhileTheProgramsOwnCallsWait) {
  start({.seed = test_seed()});
  auto ends = connect(tcp());
  constexpr std::size_t kBytes = 5 * kPieceBytes;
  Buffer from(*ends.from, kBytes, true), to(*ends.to, kBytes, true);
  const auto bytes = data(kBytes);
  from.write(bytes);
  cuda().let_program_wait(true);
  auto* receive = ends.to->post_receive(to.span(), to.memory());
  auto* send = ends.from->post_send(from.span(), from.memory());
  finish(*ends.to, receive, kBytes, ends.from.get());
  finish(*ends.from, send, kBytes, ends.to.get());
  EXPECT_TRUE(to.read() == bytes);
  ends = {};
  cuda().let_program_wait(false);
  EXPECT_EQ(logged_, "");
}

TEST_F(StagedConnections, WhatCameBeforeThePeerClosedIsReceivedThoughItsCopiesTakeLonger) {
  PretendedCudaOptions options;
  options.seed = test_seed();
  options.pace = PretendedPace::kNever;
  start(options, std::size_t{64} << 20, 1);
  auto ends = connect(tcp());
  constexpr std::size_t kBytes = 3 * kPieceBytes + 100;
  Buffer from(*ends.from, kBytes, false), to(*ends.to, kBytes, true), more(*ends.to, 8, true);
  const auto bytes = data(kBytes);
  from.write(bytes);
  auto* receive = ends.to->post_receive(to.span(), to.memory());
  auto* never = ends.to->post_receive(more.span(), more.memory());
  finish(*ends.from, ends.from->post_send(from.span(), from.memory()), kBytes, ends.to.get());
  ends.from.reset();
  for (auto deadline = soon(); ends.to->error() == nullptr; ends.to->progress())
    ASSERT_FALSE(deadline.passed());
  std::size_t moved = 0;
  EXPECT_EQ(ends.to->test(receive, moved), Outcome::kPending) << "its copies are under way";
  cuda().set_pace(PretendedPace::kRandom);
  finish(*ends.to, receive, kBytes);
  EXPECT_TRUE(to.read() == bytes);
  auto outcome = Outcome::kPending;
  for (auto deadline = soon(); outcome == Outcome::kPending; outcome = ends.to->test(never, moved))
    ASSERT_FALSE(deadline.passed());
  EXPECT_EQ(outcome, Outcome::kFailed);
}

TEST_F(StagedConnections, CopiesInTheProgramsContextAreToldOnceWithWhatAvoidsThem) {
  for (const bool contexts : {true, false}) {
    logged_.clear();
    start({.contexts = contexts, .seed = test_seed()});
    {
      auto ends = connect(tcp());
      const MemoryOf of = contexts ? MemoryOf::kPrimaryContext : MemoryOf::kNoContext;
      Buffer from(*ends.from, 100, true, 0, of), to(*ends.to, 100, true, 0, of);
      const auto bytes = data(100);
      from.write(bytes);
      auto* receive = ends.to->post_receive(to.span(), to.memory());
      finish(*ends.from, ends.from->post_send(from.span(), from.memory()), 100, ends.to.get());
      finish(*ends.to, receive, 100, ends.from.get());
      EXPECT_TRUE(to.read() == bytes);
    }
    staging_.reset();
    EXPECT_NE(logged_.find(contexts ? "the memory is of cudaMalloc"
                                    : "make a context for copies: CUDA_ERROR_OUT_OF_MEMORY"),
              std::string::npos)
        << logged_;
    EXPECT_NE(logged_.find("CUDA_MODULE_LOADING=EAGER"), std::string::npos) << logged_;
    EXPECT_EQ(logged_.find("GPU 0: copies"), logged_.rfind("GPU 0: copies")) << "once: " << logged_;
  }
}

TEST_F(StagedConnections, APoolOfTheMinimumServesAllThoughSomeWait) {
  PretendedCudaOptions options;
  options.seed = test_seed();
  start(options, 0, 1);
  constexpr std::size_t kBytes = 10 * kPieceBytes;
  std::vector<Ends> all;
  for (int i = 0; i < 6; ++i) all.push_back(connect(tcp()));
  ASSERT_EQ(staging_->pool().pieces(), 6 * 2 * StagedConnection::kOwnPieces);
  const auto bytes = data(kBytes);
  std::vector<std::unique_ptr<Buffer>> from, to;
  std::vector<transport::Request*> sends;
  for (Ends& ends : all) {
    from.push_back(std::make_unique<Buffer>(*ends.from, kBytes, true));
    to.push_back(std::make_unique<Buffer>(*ends.to, kBytes, true));
    from.back()->write(bytes);
    sends.push_back(ends.from->post_send(from.back()->span(), from.back()->memory()));
  }
  // The first five wait for a receive with all the pieces that they can get.
  const auto advance = [&] {
    for (Ends& ends : all) {
      ends.from->progress();
      ends.to->progress();
    }
  };
  for (int i = 0; i < 300; ++i) advance();
  for (std::size_t i = all.size(); i-- > 0;) {
    auto* receive = all[i].to->post_receive(to[i]->span(), to[i]->memory());
    ASSERT_NE(receive, nullptr);
    std::size_t moved = 0;
    for (auto deadline = soon(); all[i].to->test(receive, moved) != Outcome::kDone; advance())
      ASSERT_FALSE(deadline.passed()) << "connection " << i;
    EXPECT_TRUE(to[i]->read() == bytes);
    finish(*all[i].from, sends[i], kBytes);
  }
}

TEST_F(StagedConnections, ThreadsShareCopierAndPool) {
  const unsigned seed = test_seed();
  PretendedCudaOptions options;
  options.seed = seed;
  start(options, std::size_t{4} << 20, 3);
  std::vector<Ends> all;
  std::vector<std::future<void>> threads;
  for (int i = 0; i < 4; ++i) all.push_back(connect(tcp()));
  for (unsigned i = 0; i < all.size(); ++i) {
    threads.push_back(std::async(std::launch::async, [&ends = all[i], seed, i] {
      Traffic traffic(*ends.from, *ends.to, 15, seed + i, 1);
      for (auto deadline = soon(); !traffic.over() && !deadline.passed() && !HasFatalFailure();)
        traffic.turn();
      EXPECT_TRUE(traffic.over());
      cuda().check_thread();
    }));
  }
  for (auto& thread : threads) thread.get();
  EXPECT_LE(cuda().most_copies_to_host(), 6U);  // with memory of two kinds
  EXPECT_LE(cuda().most_copies_to_device(), 6U);
}

TEST_F(StagedConnections, ADoneSendNeedsNoFurtherCallToArrive) {
  for (const TestedBackend& backend : {memory(), tcp(), shm(TestedBackend::Shm::kFetch)}) {
    start({});
    {
      auto ends = connect(backend);
      for (const std::size_t size : {std::size_t{8}, kPieceBytes - 1, kPieceBytes, 5 * kPieceBytes + 77}) {
        Buffer from(*ends.from, size, true), to(*ends.to, size, true);
        const auto bytes = data(size);
        from.write(bytes);
        auto* receive = ends.to->post_receive(to.span(), to.memory());
        finish(*ends.from, ends.from->post_send(from.span(), from.memory()), size, ends.to.get());
        from.write(data(size, 2));  // the buffer is the sender's again
        finish(*ends.to, receive, size);
        EXPECT_TRUE(to.read() == bytes) << backend.name << ", " << size << " bytes";
      }
    }
    staging_.reset();
  }
}

TEST_F(StagedConnections, AHostWithoutAGpuStagesForAPeerThatHasOne) {
  start({});
  auto [near, far] = transport::test::make_connected(memory());
  StagedConnection from(std::move(near), Directions::kSend, staging_, log());
  StagedConnection to(std::move(far), Directions::kReceive, std::make_shared<Staging>(nullptr, 0, 4), log());
  Buffer out(from, 3 * kPieceBytes, true), in(to, 3 * kPieceBytes, false);
  const auto bytes = data(3 * kPieceBytes);
  out.write(bytes);
  auto* receive = to.post_receive(in.span(), nullptr);
  finish(from, from.post_send(out.span(), out.memory()), bytes.size(), &to);
  finish(to, receive, bytes.size(), &from);
  EXPECT_TRUE(in.read() == bytes);
  try {
    to.register_memory(in.span(), MemoryKind::kCuda);
    FAIL() << "there is no GPU";
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::kUnsupported) << error.what();
  }
}

TEST_F(StagedConnections, HostMemoryIsNotTakenForAGpus) {
  start({});
  auto ends = connect();
  std::vector<std::byte> host(100);
  try {
    ends.from->register_memory(host, MemoryKind::kCuda);
    FAIL() << "it is host memory";
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::kInvalidUsage);
    EXPECT_NE(std::string(error.what()).find("said to be GPU memory"), std::string::npos) << error.what();
  }
}

TEST_F(StagedConnections, AMessageLargerThanItsReceiveIsAnErrorThatNamesBothSizes) {
  start({});
  auto ends = connect(tcp());
  Buffer from(*ends.from, 2000, true), to(*ends.to, 1999, true);
  ends.from->post_send(from.span(), from.memory());
  auto* receive = ends.to->post_receive(to.span(), to.memory());
  std::size_t bytes = 0;
  ASSERT_EQ(transport::test::finish(*ends.to, receive, bytes, ends.from.get()), Outcome::kFailed);
  EXPECT_EQ(ends.to->error()->cause(), Cause::kRemote);
  EXPECT_NE(
      std::string(ends.to->error()->what()).find("2000 bytes, but the receive posted for it takes 1999"),
      std::string::npos)
      << ends.to->error()->what();
  EXPECT_EQ(to.read(), std::vector<std::byte>(1999, std::byte{0xa5}));
  EXPECT_EQ(ends.to->post_receive(to.span(), to.memory()), nullptr);
}

// The pieces behind the end of a receive are taken, and thrown away.
TEST_F(StagedConnections, AMessageLargerThanItsReceiveIsCutWhereThatIsAsked) {
  start({});
  auto ends = connect(tcp(), Directions::kSend, Directions::kReceive, transport::Overlong::kTruncate);
  for (const bool on_gpu : {true, false}) {
    for (const auto& [sent, room] : {std::pair<std::size_t, std::size_t>{2000, 1999},
                                     {3 * kPieceBytes, kPieceBytes},
                                     {5 * kPieceBytes + 7, kPieceBytes + 9},
                                     {2 * kPieceBytes, 0},
                                     {10, 20}}) {
      Buffer from(*ends.from, sent, true), to(*ends.to, room, on_gpu), next(*ends.to, 30, on_gpu);
      from.write(data(sent));
      auto* first = ends.from->post_send(from.span(), from.memory());
      auto* second = ends.from->post_send(from.span().first(10), from.memory());
      auto* receive = ends.to->post_receive(to.span(), to.memory());
      auto* after = ends.to->post_receive(next.span(), next.memory());
      finish(*ends.to, receive, std::min(sent, room), ends.from.get());
      finish(*ends.to, after, 10, ends.from.get());
      finish(*ends.from, first, sent, ends.to.get());
      finish(*ends.from, second, 10, ends.to.get());
      auto wanted = data(sent);
      auto got = to.read();
      wanted.resize(std::min(sent, room));
      got.resize(wanted.size());
      EXPECT_EQ(got, wanted) << sent << " into " << room;
    }
  }
}

TEST_F(StagedConnections, ACopyThatCudaRefusesFailsTheConnectionAndNamesTheGpu) {
  PretendedCudaOptions options;
  options.gpus = 2;
  start(options);
  auto ends = connect();
  Buffer from(*ends.from, 4 * kPieceBytes, true, 1);
  auto* sent = ends.from->post_send(from.span(), from.memory());
  cuda().fail_with(719);
  std::size_t bytes = 0;
  ASSERT_EQ(transport::test::finish(*ends.from, sent, bytes, ends.to.get()), Outcome::kFailed);
  EXPECT_NE(std::string(ends.from->error()->what()).find("from GPU 1: CUDA_ERROR_LAUNCH_FAILED (719)"),
            std::string::npos)
      << ends.from->error()->what();
  ends.from.reset();
  cuda().fail_with(0);
}

TEST_F(StagedConnections, ARequestFailsOnlyOnceNoCopyTouchesItsBuffer) {
  PretendedCudaOptions options;
  options.pace = PretendedPace::kNever;
  start(options);
  auto ends = connect();
  Buffer from(*ends.from, 100, false);
  auto to = std::make_unique<Buffer>(*ends.to, 100, true);
  auto* receive = ends.to->post_receive(to->span(), to->memory());
  finish(*ends.from, ends.from->post_send(from.span(), from.memory()), 100, ends.to.get());
  for (int i = 0; i < 10; ++i) ends.to->progress();  // its copy is queued
  ends.from.reset();                                 // the peer goes
  std::size_t bytes = 0;
  for (int i = 0; i < 100; ++i) ASSERT_EQ(ends.to->test(receive, bytes), Outcome::kPending);
  cuda().set_pace(PretendedPace::kRandom);
  const Outcome outcome = transport::test::finish(*ends.to, receive, bytes);
  EXPECT_NE(outcome, Outcome::kPending);
  to.reset();  // a copy under way would be a breach
}

TEST_F(StagedConnections, ClosingWaitsForTheCopiesUnderWay) {
  PretendedCudaOptions options;
  options.pace = PretendedPace::kNever;
  start(options);
  auto ends = connect();
  auto from = std::make_unique<Buffer>(*ends.from, 8 * kPieceBytes, true);
  ends.from->post_send(from->span(), from->memory());
  ASSERT_GT(cuda().most_copies_to_host(), 0U);
  auto closing = std::async(std::launch::async, [&] { ends.from.reset(); });
  EXPECT_EQ(closing.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  cuda().set_pace(PretendedPace::kRandom);
  closing.get();
  from.reset();  // a copy under way would be a breach
  EXPECT_EQ(logged_, "");
}

TEST_F(StagedConnections, SayWhetherAMessageWaitsForTheGpuOrForTheTransport) {
  PretendedCudaOptions options;
  options.pace = PretendedPace::kNever;
  start(options);
  auto ends = connect(tcp());
  Buffer from(*ends.from, 10, true), to(*ends.to, 10, true);
  auto* receive = ends.to->post_receive(to.span(), to.memory());
  ends.to->progress();
  EXPECT_EQ(ends.to->waits_for(false), StagedWait::kTransport) << "nothing was sent";
  auto* send = ends.from->post_send(from.span(), from.memory());
  ends.from->progress();
  EXPECT_EQ(ends.from->waits_for(true), StagedWait::kCopy);
  cuda().set_pace(PretendedPace::kEarly);
  finish(*ends.from, send, 10);
  cuda().set_pace(PretendedPace::kNever);
  for (auto deadline = soon(); ends.to->waits_for(false) != StagedWait::kCopy; ends.to->progress())
    ASSERT_FALSE(deadline.passed());
  cuda().set_pace(PretendedPace::kEarly);
  finish(*ends.to, receive, 10);
}

TEST_F(StagedConnections, MemoryIsLeftToACopyThatDoesNotEnd) {
  PretendedCudaOptions options;
  options.pace = PretendedPace::kNever;
  start(options, std::size_t{64} << 20, 4, std::chrono::milliseconds(5));
  memory_given_up_ = true;
  auto ends = connect();
  Buffer from(*ends.from, 1000, true);
  ends.from->post_send(from.span(), from.memory());
  ends.from.reset();
  EXPECT_NE(logged_.find("a copy of 1000 bytes from GPU 0 has been under way for more than"),
            std::string::npos)
      << logged_;
  ends.to.reset();
  staging_.reset();
  EXPECT_EQ(cuda().holdings().host_allocations, 1);
  cuda().set_pace(PretendedPace::kEarly);
  cuda().reset();  // the copy ends now, in memory that is still there
}

TEST_F(StagedConnections, OnlyTheCopiesOfTheBudgetAreUnderWay) {
  PretendedCudaOptions options;
  options.pace = PretendedPace::kNever;
  start(options, std::size_t{64} << 20, 3);
  std::vector<Ends> all;
  std::vector<std::unique_ptr<Buffer>> from;
  for (int i = 0; i < 3; ++i) {
    all.push_back(connect());
    from.push_back(std::make_unique<Buffer>(*all.back().from, 20 * kPieceBytes, true));
    all.back().from->post_send(from.back()->span(), from.back()->memory());
    all.back().from->progress();
  }
  EXPECT_EQ(cuda().most_copies_to_host(), 3U);
  cuda().set_pace(PretendedPace::kEarly);
  for (Ends& ends : all) ends.from.reset();
}

}  // namespace
}  // namespace tombolo::net_plugin::gpu
