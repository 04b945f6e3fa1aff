// What the pretended device's streams carry.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "trainer/cuda/device.h"
#include "trainer/cuda/testing/pretended_groups.h"

namespace tombolo::trainer::cuda {

/// "compute", "to host" and so on.
std::string_view stream_name(int stream);

/// A sum over devices, as one device takes part in it.
struct PretendedSum {
  std::shared_ptr<PretendedGroupState> group;
  int rank = 0;
  std::size_t number = 0;
  bool contributed = false;
  std::optional<std::vector<float>> result = {};
};

/// One thing that was put on a stream.
struct PretendedCommand {
  enum class Kind { kOperation, kCopy, kClear, kRecord, kWait, kSum };
  Kind kind = Kind::kOperation;
  std::optional<Operation> operation = {};
  void* to = nullptr;
  const void* from = nullptr;
  std::size_t bytes = 0;
  Event event = {};
  std::size_t recording = 0;           ///< of the event: which one it makes, or waits for
  std::vector<std::byte> source = {};  ///< of a copy from host memory: what was there
  bool poisoned = false;               ///< of a copy to host memory: the host finds poison until it is done
  double put_seconds = 0;              ///< when the host put it there
  std::shared_ptr<PretendedSum> sum = nullptr;
  std::span<std::byte> workspace = {};  ///< that an operation may write to

  std::string_view name() const;
  /// The memory that it reads and writes.
  std::vector<Access> touched() const;
};

}  // namespace tombolo::trainer::cuda
