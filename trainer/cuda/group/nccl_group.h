// A communicator of NCCL's that never waits without bound.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <string>

#include "trainer/cuda/device.h"
#include "trainer/cuda/group/nccl_library.h"

namespace tombolo::trainer::cuda {

/// NCCL is told not to block, so that its calls come back and are asked for until they are done, the deadline
/// has passed, or abort() was called. The library outlives the group.
class NcclGroup final : public DeviceGroup {
 public:
  /// `stream` is the device's kReduce (a cudaStream_t); `device` names the GPU in errors; `make_current`
  /// makes it the calling thread's.
  NcclGroup(const NcclLibrary& library, const GroupId& id, const GroupMember& member, void* stream,
            std::string device, std::function<void()> make_current);
  ~NcclGroup() override;

  void all_reduce(float* at, std::size_t count) override;
  void check() override;
  void give_up(const std::string& reason) noexcept override;
  void abort(const std::string& reason) noexcept override;

 private:
  std::string what(std::string_view operation) const;
  /// Throws where the group was given up.
  void check_usable(std::string_view operation) const;
  /// Returns when NCCL has done what it answered with `result`; else gives up, and throws.
  void settle(NcclResult result, std::string_view operation, Duration patience);

  const NcclLibrary& library_;
  const GroupMember member_;
  void* const stream_;
  const std::string device_;
  const std::function<void()> make_current_;
  NcclCommunicator* communicator_ = nullptr;  ///< null once it is given up
  std::string given_up_;                      ///< why
  std::atomic<bool> abort_wanted_{false};
  mutable std::mutex mutex_;  ///< of what follows
  std::string abort_reason_;
};

}  // namespace tombolo::trainer::cuda
