// One device, the memory registered with it, and the queue pairs on it, over a library without hardware.
#include "transport/rdma/device.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "transport/rdma/memory.h"
#include "transport/rdma/nic_pair.h"
#include "transport/testing/pretended_rdma.h"
#include "transport/testing/test_messages.h"

namespace tombolo::transport::rdma {
namespace {

using test::PretendedVerbs;

class RdmaDevice : public testing::Test {
 protected:
  void SetUp() override {
    verbs_.reset(test_seed());
    live_ = verbs_.live();
  }
  void TearDown() override {
    EXPECT_EQ(verbs_.live(), live_) << "all that was made is given back";
    EXPECT_TRUE(verbs_.refused_all());
    verbs_.reset(1);
  }
  template <typename Action>
  static std::string error_of(Cause cause, const Action& action) {
    try {
      action();
    } catch (const Error& error) {
      EXPECT_EQ(error.cause(), cause) << error.what();
      return error.what();
    }
    return "no error";
  }
  PretendedVerbs& verbs_ = PretendedVerbs::instance();
  std::size_t live_ = 0;
};

TEST_F(RdmaDevice, ThatTheLibraryDoesNotListIsNamedWithWhatMayBeMissing) {
  const std::string text =
      error_of(Cause::kUnsupported, [&] { Device device(verbs_.functions(), "mlx5_7", Log()); });
  test::expect_in(text, "libibverbs lists no device mlx5_7 (4 others)");
  test::expect_in(text, "ibverbs-providers");
}

TEST_F(RdmaDevice, ThatCannotBeOpenedSaysWhyAndWhatToDo) {
  verbs_.refuse("open_device", EACCES);
  std::string text = error_of(Cause::kSystem, [] { test::pretended_device(0); });
  test::expect_in(text, "open RDMA device pretended0: Permission denied");
  test::expect_in(text, "/dev/infiniband");
  verbs_.refuse("alloc_pd", ENOMEM);
  text = error_of(Cause::kSystem, [] { test::pretended_device(0); });
  test::expect_in(text, "allocate a protection domain on RDMA device pretended0");
}

TEST_F(RdmaDevice, TellsItsPortsGidsAsTheSystemWritesThem) {
  const auto device = test::pretended_device(1);
  const auto gids = device->gids(1);
  ASSERT_EQ(gids.size(), 1u) << "of that port alone";
  EXPECT_EQ(gids[0].index, 5);
  EXPECT_EQ(gids[0].type, "RoCE v2");
  EXPECT_EQ(gids[0].value, "0000:0000:0000:0000:0000:ffff:0a00:0001");
  EXPECT_EQ(device->gids(2).at(0).type, "IB/RoCE v1");
  EXPECT_TRUE(device->gids(3).empty());
}

TEST_F(RdmaDevice, APortThatCannotBeAskedIsNamed) {
  const auto device = test::pretended_device(0);
  verbs_.refuse("query_port", EINVAL);
  test::expect_in(error_of(Cause::kSystem, [&] { device->query_port(3); }),
                  "query port 3 of RDMA device pretended0");
}

TEST_F(RdmaDevice, RemembersWhatWentWrongUntilItIsMended) {
  const auto device = test::pretended_device(0);
  EXPECT_EQ(device->trouble(1), "");
  pollfd events{device->events(), POLLIN, 0};
  EXPECT_EQ(::poll(&events, 1, 0), 0);
  verbs_.raise("pretended0", IBV_EVENT_PORT_ERR);
  verbs_.raise("pretended1", IBV_EVENT_DEVICE_FATAL);
  EXPECT_EQ(::poll(&events, 1, 0), 1);
  device->look();
  EXPECT_EQ(::poll(&events, 1, 0), 0) << "all were taken";
  EXPECT_EQ(device->trouble(1), "; port 1 of pretended0 went down before that");
  EXPECT_EQ(device->trouble(2), "");
  verbs_.raise("pretended0", IBV_EVENT_PORT_ACTIVE);
  device->look();
  EXPECT_EQ(device->trouble(1), "");
  EXPECT_FALSE(device->lost()) << "the other device is another";
  verbs_.raise("pretended0", IBV_EVENT_DEVICE_FATAL);
  device->look();
  EXPECT_TRUE(device->lost());
  EXPECT_EQ(device->trouble(2), "; device pretended0 reported a fatal error");
}

TEST_F(RdmaDevice, MemoryThatItRefusesIsNamedWithTheLimitThatMayBeMeant) {
  const auto device = test::pretended_device(0);
  std::vector<std::byte> buffer(100'000);
  verbs_.refuse("reg_mr", ENOMEM);
  std::string text = error_of(Cause::kSystem, [&] { device->add(buffer, Access::kByPeer); });
  test::expect_in(text, "RDMA device pretended0: Cannot allocate memory");
  test::expect_in(text, "ulimit -l");
  verbs_.refuse("reg_mr", EFAULT);
  text = error_of(Cause::kSystem, [&] { device->add(buffer, Access::kNone); });
  EXPECT_EQ(text.find("ulimit"), std::string::npos) << text;
  for (const int error : {EOPNOTSUPP, EPROTONOSUPPORT, EBADF}) {
    verbs_.refuse("reg_dmabuf_mr", error);
    test::expect_in(error_of(error == EBADF ? Cause::kSystem : Cause::kUnsupported,
                             [&] { device->add_dma_buf(STDERR_FILENO, 0, buffer); }),
                    "of a DMA-BUF with RDMA device pretended0");
  }
}

TEST_F(RdmaDevice, AnOlderLibraryHasNoDmaBuf) {
  auto functions = std::make_shared<Verbs>(std::move(*DynamicLibrary::open({"libc.so.6"})));
  const auto whole = verbs_.functions();
  // All but that one.
  functions->get_device_list = whole->get_device_list;
  functions->free_device_list = whole->free_device_list;
  functions->get_device_name = whole->get_device_name;
  functions->open_device = whole->open_device;
  functions->close_device = whole->close_device;
  functions->alloc_pd = whole->alloc_pd;
  functions->dealloc_pd = whole->dealloc_pd;
  Device device(functions, "pretended0", Log());
  std::vector<std::byte> buffer(100);
  test::expect_in(error_of(Cause::kUnsupported, [&] { device.add_dma_buf(STDERR_FILENO, 0, buffer); }),
                  "rdma-core 34");
}

// ---- memory

TEST_F(RdmaDevice, MemoryIsRegisteredWithEachDeviceAndSharedByItsHolders) {
  const std::vector<std::shared_ptr<Device>> devices{test::pretended_device(0), test::pretended_device(1)};
  std::vector<std::byte> buffer(1000);
  {
    const RdmaMemory first(devices, buffer), second(devices, std::span(buffer).subspan(10, 50));
    EXPECT_EQ(verbs_.registered(), 2u);
    EXPECT_EQ(first.registrations()[0], second.registrations()[0]);
    EXPECT_NE(first.registrations()[0], first.registrations()[1]);
    EXPECT_EQ(first.registrations()[2], nullptr);
    EXPECT_TRUE(second.covers(buffer.data() + 10, 50));
    EXPECT_FALSE(second.covers(buffer.data() + 9, 2));
    EXPECT_FALSE(second.covers(buffer.data() + 59, 2));
    EXPECT_FALSE(second.covers(buffer.data() + 11, SIZE_MAX));
    const RdmaMemory nothing(devices, std::span<std::byte>());
    EXPECT_EQ(verbs_.registered(), 2u);
  }
  EXPECT_EQ(verbs_.registered(), 0u);
}

TEST_F(RdmaDevice, MemoryThatTheSecondRefusesIsGivenBackToTheFirst) {
  const std::vector<std::shared_ptr<Device>> devices{test::pretended_device(0), test::pretended_device(1)};
  std::vector<std::byte> buffer(1000);
  verbs_.refuse("reg_mr", ENOMEM, 1);
  EXPECT_THROW(RdmaMemory(devices, buffer), Error);
  EXPECT_EQ(verbs_.registered(), 0u);
  verbs_.refuse("reg_dmabuf_mr", ENOMEM, 1);
  EXPECT_THROW(RdmaMemory(devices, buffer, STDERR_FILENO, 0), Error);
  EXPECT_EQ(verbs_.registered(), 0u);
  {
    const RdmaMemory whole(devices, buffer, STDERR_FILENO, 0), again(devices, buffer, STDERR_FILENO, 0);
    EXPECT_EQ(verbs_.registered(), 4u) << "GPU memory is not shared";
  }
  EXPECT_EQ(verbs_.registered(), 0u);
}

// ---- NIC pairs

TEST_F(RdmaDevice, WorkIdsComeBackAsTheyWerePacked) {
  for (const WorkId id : {WorkId{WorkId::Kind::kSlotSend, 0, 1, 63}, WorkId{WorkId::Kind::kPiece, 32, 2, 255},
                          WorkId{WorkId::Kind::kTest, 255, 65535, UINT32_MAX}}) {
    const WorkId read = WorkId::unpack(id.pack());
    EXPECT_EQ(read.kind, id.kind);
    EXPECT_EQ(read.queue_pair, id.queue_pair);
    EXPECT_EQ(read.requests, id.requests);
    EXPECT_EQ(read.slot, id.slot);
  }
}

TEST_F(RdmaDevice, ANicPairThatIsRefusedHalfwayLeavesNothingBehind) {
  const auto device = test::pretended_device(0);
  const AreasPointer areas = make_areas();
  const struct {
    const char *function, *text;
    int after;
  } cases[] = {{"reg_mr", "register", 0},
               {"reg_mr", "register", 1},
               {"create_comp_channel", "create a completion channel", 0},
               {"create_cq", "create a completion queue", 0},
               {"create_qp", "create a queue pair", 0},
               {"create_qp", "create a queue pair", 2},
               {"modify_qp", "initialise a queue pair", 1}};
  for (const auto& one : cases) {
    SCOPED_TRACE(fmt::format("{} after {}", one.function, one.after));
    const std::size_t before = verbs_.live();
    verbs_.refuse(one.function, ENOMEM, one.after);
    const std::string text = error_of(
        Cause::kSystem, [&] { NicPair pair(test::pretended_port(device, "nic0"), *areas, 2, true); });
    test::expect_in(text, one.text);
    test::expect_in(text, "RDMA device pretended0");
    EXPECT_EQ(verbs_.live(), before);
  }
}

TEST_F(RdmaDevice, AQueuePairThatCannotBeConnectedNamesThePeersNic) {
  const auto device = test::pretended_device(0);
  const AreasPointer areas = make_areas();
  NicPair pair(test::pretended_port(device, "nic0"), *areas, 1, false);
  PortFacts peer;
  peer.nic = "ib7";
  verbs_.refuse("modify_qp", EHOSTUNREACH);
  const std::string text = error_of(Cause::kSystem, [&] {
    pair.connect(*pair.queue_pairs()[0], peer, {1, 2}, test::pretended_options());
  });
  test::expect_in(text, "to the peer's ib7");
  test::expect_in(text, "is there a route");
  verbs_.refuse("modify_qp", ETIMEDOUT, 1);
  test::expect_in(error_of(Cause::kSystem,
                           [&] {
                             pair.connect(*pair.queue_pairs()[0], peer, {1, 2}, test::pretended_options());
                           }),
                  "make a queue pair of RDMA device pretended0 ready");
}

// The child has the parent's descriptors of its devices: what it destroyed would be gone for the parent.
TEST(RdmaAfterFork, AChildThatEndsItsCopiesDestroysNothing) {
  auto fabric = std::make_unique<test::PretendedFabric>();
  test::Pair pair = fabric->connect();
  ASSERT_TRUE(pair.first && pair.second);
  std::vector<std::byte> buffer(100);
  auto memory = pair.first->register_memory(buffer, MemoryKind::kHost);
  const std::size_t live = test::PretendedVerbs::instance().live();
  ASSERT_GT(live, 0U);
  const pid_t child = test::PretendedVerbs::instance().fork();
  if (child == 0) {
    alarm(30);  // else a lock that is waited for in vain would hold up the parent as well
    memory.reset();
    pair = {};
    fabric.reset();
    _exit(test::PretendedVerbs::instance().live() == live ? 0 : 1);
  }
  ASSERT_GT(child, 0);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  memory.reset();
  pair = {};
  fabric.reset();
  EXPECT_LT(test::PretendedVerbs::instance().live(), live);
}

}  // namespace
}  // namespace tombolo::transport::rdma
