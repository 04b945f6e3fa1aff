// NCCL, opened at run time, so that no program needs it. Declares in words of its own what is used of it;
// tests/gpu/nccl_functions_check.cpp compares that with NCCL's header where there is one.
#pragma once

#include <climits>
#include <cstddef>
#include <string>

#include "base/dynamic_library.h"
#include "base/error.h"
#include "trainer/model/stage_group.h"

namespace tombolo::trainer::cuda {

struct NcclCommunicator;  ///< NCCL's own

enum class NcclResult : int {
  kSuccess = 0,
  kCudaError = 1,
  kSystemError = 2,
  kInternalError = 3,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemoteError = 6,
  kInProgress = 7,
};
inline constexpr int kNcclFloat32 = 7;
inline constexpr int kNcclSum = 0;
/// The first with all that is used here.
inline constexpr int kOldestNccl = 21800;

/// How a communicator is made, as version 2.18 lays it out; later versions take it by its size and version.
struct NcclConfig {
  std::size_t size = sizeof(NcclConfig);
  unsigned magic = 0xcafebeef;
  unsigned version = kOldestNccl;
  int blocking = INT_MIN;  ///< INT_MIN: NCCL chooses, as for all below
  int cluster_size = INT_MIN;
  int least_blocks = INT_MIN;
  int most_blocks = INT_MIN;
  const char* network = nullptr;
  int shared_split = INT_MIN;
  int padding = INT_MIN;  ///< what later versions have in the place of padding
};

/// NCCL's functions; they are valid while the object lives.
class NcclLibrary {
 public:
  /// Opens the library of this path or name. Throws kUnsupported where there is none, where a function is
  /// missing, and where it is older than kOldestNccl.
  explicit NcclLibrary(const std::string& name);

  /// "NCCL 2.28.9 (/usr/lib/libnccl.so.2)"
  std::string describe() const;
  int version() const noexcept { return version_; }

  /// Throws, unless `result` is success: what was done, NCCL's words for the result, and its last message.
  void check(NcclResult result, const std::string& what, NcclCommunicator* communicator = nullptr) const;
  /// Throws it.
  [[noreturn]] void failed(NcclResult result, const std::string& what, NcclCommunicator* communicator) const;

  NcclResult (*get_version)(int* version) = nullptr;
  NcclResult (*get_unique_id)(GroupId* id) = nullptr;
  NcclResult (*init_rank)(NcclCommunicator** communicator, int size, GroupId id, int rank,
                          NcclConfig* config) = nullptr;
  NcclResult (*all_reduce)(const void* from, void* to, std::size_t count, int type, int operation,
                           NcclCommunicator* communicator, void* stream) = nullptr;
  NcclResult (*async_error)(NcclCommunicator* communicator, NcclResult* error) = nullptr;
  NcclResult (*finalize)(NcclCommunicator* communicator) = nullptr;
  NcclResult (*destroy)(NcclCommunicator* communicator) = nullptr;
  NcclResult (*abort)(NcclCommunicator* communicator) = nullptr;
  const char* (*error_text)(NcclResult result) = nullptr;
  const char* (*last_error)(NcclCommunicator* communicator) = nullptr;

 private:
  DynamicLibrary library_;
  int version_ = 0;
};

}  // namespace tombolo::trainer::cuda
