// Connections over NICs that reach GPU memory, whose NICs fail with that memory's messages under way: over a
// library of verbs without hardware, whose NICs write the memory of a pretended GPU.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "net_plugin/comms/context.h"
#include "net_plugin/entry_points.h"
#include "net_plugin/gpu/leg_staging.h"
#include "net_plugin/testing/random_traffic.h"
#include "transport/rdma/device.h"
#include "transport/routing/failover_connection.h"
#include "transport/testing/pretended_rdma.h"
#include "transport/testing/test_messages.h"

namespace tombolo::net_plugin::gpu {
namespace {

using transport::FailoverConnection;
using transport::test::PretendedVerbs;

constexpr std::size_t kLeft = 0, kRight = 2;  // the first device of each host

class GpuFailover : public StagedConnections {
 protected:
  void SetUp() override {
    verbs_.reset(test_seed());
    verbs_.set_bus(over_the_bus);
    transport::rdma::Devices::of_process().use(verbs_.functions());
  }
  void TearDown() override {
    if (HasFailure()) std::cerr << book_.text();
    pair_ = {};
    EXPECT_EQ(verbs_.registered(), 0U);
    transport::rdma::Devices::of_process().use(nullptr);
    verbs_.set_bus(nullptr);
    verbs_.reset(1);
  }
  /// NICs reach the memory of GPUs, which does not show at once what they write there.
  static void over_the_bus(std::byte* to, const std::byte* from, std::size_t bytes) {
    std::vector<std::byte> read;
    if (cuda().is_device_memory(from)) {
      read = cuda().read_by_nic(from, bytes);
      from = read.data();
    }
    if (cuda().is_device_memory(to)) {
      cuda().write_by_nic(to, {from, bytes});
    } else {
      std::memcpy(to, from, bytes);
    }
  }

  /// A host with so many RoCE NICs, and Ethernet.
  transport::RouterOptions options(const std::string& host, std::size_t nics, Directions directions,
                                   const std::shared_ptr<Staging>& staging) {
    const bool is_left = host == "left";
    transport::RouterOptions made = transport::test::router_options(host);
    made.log = book_.of(host);
    made.policy.transports = {"rdma", "tcp"};
    made.rdma = transport::test::pretended_options(1, 0);
    made.return_after = std::chrono::milliseconds(1);
    for (std::size_t i = 0; i < nics; ++i) {
      topology::Nic nic;
      nic.name = fmt::format("rail{}", i);
      nic.kind = topology::NicKind::kRoce;
      nic.rdma_device = PretendedVerbs::name((is_left ? kLeft : kRight) + i);
      nic.rdma_port = 1;
      nic.fabric = "fast";
      nic.addresses = {fmt::format("127.0.{}.{}", i + 1, is_left ? 1 : 2)};
      nic.rate_bits_per_second = 100'000'000'000;
      made.host.nics.push_back(nic);
    }
    made.gpu_staging = [=, this](std::uint64_t) {
      return std::make_unique<LegStaging>(staging, directions, log(), transport::Overlong::kError);
    };
    return made;
  }
  void connect(std::size_t nics = 1) { connect(nics, Directions::kBoth, Directions::kBoth, staging_); }
  void connect(std::size_t nics, Directions from, Directions to, const std::shared_ptr<Staging>& receivers) {
    pair_ = transport::test::connect_routers(options("left", nics, from, staging_),
                                             options("right", nics, to, receivers));
    ASSERT_TRUE(pair_.first && pair_.second);
  }
  transport::Connection& left() { return *pair_.first; }
  transport::Connection& right() { return *pair_.second; }
  const std::string& transport_of(transport::Connection& one) { return one.route().transport; }
  std::uint64_t moves() { return dynamic_cast<FailoverConnection&>(left()).moves(); }

  /// Messages both ways, all of which must arrive; nothing may be made for them any more. `turn`: called
  /// again and again meanwhile, with how many have.
  template <typename Turn>
  void exchange(std::size_t count, unsigned seed, Turn&& turn) {
    Traffic there(left(), right(), count, seed, 2), back(right(), left(), count, seed + 1, 2);
    cuda().forbid_making(true);
    for (auto deadline = soon(); !there.over() || !back.over();) {
      there.turn();
      back.turn();
      turn(there.received() + back.received());
      if (HasFatalFailure()) return;
      ASSERT_FALSE(deadline.passed()) << transport_of(left()) << ", " << transport_of(right());
    }
    cuda().forbid_making(false);
  }
  void exchange(std::size_t count, unsigned seed) {
    exchange(count, seed, [](std::size_t) {});
  }
  static PretendedCudaOptions two_gpus() {
    PretendedCudaOptions made;
    made.gpus = 2;
    made.seed = test_seed();
    return made;
  }
  std::string failure() {
    for (auto deadline = soon(); left().error() == nullptr && !deadline.passed();) {
      left().progress();
      right().progress();
    }
    return left().error() != nullptr ? left().error()->what() : "none";
  }

