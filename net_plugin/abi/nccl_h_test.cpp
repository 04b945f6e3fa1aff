// Compares the result codes with nccl.h, where CUDA and NCCL are installed.
#include <gtest/gtest.h>

#include "net_plugin/abi/types.h"

#if __has_include(<nccl.h>) && __has_include(<cuda_runtime.h>)
#include <nccl.h>

namespace tombolo::net_plugin {
namespace {

static_assert(sizeof(::ncclResult_t) == sizeof(abi::ncclResult_t));
static_assert(int{::ncclSuccess} == int{abi::ncclSuccess});
static_assert(int{::ncclUnhandledCudaError} == int{abi::ncclUnhandledCudaError});
static_assert(int{::ncclSystemError} == int{abi::ncclSystemError});
static_assert(int{::ncclInternalError} == int{abi::ncclInternalError});
static_assert(int{::ncclInvalidArgument} == int{abi::ncclInvalidArgument});
static_assert(int{::ncclInvalidUsage} == int{abi::ncclInvalidUsage});
static_assert(int{::ncclRemoteError} == int{abi::ncclRemoteError});

TEST(NcclAbi, ResultCodesAreThoseOfNcclH) {
  SUCCEED() << "checked when this file was compiled";
}

}  // namespace
}  // namespace tombolo::net_plugin
#else
TEST(NcclAbi, ResultCodesAreThoseOfNcclH) {
  GTEST_SKIP() << "nccl.h or cuda_runtime.h was not found when this was compiled";
}
#endif
