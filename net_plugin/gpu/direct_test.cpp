// GPU memory that NICs reach themselves, through the entry points that NCCL calls; over a library of verbs
// without NICs (transport/testing/pretended_verbs.h), whose GPU memory is the host's.
#include <gtest/gtest.h>

#include "base/randomized_test.h"
#include "net_plugin/comms/comm.h"
#include "net_plugin/comms/leg.h"
#include "net_plugin/entry_points.h"
#include "transport/testing/pretended_rdma.h"

namespace tombolo::net_plugin::gpu {
namespace {

using transport::test::PretendedVerbs;

class GpuDirect : public ::testing::Test {
 protected:
  GpuDirect() {
    PretendedVerbs::instance().reset(test_seed());
    auto [near, far] = fabric_.connect(transport::test::pretended_options(1, 0));
    send_ = std::make_unique<Comm>(Comm::Direction::kSend, nullptr,
                                   std::make_unique<OneLane>(leg(std::move(near))), Log());
    receive_ = std::make_unique<Comm>(Comm::Direction::kReceive, nullptr,
                                      std::make_unique<OneLane>(leg(std::move(far))), Log());
  }
  /// Either end wants to stage, but RDMA does not.
  std::unique_ptr<transport::Connection> leg(std::unique_ptr<transport::Connection> connection) {
    return legs_.leg(std::move(connection));
  }
  static void* registered(Comm& comm, std::vector<std::byte>& buffer, int type) {
    void* memory = nullptr;
    EXPECT_EQ(entry::register_memory(&comm, buffer.data(), buffer.size(), type, &memory), abi::ncclSuccess);
    return memory;
  }
  abi::ncclResult_t receive_into(std::vector<std::byte>& buffer, void* memory, void** request) const {
    void* data = buffer.data();
    const std::size_t size = buffer.size();
    const int tag = 0;
    return entry::receive(receive_.get(), 1, &data, &size, &tag, &memory, nullptr, request);
  }
  void finish(void* request) const {
    ASSERT_NE(request, nullptr);
    int done = 0;
    for (auto deadline = transport::test::soon(); done == 0;) {
      ASSERT_EQ(entry::test(request, &done, nullptr), abi::ncclSuccess);
      ASSERT_FALSE(deadline.passed());
    }
  }
  void* flush(std::vector<std::vector<std::byte>*> buffers, std::vector<int> sizes,
              std::vector<void*> memories) const {
    std::vector<void*> data;
    for (auto* buffer : buffers) data.push_back(buffer->data());
    void* request = receive_.get();
    EXPECT_EQ(entry::flush(receive_.get(), static_cast<int>(data.size()), data.data(), sizes.data(),
                           memories.data(), &request),
              abi::ncclSuccess);
    return request;
  }

  Legs legs_{std::make_shared<Support>(), Directions::kBoth, true, true, transport::Overlong::kError, Log()};
  transport::test::PretendedFabric fabric_{2};
  std::unique_ptr<Comm> send_, receive_;
};

TEST_F(GpuDirect, SmallAndLargeMessagesFromHostMemoryArriveAndAreFlushed) {
  std::vector<std::byte> host(300'000, std::byte{3}), gpu(300'000);
  void* from = registered(*send_, host, abi::NCCL_PTR_HOST);
  void* to = registered(*receive_, gpu, abi::NCCL_PTR_CUDA);
  for (const std::size_t size : {std::size_t{8}, std::size_t{4096}, host.size()}) {
    std::ranges::fill(gpu, std::byte{0});
    void *send = nullptr, *receive = nullptr;
    ASSERT_EQ(receive_into(gpu, to, &receive), abi::ncclSuccess);
    ASSERT_EQ(entry::send(send_.get(), host.data(), size, 0, from, nullptr, &send), abi::ncclSuccess);
    int sent = 0, received = 0, bytes = 0;
    for (auto deadline = transport::test::soon(); sent == 0 || received == 0;) {
      if (sent == 0) {
        ASSERT_EQ(entry::test(send, &sent, nullptr), abi::ncclSuccess);
      }
      if (received == 0) {
        ASSERT_EQ(entry::test(receive, &received, &bytes), abi::ncclSuccess);
      }
      ASSERT_FALSE(deadline.passed());
    }
    EXPECT_EQ(static_cast<std::size_t>(bytes), size);
    const std::size_t before = PretendedVerbs::instance().reads();
    finish(flush({&gpu}, {bytes}, {to}));
    EXPECT_EQ(PretendedVerbs::instance().reads() - before, 2U) << "one by each NIC";
    EXPECT_EQ(gpu[size - 1], std::byte{3});
  }
  EXPECT_EQ(entry::deregister_memory(receive_.get(), to), abi::ncclSuccess);
  EXPECT_EQ(entry::deregister_memory(send_.get(), from), abi::ncclSuccess);
}

TEST_F(GpuDirect, AFlushOfSeveralWaitsForThoseThatAreNotEmpty) {
  std::vector<std::byte> gpu(100), other(100), host(100);
  void* first = registered(*receive_, gpu, abi::NCCL_PTR_CUDA);
  void* second = registered(*receive_, other, abi::NCCL_PTR_CUDA);
  void* third = registered(*receive_, host, abi::NCCL_PTR_HOST);
  EXPECT_EQ(flush({&gpu}, {10}, {first}), nullptr) << "no lane has carried it";
  void* receive = nullptr;
  for (const auto& [buffer, memory] : {std::pair{&gpu, first}, {&other, second}, {&host, third}})
    ASSERT_EQ(receive_into(*buffer, memory, &receive), abi::ncclSuccess);
  finish(flush({&gpu, &other}, {10, 0}, {first, second}));
  finish(flush({&gpu, &other}, {10, 100}, {first, second}));
  EXPECT_EQ(flush({&gpu, &other}, {0, 0}, {first, second}), nullptr) << "nothing was written";
  EXPECT_EQ(flush({&host}, {10}, {third}), nullptr) << "the processor sees its own memory";
}

TEST_F(GpuDirect, AsManyFlushesAsReceivesMayBeUnderWay) {
  std::vector<std::byte> gpu(100);
  void* memory = registered(*receive_, gpu, abi::NCCL_PTR_CUDA);
  std::vector<void*> flushes;
  for (int i = 0; i < abi::NCCL_NET_MAX_REQUESTS; ++i) {
    void* request = nullptr;
    ASSERT_EQ(receive_into(gpu, memory, &request), abi::ncclSuccess);
    ASSERT_NE(request, nullptr);
  }
  for (int i = 0; i < abi::NCCL_NET_MAX_REQUESTS; ++i) flushes.push_back(flush({&gpu}, {100}, {memory}));
  for (void* one : flushes) finish(one);
  finish(flush({&gpu}, {1}, {memory}));
}

}  // namespace
}  // namespace tombolo::net_plugin::gpu
