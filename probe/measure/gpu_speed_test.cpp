// Without a GPU: functions that pretend one, whose work takes known times on a clock of its own.
#include "probe/measure/gpu_speed.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <set>

#include "base/error.h"

namespace tombolo::probe {
namespace {

/// One GPU of 1 TFLOP/s in bf16, a quarter of that in fp32, and 100 GB/s, with a little memory.
struct PretendedGpu {
  static constexpr double kBf16 = 1e12, kFp32 = 0.25e12, kMemory = 1e11;
  FakeClock clock;
  double pending = 0;  ///< seconds of work that no synchronize() has waited for
  std::set<CudaFunctions::Address> allocated;
  bool context = false, blas = false;
  int failing_multiply = 0;
  std::size_t memory = 48 << 20;
};
PretendedGpu* gpu = nullptr;

CudaFunctions pretended_functions() {
  CudaFunctions cuda;
  cuda.init = [](unsigned) { return 0; };
  cuda.device_by_address = [](int* device, const char* address) {
    *device = 3;
    return std::strcmp(address, "0000:1b:00.0") == 0 ? 0 : 101;
  };
  cuda.device_by_ordinal = [](int* device, int ordinal) {
    *device = ordinal;
    return ordinal == 0 ? 0 : 101;
  };
  cuda.retain_context = [](void** context, int) {
    gpu->context = true;
    *context = gpu;
    return 0;
  };
  cuda.release_context = [](int) {
    gpu->context = false;
    return 0;
  };
  cuda.set_context = [](void*) { return 0; };
  cuda.synchronize = [] {
    gpu->clock.advance(from_seconds(gpu->pending));
    gpu->pending = 0;
    return 0;
  };
  cuda.memory_info = [](std::size_t* free, std::size_t* total) {
    *free = *total = gpu->memory;
    return 0;
  };
  cuda.allocate = [](CudaFunctions::Address* address, std::size_t bytes) {
    *address = reinterpret_cast<CudaFunctions::Address>(std::malloc(bytes));
    gpu->allocated.insert(*address);
    return 0;
  };
  cuda.release = [](CudaFunctions::Address address) {
    std::free(reinterpret_cast<void*>(address));
    return gpu->allocated.erase(address) == 1 ? 0 : 1;
  };
  cuda.copy_to_device = [](CudaFunctions::Address to, const void* from, std::size_t bytes) {
    std::memcpy(reinterpret_cast<void*>(to), from, bytes);
    return 0;
  };
  cuda.create = [](void** handle) {
    gpu->blas = true;
    *handle = gpu;
    return 0;
  };
  cuda.destroy = [](void*) {
    gpu->blas = false;
    return 0;
  };
  cuda.multiply = [](void*, int, int, int m, int n, int k, const void*, const void*, int type, int,
                     const void*, int, int, const void*, void*, int, int, int compute, int) {
    EXPECT_EQ(compute, kCublasCompute32F);
    gpu->pending += 2.0 * m * n * k / (type == kCudaBfloat16 ? PretendedGpu::kBf16 : PretendedGpu::kFp32);
    return gpu->failing_multiply;
  };
  cuda.add_scaled = [](void*, int count, const float*, const float*, int, float*, int) {
    gpu->pending += 12.0 * count / PretendedGpu::kMemory;
    return 0;
  };
  return cuda;
}

class GpuSpeedTest : public ::testing::Test {
 protected:
  GpuSpeedTest() { gpu = &pretended_; }
  PretendedGpu pretended_;
};

TEST_F(GpuSpeedTest, MeasuresWhatTheGpuAttainsAndLeavesNothingBehind) {
  for (const GpuChoice& choice : {GpuChoice{"0000:1b:00.0", 0}, GpuChoice{"", 0}}) {
    const GpuSpeed speed = time_gpu(pretended_functions(), choice, 0.01, pretended_.clock);
    EXPECT_NEAR(speed.bfloat16_flops_per_second / PretendedGpu::kBf16, 1, 1e-3);
    EXPECT_NEAR(speed.float32_flops_per_second / PretendedGpu::kFp32, 1, 1e-3);
    EXPECT_NEAR(speed.memory_bytes_per_second / PretendedGpu::kMemory, 1, 1e-3);
    EXPECT_TRUE(pretended_.allocated.empty());
    EXPECT_FALSE(pretended_.context);
    EXPECT_FALSE(pretended_.blas);
  }
}

TEST_F(GpuSpeedTest, NamesTheGpuTheFunctionAndItsCodeAndLeavesNothingBehind) {
  const auto message_of = [&](const GpuChoice& choice) {
    try {
      time_gpu(pretended_functions(), choice, 0.01, pretended_.clock);
    } catch (const Error& error) {
      EXPECT_EQ(error.cause(), Cause::kSystem);
      return std::string(error.what());
    }
    return std::string("nothing thrown");
  };
  EXPECT_NE(message_of({"0000:ff:00.0", 0}).find("GPU 0000:ff:00.0: cuDeviceGetByPCIBusId"),
            std::string::npos);
  EXPECT_NE(message_of({"", 7}).find("GPU 7: cuDeviceGet failed with code 101"), std::string::npos);
  pretended_.failing_multiply = 13;
  EXPECT_NE(message_of({"", 0}).find("GPU 0: cublasGemmEx failed with code 13"), std::string::npos);
  EXPECT_TRUE(pretended_.allocated.empty());
  EXPECT_FALSE(pretended_.context);
  EXPECT_FALSE(pretended_.blas);
}

TEST(CudaLibrary, SaysWhatIsMissingWhereThereIsNoDriver) {
  std::string problem;
  if (CudaLibrary::load(problem)) GTEST_SKIP() << "this machine has NVIDIA's driver and cuBLAS";
  EXPECT_FALSE(problem.empty());
}

}  // namespace
}  // namespace tombolo::probe
