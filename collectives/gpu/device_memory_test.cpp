// Where the process has no CUDA driver, as that of these tests has none; with one: communicator_gpu_test.cpp.
#include "collectives/gpu/device_memory.h"

#include <gtest/gtest.h>

namespace tombolo::collectives::gpu {
namespace {

TEST(DeviceMemory, IsNoneWithoutADriverWhichNobodyLoads) {
  int host = 0;
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(program_driver(), nullptr);
    EXPECT_EQ(gpu_of(&host), std::nullopt);
    EXPECT_EQ(gpu_of(nullptr), std::nullopt);
  }
}

}  // namespace
}  // namespace tombolo::collectives::gpu
