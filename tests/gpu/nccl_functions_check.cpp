// Checks that what trainer/cuda/group/nccl_library.h declares is what NCCL's own header says: results, types,
// the layout of a configuration, and functions. This file is compiled, but never run.
#include <nccl.h>

#include <cstddef>

#include "tests/gpu/same_shape.h"
#include "trainer/cuda/group/nccl_library.h"

namespace tombolo::trainer::cuda {
namespace {

#define TOMBOLO_SAME(member, function) \
  static_assert(SameShape<decltype(NcclLibrary::member), decltype(&function)>::value, #function)
TOMBOLO_SAME(get_version, ncclGetVersion);
TOMBOLO_SAME(get_unique_id, ncclGetUniqueId);
TOMBOLO_SAME(init_rank, ncclCommInitRankConfig);
TOMBOLO_SAME(all_reduce, ncclAllReduce);
TOMBOLO_SAME(async_error, ncclCommGetAsyncError);
TOMBOLO_SAME(finalize, ncclCommFinalize);
TOMBOLO_SAME(destroy, ncclCommDestroy);
TOMBOLO_SAME(abort, ncclCommAbort);
TOMBOLO_SAME(error_text, ncclGetErrorString);
TOMBOLO_SAME(last_error, ncclGetLastError);
#undef TOMBOLO_SAME

constexpr bool same(NcclResult ours, ncclResult_t theirs) {
  return static_cast<int>(ours) == static_cast<int>(theirs);
}
static_assert(same(NcclResult::kSuccess, ncclSuccess) &&
              same(NcclResult::kCudaError, ncclUnhandledCudaError));
static_assert(same(NcclResult::kSystemError, ncclSystemError) &&
              same(NcclResult::kInternalError, ncclInternalError));
static_assert(same(NcclResult::kInvalidArgument, ncclInvalidArgument) &&
              same(NcclResult::kInvalidUsage, ncclInvalidUsage));
static_assert(same(NcclResult::kRemoteError, ncclRemoteError) &&
              same(NcclResult::kInProgress, ncclInProgress));
static_assert(kNcclFloat32 == ncclFloat32 && kNcclSum == ncclSum);
static_assert(kOldestNccl == NCCL_VERSION(2, 18, 0) && NCCL_VERSION_CODE >= kOldestNccl);
static_assert(sizeof(GroupId) == sizeof(ncclUniqueId));

#define TOMBOLO_SAME(member, theirs) \
  static_assert(offsetof(NcclConfig, member) == offsetof(ncclConfig_t, theirs))
TOMBOLO_SAME(size, size);
TOMBOLO_SAME(magic, magic);
TOMBOLO_SAME(version, version);
TOMBOLO_SAME(blocking, blocking);
TOMBOLO_SAME(cluster_size, cgaClusterSize);
TOMBOLO_SAME(least_blocks, minCTAs);
TOMBOLO_SAME(most_blocks, maxCTAs);
TOMBOLO_SAME(network, netName);
TOMBOLO_SAME(shared_split, splitShare);
#undef TOMBOLO_SAME
constexpr ncclConfig_t kTheirs = NCCL_CONFIG_INITIALIZER;
static_assert(NcclConfig{}.magic == kTheirs.magic && NcclConfig{}.blocking == kTheirs.blocking);
static_assert(sizeof(NcclConfig) <= sizeof(ncclConfig_t));

}  // namespace
}  // namespace tombolo::trainer::cuda
