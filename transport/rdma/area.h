// A connection's own registered memory: what the other end writes into, and the slots of small messages.
#pragma once

#include <sys/mman.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/error.h"
#include "transport/rdma/set_up_message.h"
#include "transport/request_pool.h"

namespace tombolo::transport::rdma {

/// Slots for messages that the receiver has not matched to a receive yet, and slots for control records.
inline constexpr std::uint32_t kEagerSlots = 32, kControlSlots = 32, kSlots = kEagerSlots + kControlSlots;
inline constexpr std::size_t kMostEager = 4096;
inline constexpr std::size_t kHeaderBytes = 32;
using Slot = std::array<std::byte, kHeaderBytes + kMostEager>;

/// The memory that the other end may write. Besides it, it may write only into receives of which it was told.
struct alignas(4096) OpenArea {
  std::array<std::uint64_t, kRequestsPerDirection> totals;  ///< sizes of messages, by sequence number
  std::array<std::uint64_t, kMostQueuePairs> tests;  ///< the tokens of set-up's test writes, by queue pair
};

struct alignas(4096) ClosedArea {
  std::array<std::uint64_t, kRequestsPerDirection> totals;  ///< what is written into the other end's `totals`
  std::uint64_t test;                                       ///< what is written into the other end's `tests`
  std::array<std::uint64_t, kMostQueuePairs> read_back;     ///< what is read behind writes, by queue pair
  std::array<Slot, kSlots> received;
  std::array<Slot, kSlots> sent;
};

struct Areas {
  OpenArea open;
  ClosedArea closed;
};

/// Frees the areas, which are mapped as whole pages of their own, zeroed.
struct UnmapAreas {
  void operator()(Areas* areas) const noexcept { ::munmap(areas, sizeof(Areas)); }
};
using AreasPointer = std::unique_ptr<Areas, UnmapAreas>;

inline AreasPointer make_areas() {
  void* at = ::mmap(nullptr, sizeof(Areas), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) fail_errno(errno, "allocate a connection's buffers");
  return AreasPointer(static_cast<Areas*>(at));
}

}  // namespace tombolo::transport::rdma
