// The memory of a pretended device, and the rules by which it may be touched.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "trainer/cuda/device.h"
#include "trainer/cuda/testing/pretended_command.h"

namespace tombolo::trainer::cuda {

/// How much of each stream is known to be over: the number of its commands.
using VectorClock = std::array<std::uint64_t, kStreams>;

/// Fresh memory is full of it: a NaN in every format, and no token.
inline constexpr int kPoison = 0xff;
bool is_poison(const void* at, std::size_t bytes);

inline std::uintptr_t as_number(const void* at) {
  return reinterpret_cast<std::uintptr_t>(at);
}

/// Knows which command touched every byte last, and finds by vector clocks (Fidge, Mattern 1988) what no
/// event orders. What breaks a rule throws Error (kInternal) naming both commands, their streams and the
/// address. Not thread-safe.
class PretendedMemory {
 public:
  /// `host`: memory of the host, whose writes nobody sees. Full of poison.
  std::byte* allocate(std::size_t bytes, std::string_view what, bool host);

  /// Notes what a command touches, whose stream has come to `clock` with it. Throws where memory is outside
  /// of every allocation, was never written, belongs to the host, or is touched by another stream meanwhile.
  void access(Stream stream, const PretendedCommand& command, const VectorClock& clock);
  /// The host touches it, to which all before `clock` is known to be over.
  void host_access(const void* at, std::size_t bytes, bool writes, const VectorClock& clock);

  /// Whether the host owns it. Throws where it is outside of every allocation.
  bool is_host(std::string_view operation, const void* at, std::size_t bytes) const {
    return allocation_of(operation, at, bytes).host;
  }
  /// The address, and the allocation that it lies in.
  std::string place(const void* at) const;
  /// Bytes of all allocations that are not the host's.
  std::size_t allocated() const;

 private:
  /// Which command touched some bytes last: the one of this number on its stream; 0 where none did.
  struct Touch {
    std::uint64_t number = 0;
    std::string_view name = {};
  };

  /// Neighbouring bytes with one history.
  struct Segment {
    std::uintptr_t end = 0;
    bool written = false;
    std::array<Touch, kStreams> reads{}, writes{};
  };

  struct Allocation {
    std::uintptr_t end = 0;
    std::string what = {};
    bool host = false;
    std::unique_ptr<std::byte[], decltype(&std::free)> memory{nullptr, &std::free};
  };

  const Allocation& allocation_of(std::string_view operation, const void* at, std::size_t bytes) const;
  void touch(Stream stream, std::string_view name, const Access& access, const VectorClock& clock);
  /// Calls `visit` for the segments that make up a range, cut at its ends.
  template <typename Visit>
  void for_segments(std::uintptr_t begin, std::uintptr_t end, const Visit& visit);

  std::map<std::uintptr_t, Allocation> allocations_;  ///< by begin
  std::map<std::uintptr_t, Segment> segments_;        ///< by begin
};

}  // namespace tombolo::trainer::cuda