  PretendedVerbs& verbs_ = PretendedVerbs::instance();
  transport::test::LogBook book_;
  transport::test::Pair pair_;
};

TEST_F(GpuFailover, ACutAfterAnyPieceOfWorkLosesNothing) {
  std::mt19937_64 random(test_seed());
  const auto rounds = static_cast<std::size_t>(test_rounds(40));
  std::size_t moved = 0, over_tcp = 0;
  for (std::size_t piece = 1; piece <= rounds; ++piece) {
    SCOPED_TRACE(fmt::format("cut after {} pieces of work", piece));
    PretendedCudaOptions of = two_gpus();
    of.seed = random();
    of.ordered_writes = random() % 4 == 0;
    start(of, random() % 4 == 0 ? 0 : std::size_t{8} << 20, 1 + random() % 4);
    connect(1 + piece % 2);
    verbs_.cut_after(piece, piece / 2 % 2 == 0);
    exchange(10, static_cast<unsigned>(random()));
    if (HasFatalFailure()) return;
    moved += moves() > 0 ? 1 : 0;
    over_tcp += transport_of(left()) == "tcp" ? 1 : 0;
    EXPECT_EQ(transport_of(left()), transport_of(right()));
    pair_ = {};
    for (const std::string& breach : cuda().breaches()) ADD_FAILURE() << breach;
    staging_.reset();
    verbs_.reset(static_cast<unsigned>(random()));
  }
  EXPECT_GT(moved, rounds / 2) << "most cuts are within the traffic";
  EXPECT_GT(over_tcp, rounds / 8);
}

TEST_F(GpuFailover, AnotherNicIsGivenTheMemoryAndNothingIsStaged) {
  start(two_gpus());
  connect(2);
  bool down = false;
  exchange(30, test_seed(), [&](std::size_t received) {
    if (received > 10 && !std::exchange(down, true)) verbs_.set_link(kLeft, false);
  });
  EXPECT_GE(moves(), 1U);
  EXPECT_EQ(transport_of(left()), "rdma");
  EXPECT_EQ(cuda().copies(), 0U);
  EXPECT_GT(cuda().flushes(), 0U) << "of what the NICs had written that failed";
}

TEST_F(GpuFailover, WhereNoNicIsLeftMessagesAreStagedAndStaySo) {
  start(two_gpus());
  connect(2);
  bool down = false;
  exchange(30, test_seed(), [&](std::size_t received) {
    if (received > 10 && !std::exchange(down, true))
      for (const std::size_t device : {kLeft, kLeft + 1}) verbs_.set_link(device, false);
  });
  EXPECT_EQ(transport_of(left()), "tcp");
  EXPECT_EQ(transport_of(right()), "tcp");
  const std::uint64_t moved = moves(), copies = cuda().copies();
  EXPECT_GT(copies, 0U);
  for (const std::size_t device : {kLeft, kLeft + 1}) verbs_.set_link(device, true);
  exchange(30, test_seed() + 2);
  EXPECT_GT(cuda().copies(), copies);
  EXPECT_EQ(moves(), moved) << "which messages a staged way has brought nobody knows who could say it";
}

TEST_F(GpuFailover, ReturnsToABetterNicThatIsBack) {
  start(two_gpus());
  connect(2);
  const auto whole = left().statistics().live_streams;
  verbs_.set_link(kLeft, false);
  exchange(10, test_seed());
  ASSERT_EQ(left().statistics().live_streams, whole - 1);
  verbs_.set_link(kLeft, true);
  for (auto deadline = soon(); left().statistics().live_streams != whole;) {
    exchange(4, test_seed() + 1);
    if (HasFatalFailure()) return;
    ASSERT_FALSE(deadline.passed());
  }
  EXPECT_EQ(cuda().copies(), 0U);
}

TEST_F(GpuFailover, AHostWithoutAGpuGoesOnWithAPeerThatHasOne) {
  start({.seed = test_seed()});
  connect(1, Directions::kSend, Directions::kReceive, std::make_shared<Staging>(nullptr, 0, 4));
  constexpr std::size_t kBytes = 3 * kPieceBytes + 100;
  Buffer from(left(), kBytes, true), to(right(), kBytes, false);
  for (const bool dead : {false, true}) {
    if (dead) verbs_.set_link(kLeft, false);
    const auto bytes = data(kBytes, dead ? 1 : 2);
    from.write(bytes);
    cuda().forbid_making(true);
    auto* receive = right().post_receive(to.span(), to.memory());
    finish(left(), left().post_send(from.span(), from.memory()), kBytes, &right());
    finish(right(), receive, kBytes, &left());
    EXPECT_TRUE(to.read() == bytes);
  }
  EXPECT_EQ(transport_of(right()), "tcp");
  EXPECT_EQ(staging_->pool().reserved(), StagedConnection::kOwnPieces + 1) << "none for what only agrees";
}

TEST_F(GpuFailover, AFlushUnderWayIsDoneThoughItsNicIsDead) {
  for (const std::size_t nics : {1U, 2U}) {
    start({.seed = test_seed()});
    connect(nics);
    {
      Buffer from(left(), 1000, true), to(right(), 1000, true);
      const auto bytes = data(1000);
      from.write(bytes);
      auto* receive = right().post_receive(to.span(), to.memory());
      finish(left(), left().post_send(from.span(), from.memory()), 1000, &right());
      finish(right(), receive, 1000, &left());
      for (std::size_t device = 0; device < nics; ++device) verbs_.set_link(kRight + device, false);
      for (int i = 0; i < 2; ++i) {
        auto* flush = right().post_flush(to.span(), to.memory());
        std::size_t none = 0;
        if (flush != nullptr) {
          EXPECT_EQ(transport::test::finish(right(), flush, none, &left()), Outcome::kDone);
        }
        for (auto deadline = soon(); transport_of(right()) != "tcp" && !deadline.passed();) {
          left().progress();
          right().progress();
        }
      }
      EXPECT_TRUE(to.read() == bytes);
      EXPECT_EQ(right().post_flush(to.span(), to.memory()), nullptr) << "a copy needs none";
    }
    pair_ = {};
    staging_.reset();
    verbs_.reset(1);
  }
}

// NICs are told of such memory by a file, which the program may close.
TEST_F(GpuFailover, ADmaBufIsKeptForTheNextNic) {
  start({.seed = test_seed()});
  connect(2);
  constexpr std::size_t kBytes = 300'000;
  std::byte* gpu = cuda().allocate(kBytes);
  std::vector<std::byte> host(kBytes);
  {
    transport::Descriptor file(::memfd_create("a DMA-BUF", MFD_CLOEXEC));
    auto memory = right().register_dma_buf({gpu, kBytes}, file.get(), 0);
    file = {};
    const auto bytes = data(kBytes);
    for (const std::size_t broken : {kRight, kRight + 1}) {
      verbs_.set_link(broken, false);  // its one NIC, then both
      cuda().forbid_making(true);
      auto* receive = right().post_receive({gpu, kBytes}, memory.get());
      auto* send = left().post_send(bytes);
      finish(right(), receive, kBytes, &left());
      finish(left(), send, kBytes, &right());
      if (auto* flush = right().post_flush({gpu, kBytes}, memory.get())) {
        std::size_t none = 0;
        EXPECT_EQ(transport::test::finish(right(), flush, none, &left()), Outcome::kDone);
      }
      EXPECT_TRUE(cuda().read(gpu, kBytes) == bytes);
      EXPECT_EQ(transport_of(right()), broken == kRight ? "rdma" : "tcp");
      cuda().forbid_making(false);
    }
  }
  cuda().release(gpu);
}

TEST_F(GpuFailover, WhereOnlyNicsFlushTheConnectionFailsWithThem) {
  start({.flushes_writes = false, .seed = test_seed()});
  connect();
  {
    Buffer from(left(), 1000, true), to(right(), 1000, true);
    verbs_.set_link(kLeft, false);
    auto* send = left().post_send(from.span(), from.memory());
    EXPECT_NE(
        failure().find(
            "it does not go on over another way, since only a NIC can make GPU 0 see what it has written"),
        std::string::npos)
        << failure();
    std::size_t none = 0;
    EXPECT_EQ(left().test(send, none), Outcome::kFailed);
  }
  pair_ = {};
}

TEST_F(GpuFailover, AFlushThatCudaRefusesFailsTheConnection) {
  start({.seed = test_seed()});
  connect();
  {
    Buffer from(left(), 1000, true);
    cuda().fail_with(719);
    verbs_.set_link(kLeft, false);
    EXPECT_NE(failure().find("GPU 0: flush what NICs have written: CUDA_ERROR_LAUNCH_FAILED (719)"),
              std::string::npos)
        << failure();
  }
  pair_ = {};
  cuda().fail_with(0);
}

/// Communicators of two hosts, by what NCCL calls, whose one RDMA NIC reaches GPU memory.
class GpuFailoverOfComms : public GpuFailover {
 protected:
  std::shared_ptr<Node> node(const std::string& host, GpuMode mode) {
    auto made = std::make_shared<Node>();
    made->router = options(host, 1, Directions::kBoth, nullptr);
    made->devices = std::make_unique<DeviceList>(make_devices(made->router.host, DeviceMode::kMerged));
    made->deadline = std::chrono::seconds(60);
    made->gpu = std::make_shared<Support>(
        GpuOptions{.mode = mode}, CudaFunctions::load(nullptr),
        std::map<std::string, NicReach>{{"rail0", {GpuReach::kDirect, true, true, {}}}});
    return made;
  }
  /// One message of GPU memory after another, whose NICs die behind the first. What the second one ends with.
  abi::ncclResult_t second_message(GpuMode mode) {
    start({.seed = test_seed()});
    Context from(node("left", mode), book_.of("left")), to(node("right", mode), book_.of("right"));
    const auto listener = to.listen(0);
    const HandleBytes handle = listener->handle();
    std::unique_ptr<Comm> send, receive;
    for (auto deadline = soon(); !(send && receive) && !deadline.passed();) {
      if (!send) send = from.connect(0, handle);
      if (!receive) receive = listener->accept();
    }
    constexpr std::size_t kBytes = 2 * kPieceBytes + 3;
    std::byte *source = cuda().allocate(kBytes), *target = cuda().allocate(kBytes);
    void *of_source = nullptr, *of_target = nullptr;
    EXPECT_EQ(entry::register_memory(send.get(), source, kBytes, abi::NCCL_PTR_CUDA, &of_source),
              abi::ncclSuccess);
    EXPECT_EQ(entry::register_memory(receive.get(), target, kBytes, abi::NCCL_PTR_CUDA, &of_target),
              abi::ncclSuccess);
    abi::ncclResult_t result = abi::ncclSuccess;
    for (const bool dead : {false, true}) {
      if (dead) verbs_.set_link(kLeft, false);
      cuda().forbid_making(true);
      const auto bytes = data(kBytes, dead ? 1 : 2);
      cuda().write(source, bytes);
      void *sent = nullptr, *received = nullptr, *into = target;
      const std::size_t room = kBytes;
      const int tag = 0;
      result = entry::receive(receive.get(), 1, &into, &room, &tag, &of_target, nullptr, &received);
      if (result == abi::ncclSuccess)
        result = entry::send(send.get(), source, kBytes, tag, of_source, nullptr, &sent);
      int done[2] = {};
      for (auto deadline = soon(); result == abi::ncclSuccess && done[0] + done[1] < 2;) {
        if (done[0] == 0) result = entry::test(sent, &done[0], nullptr);
        if (result == abi::ncclSuccess && done[1] == 0) result = entry::test(received, &done[1], nullptr);
        if (deadline.passed()) return abi::ncclInternalError;
      }
      if (result != abi::ncclSuccess) break;
      int size = static_cast<int>(kBytes), flushed = 0;
      void* flush = nullptr;
      EXPECT_EQ(entry::flush(receive.get(), 1, &into, &size, &of_target, &flush), abi::ncclSuccess);
      for (auto deadline = soon(); flush != nullptr && flushed == 0 && !deadline.passed();)
        EXPECT_EQ(entry::test(flush, &flushed, nullptr), abi::ncclSuccess);
      EXPECT_TRUE(cuda().read(target, kBytes) == bytes);
    }
    cuda().forbid_making(false);
    EXPECT_EQ(entry::deregister_memory(send.get(), of_source), abi::ncclSuccess);
    EXPECT_EQ(entry::deregister_memory(receive.get(), of_target), abi::ncclSuccess);
    cuda().release(source);
    cuda().release(target);
    return result;
  }
};

TEST_F(GpuFailoverOfComms, GoOnStaged) {
  EXPECT_EQ(second_message(GpuMode::kAuto), abi::ncclSuccess);
  EXPECT_NE(book_.text().find("goes on over tcp"), std::string::npos);
  EXPECT_GT(cuda().copies(), 0U);
}

TEST_F(GpuFailoverOfComms, FailWhereNothingMayBeStaged) {
  EXPECT_NE(second_message(GpuMode::kDirect), abi::ncclSuccess);
  EXPECT_EQ(book_.text().find("goes on over"), std::string::npos);
  EXPECT_EQ(cuda().copies(), 0U);
}

}  // namespace
}  // namespace tombolo::net_plugin::gpu
