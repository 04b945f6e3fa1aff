// What NCCL relies on in a net plugin, point by point: GPU memory. The program is linked with a pretended
// CUDA driver (topology/testing/pretended_cuda.h), which the plugin takes for the machine's; it lets the
// processor touch none of its memory, and notes every breach of the rules by which one copies beside NCCL.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <random>

#include "base/format.h"
#include "base/randomized_test.h"
#include "tests/process/net_harness.h"
#include "topology/testing/pretended_cuda.h"

namespace tombolo::net_plugin::test {
namespace {

using topology::test::PretendedCuda;
using topology::test::PretendedCudaOptions;

PretendedCuda& cuda() {
  return PretendedCuda::instance();
}

/// TOMBOLO_NET_GPU for a time.
class GpuMode {
 public:
  explicit GpuMode(const char* mode) { ::setenv("TOMBOLO_NET_GPU", mode, 1); }
  ~GpuMode() { ::unsetenv("TOMBOLO_NET_GPU"); }
};

/// A process's driver: no breach of its rules, and nothing left at its end.
class Driver {
 public:
  explicit Driver(unsigned seed = 1) {
    PretendedCudaOptions options;
    options.seed = seed;
    cuda().reset(options);
  }
  void check() {
    cuda().check_thread();
    std::string text;
    for (const std::string& breach : cuda().breaches()) text += breach + "; ";
    const auto held = cuda().holdings();
    if (held.contexts + held.streams + held.events + held.host_allocations != 0)
      text += "something of CUDA was left behind";
    if (!text.empty()) throw std::runtime_error(text);
  }
};

/// A registered buffer in host memory or a GPU's.
class Buffer {
 public:
  Buffer(Side& side, void* comm, std::size_t bytes, bool on_gpu)
      : side_(side), comm_(comm), bytes_(bytes), on_gpu_(on_gpu), host_(on_gpu ? 0 : bytes, std::byte{0xa5}) {
    data_ = on_gpu ? cuda().allocate(bytes) : host_.data();
    REQUIRE(side.plugin().register_memory(comm, data_, bytes,
                                          on_gpu ? abi::NCCL_PTR_CUDA : abi::NCCL_PTR_HOST,
                                          &memory_) == abi::ncclSuccess);
  }
  ~Buffer() {
    if (memory_ != nullptr) side_.plugin().deregister_memory(comm_, memory_);
    if (on_gpu_) cuda().release(data_);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  void write(const std::vector<std::byte>& bytes) {
    if (on_gpu_) {
      cuda().write(data_, bytes);
    } else {
      std::ranges::copy(bytes, data_);
    }
  }
  std::vector<std::byte> read() const { return on_gpu_ ? cuda().read(data_, bytes_) : host_; }
  void* send() {
    return posted(
        [&](void** request) { return side_.plugin().send(comm_, data_, bytes_, memory_, request); });
  }
  void* receive() {
    return posted(
        [&](void** request) { return side_.plugin().receive(comm_, data_, bytes_, memory_, request); });
  }
  void* data() const { return data_; }
  void* memory() const { return memory_; }
  void forget() { memory_ = nullptr; }

 private:
  template <typename Post>
  void* posted(const Post& post) {
    for (Deadline deadline = Deadline::after(kPatience);;) {
      void* request = nullptr;
      REQUIRE(post(&request) == abi::ncclSuccess);
      if (request != nullptr) return request;
      REQUIRE(!deadline.passed());
    }
  }

  Side& side_;
  void* comm_;
  std::size_t bytes_;
  bool on_gpu_;
  std::vector<std::byte> host_;
  std::byte* data_ = nullptr;
  void* memory_ = nullptr;
};

class NetGpu : public testing::TestWithParam<int> {
 protected:
  /// The two ends of a comm, each with a driver of its own and the mode given.
  static void run(const char* sender_mode, const char* receiver_mode, const Pair::Body& sender,
                  const Pair::Body& receiver, unsigned seed = 1) {
    Peer peer([&](Channel& channel) {
      const GpuMode mode(sender_mode);
      Driver driver(seed);
      {
        Side side(GetParam());
        HandleMemory handle;
        channel.receive(handle.data(), handle.size());
        void* comm = side.connect(handle);
        sender(side, comm, channel);
        REQUIRE(side.plugin().close_send(comm) == abi::ncclSuccess);
      }
      driver.check();
    });
    const GpuMode mode(receiver_mode);
    Driver driver(seed + 1);
    {
      Side side(GetParam());
      HandleMemory handle{};
      void* listen_comm = side.listen(handle);
      peer.channel().send(handle.data(), handle.size());
      void* comm = side.accept(listen_comm);
      REQUIRE(side.plugin().close_listen(listen_comm) == abi::ncclSuccess);
      receiver(side, comm, peer.channel());
      REQUIRE(side.plugin().close_receive(comm) == abi::ncclSuccess);
    }
    EXPECT_NO_THROW(driver.check());
    peer.join();
  }
};

INSTANTIATE_TEST_SUITE_P(Abi, NetGpu, abi_versions(),
                         [](const auto& test) { return fmt::format("v{}", test.param); });

TEST_P(NetGpu, IsPromisedWhereItIsAskedFor) {
  Driver driver;
  for (const auto& [mode, wanted] :
       {std::pair{"auto", abi::NCCL_PTR_HOST}, std::pair{"off", abi::NCCL_PTR_HOST},
        std::pair{"staged", abi::NCCL_PTR_HOST | abi::NCCL_PTR_CUDA}}) {
    const GpuMode set(mode);
    Side side(GetParam());
    abi::ncclNetProperties_v12_t properties{};
    ASSERT_EQ(side.plugin().get_properties(0, &properties), abi::ncclSuccess);
    EXPECT_EQ(properties.ptrSupport, wanted) << mode;
  }
  EXPECT_NO_THROW(driver.check());
}

TEST_P(NetGpu, ThatNoNicReachesIsAnErrorOfInitWhereItWasDemanded) {
  const GpuMode set("direct");
  Driver driver;
  auto plugin = Client::load(plugin_path(), GetParam());
  void* context = nullptr;
  take_log();
  EXPECT_NE(plugin->init(&context, 1, keep_log), abi::ncclSuccess);
  std::string lines;
  for (const std::string& line : take_log()) lines += line;
  EXPECT_NE(lines.find("TOMBOLO_NET_GPU=direct"), lines.npos) << lines;
}

TEST_P(NetGpu, CarriesEveryMixtureOfHostAndGpuBuffers) {
  const std::vector<std::size_t> sizes{0, 1, 8, 4096, 65536, 139263, 139264, 139265, 1 << 20, 3'000'000};
  run(
      "staged", "staged",
      [&](Side& side, void* comm, Channel& channel) {
        for (const bool from_gpu : {true, false})
          for (int to = 0; to < 2; ++to)
            for (const std::size_t size : sizes) {
              Buffer buffer(side, comm, size, from_gpu);
              buffer.write(pattern(size, 3));
              REQUIRE(side.finish(buffer.send()) == size);
            }
        channel.wait();
      },
      [&](Side& side, void* comm, Channel& channel) {
        for (int from = 0; from < 2; ++from)
          for (const bool to_gpu : {true, false})
            for (const std::size_t size : sizes) {
              Buffer buffer(side, comm, size + 5, to_gpu);
              ASSERT_EQ(side.finish(buffer.receive()), size);
              void* request = &side;
              EXPECT_EQ(side.plugin().flush(comm, buffer.data(), size, buffer.memory(), &request),
                        abi::ncclSuccess);
              EXPECT_EQ(request, nullptr) << "what was copied needs no flush";
              auto expected = pattern(size, 3);
              expected.insert(expected.end(), 5, std::byte{0xa5});
              EXPECT_TRUE(buffer.read() == expected) << size << " bytes";
            }
        channel.signal();
      });
}

TEST_P(NetGpu, RandomMessagesOfBothKindsArriveByteForByte) {
  constexpr std::size_t kMessages = 60, kMost = 600'000;
  const unsigned seed = test_seed();
  const auto draw = [&] {
    std::mt19937 random(seed);
    std::vector<std::size_t> sizes(kMessages);
    for (std::size_t& size : sizes) size = random() % 3 == 0 ? random() % kMost : random() % 5000;
    return sizes;
  };
  struct InFlight {
    std::size_t index;
    void* request;
    std::unique_ptr<Buffer> buffer;
  };
  const auto drive = [&](Side& side, void* comm, bool sends) {
    std::mt19937 random(seed + (sends ? 7 : 9));
    const auto sizes = draw();
    std::deque<InFlight> in_flight;
    Deadline deadline = Deadline::after(kPatience);
    for (std::size_t next = 0; next < kMessages || !in_flight.empty();) {
      REQUIRE(!deadline.passed());
      if (next < kMessages && in_flight.size() < 8 && random() % 3 != 0) {
        auto buffer = std::make_unique<Buffer>(side, comm, sizes[next], random() % 2 == 0);
        if (sends) buffer->write(pattern(sizes[next], static_cast<unsigned>(next)));
        void* request = sends ? buffer->send() : buffer->receive();
        in_flight.push_back({next++, request, std::move(buffer)});
        continue;
      }
      if (in_flight.empty()) continue;
      const auto one = in_flight.begin() + static_cast<std::ptrdiff_t>(random() % in_flight.size());
      std::size_t size = 0;
      if (!side.poll(one->request, size)) continue;
      REQUIRE(size == sizes[one->index]);
      if (!sends) REQUIRE(one->buffer->read() == pattern(size, static_cast<unsigned>(one->index)));
      in_flight.erase(one);
    }
  };
  run(
      "staged", "staged",
      [&](Side& side, void* comm, Channel& channel) {
        drive(side, comm, true);
        channel.wait();
      },
      [&](Side& side, void* comm, Channel& channel) {
        EXPECT_NO_THROW(drive(side, comm, false));
        channel.signal();
      },
      seed);
}

TEST_P(NetGpu, OneEndMayStageForAnotherThatHasHostMemoryAlone) {
  for (const auto& [from, to] : {std::pair{"staged", "off"}, std::pair{"auto", "staged"}}) {
    const bool from_gpu = std::string(from) == "staged";
    run(
        from, to,
        [&](Side& side, void* comm, Channel& channel) {
          Buffer buffer(side, comm, 500'000, from_gpu);
          buffer.write(pattern(500'000, 2));
          REQUIRE(side.finish(buffer.send()) == 500'000);
          channel.wait();
        },
        [&](Side& side, void* comm, Channel& channel) {
          Buffer buffer(side, comm, 500'000, !from_gpu);
          EXPECT_EQ(side.finish(buffer.receive()), 500'000U);
          EXPECT_TRUE(buffer.read() == pattern(500'000, 2));
          channel.signal();
        });
  }
}

TEST_P(NetGpu, IsRegisteredAsDmaBufTooWhereItIsStaged) {
  run(
      "staged", "staged", [](Side&, void*, Channel& channel) { channel.wait(); },
      [](Side& side, void* comm, Channel& channel) {
        std::byte* device = cuda().allocate(8192);
        const int file = ::memfd_create("a DMA-BUF", MFD_CLOEXEC);
        void* memory = nullptr;
        EXPECT_EQ(side.plugin().register_dma_buf(comm, device, 8192, file, &memory), abi::ncclSuccess);
        ::close(file);  // as NCCL does
        EXPECT_NE(memory, nullptr);
        EXPECT_EQ(side.plugin().deregister_memory(comm, memory), abi::ncclSuccess);
        cuda().release(device);
        channel.signal();
      });
}

TEST_P(NetGpu, NothingCopiesInMemoryThatWasDeregisteredInMidMessage) {
  run(
      "staged", "staged",
      [](Side& side, void* comm, Channel& channel) {
        Buffer buffer(side, comm, 2'000'000, true);
        buffer.send();
        // NCCL aborts: nothing may touch the memory from here on.
        REQUIRE(side.plugin().deregister_memory(comm, buffer.memory()) == abi::ncclSuccess);
        buffer.forget();
        channel.wait();
      },
      [](Side& side, void* comm, Channel& channel) {
        Buffer buffer(side, comm, 2'000'000, true);
        // The peer may be gone before the receive is posted.
        void* request = nullptr;
        const abi::ncclResult_t posted =
            side.plugin().receive(comm, buffer.data(), 2'000'000, buffer.memory(), &request);
        if (posted == abi::ncclSuccess) {
          EXPECT_NE(request, nullptr);
          EXPECT_NE(side.finish_badly(request), abi::ncclSuccess);
        }
        channel.signal();
      });
}

}  // namespace
}  // namespace tombolo::net_plugin::test
