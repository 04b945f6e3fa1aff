#include "trainer/cuda/open_device.h"

#include <gtest/gtest.h>

#include "trainer/cuda/cuda_library.h"
#include "trainer/testing/expect_refusal.h"

namespace tombolo::trainer::cuda {
namespace {

TEST(OpenDevice, WithoutTheLibraryTheErrorSaysWhatIsMissingAndWhatToDo) {
  test::expect_refusal([] { open_device_of({"/nowhere/libtombolo_cuda.so"}, 3); },
                       {"GPU 3", "libtombolo_cuda.so was not found", "/nowhere/", "--device cpu"},
                       Cause::kUnsupported);
}

TEST(OpenDevice, AnotherLibraryIsRefused) {
  test::expect_refusal([] { open_device_of({"libm.so.6"}, 0); }, {"libm.so.6", kOpenDeviceFunction},
                       Cause::kUnsupported);
}

TEST(OpenDevice, TheLoadersOwnPlacesAreTriedLast) {
  EXPECT_EQ(cuda_library_places().back(), kCudaLibraryName);
}

}  // namespace
}  // namespace tombolo::trainer::cuda
