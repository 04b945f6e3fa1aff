// Staged connections between two ends of a process, with the memory of a pretended GPU, which the processor
// cannot touch and whose driver notes every breach of the rules (topology/testing/pretended_cuda.h).
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/randomized_test.h"
#include "net_plugin/gpu/staged_connection.h"
#include "topology/testing/pretended_cuda.h"
#include "transport/testing/test_support.h"

namespace tombolo::net_plugin::gpu {
using topology::test::PretendedCuda;
using topology::test::PretendedCudaOptions;
using topology::test::PretendedPace;
using MemoryOf = PretendedCuda::MemoryOf;
using transport::MemoryKind;
using transport::Outcome;
using transport::WaitsFor;
using transport::test::soon;
using transport::test::TestedBackend;

inline PretendedCuda& cuda() {
  return PretendedCuda::instance();
}

inline TestedBackend tcp() {
  TestedBackend backend;
  backend.name = "tcp";
  return backend;
}
inline TestedBackend shm(TestedBackend::Shm how) {
  TestedBackend backend;
  backend.name = how == TestedBackend::Shm::kFetch ? "shm" : "shm_ring";
  backend.shm = how;
  return backend;
}
inline TestedBackend memory() {
  TestedBackend backend;
  backend.name = "memory";
  backend.memory = true;
  return backend;
}

/// Its name holds "Ucx", by which those tests are found that need an environment of their own.
inline TestedBackend ucx() {
  TestedBackend backend;
  backend.name = "Ucx";
  backend.ucx = "tcp,self,sm";
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

}  // namespace tombolo::net_plugin::gpu
