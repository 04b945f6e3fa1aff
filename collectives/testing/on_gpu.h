// For tests of calls on GPU memory: a pretended GPU whose driver notes every breach of its rules, and buffers
// there or in host memory.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/randomized_test.h"
#include "collectives/engine/communicator.h"
#include "collectives/gpu/kernels.h"
#include "collectives/testing/elements.h"
#include "collectives/testing/reduction_emulation.h"
#include "collectives/testing/test_support.h"
#include "topology/system/cuda_library.h"
#include "topology/testing/pretended_cuda.h"

namespace tombolo::collectives::test {

using topology::test::PretendedCuda;
using topology::test::PretendedCudaOptions;
using topology::test::PretendedPace;
using MemoryOf = PretendedCuda::MemoryOf;

inline PretendedCuda& cuda() {
  return PretendedCuda::instance();
}

/// A buffer in host memory or a GPU's.
class Buffer {
 public:
  Buffer(std::size_t bytes, bool on_gpu, int gpu = 0, MemoryOf of = MemoryOf::kPrimaryContext)
      : on_gpu_(on_gpu), host_(bytes, std::byte{0x5a}) {
    data_ = on_gpu ? cuda().allocate(bytes, gpu, of) : host_.data();
    if (on_gpu) cuda().write(data_, host_);
  }
  ~Buffer() {
    if (on_gpu_) cuda().release(data_);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  std::byte* data() { return data_; }
  void write(const Bytes& bytes) {
    if (on_gpu_) {
      cuda().write(data_, bytes);
    } else {
      std::ranges::copy(bytes, data_);
    }
  }
  Bytes read() const { return on_gpu_ ? cuda().read(data_, host_.size()) : host_; }

 private:
  bool on_gpu_;
  Bytes host_;
  std::byte* data_ = nullptr;
};

/// How many kernels of each gpu::Operation the pretended GPU has carried out; of the process.
inline std::array<std::atomic<int>, 8> operations_carried_out{};

/// The library's kernels, as the pretended GPU carries them out.
inline void add_kernels() {
  for (const DataType type : kAllTypes) {
    const auto given = [](const void* parameter) {
      gpu::ReductionArguments arguments;
      std::memcpy(&arguments, parameter, sizeof arguments);
      return arguments;
    };
    const auto touches = [type, given](const void* parameter) {
      const auto arguments = given(parameter);
      const std::size_t bytes = arguments.count * size_of(type);
      return std::vector<std::span<const std::byte>>{
          {arguments.target, bytes}, {arguments.left, bytes}, {arguments.right, bytes}};
    };
    cuda().add_kernel({gpu::kernel_name(type), sizeof(gpu::ReductionArguments), touches,
                       [type, given](const void* parameter, unsigned blocks, unsigned threads) {
                         const auto arguments = given(parameter);
                         ++operations_carried_out[static_cast<std::size_t>(arguments.operation)];
                         emulate_reduction(arguments, type, blocks * threads);
                       }});
  }
}

class CollectivesOnGpu : public ::testing::Test {
 protected:
  ~CollectivesOnGpu() override {
    for (const std::string& breach : cuda().breaches()) ADD_FAILURE() << breach;
    const auto held = cuda().holdings();
    EXPECT_EQ(held.contexts, 0);
    EXPECT_EQ(held.streams, 0);
    EXPECT_EQ(held.events, 0);
    EXPECT_EQ(held.host_allocations, 0);
    EXPECT_EQ(held.modules, 0);
    cuda().reset();
  }
  /// The program's part: it starts the driver.
  void start(PretendedCudaOptions options = {}) {
    options.default_stream = true;
    cuda().reset(options);
    add_kernels();
    program_ = topology::CudaFunctions::load(nullptr);
    ASSERT_NE(program_, nullptr);
  }
  static std::vector<Outcome> run(std::string_view clusters, const Body& body, bool one_host = false,
                                  const Change& change = {}) {
    return run_ranks(
        clusters,
        [&](Communicator& communicator) {
          body(communicator);
          cuda().check_thread();
        },
        [&](Options& options) {
          if (one_host) options.router.host.name = "host";
          if (change) change(options);
        });
  }

  std::shared_ptr<const topology::CudaFunctions> program_;
};

}  // namespace tombolo::collectives::test
