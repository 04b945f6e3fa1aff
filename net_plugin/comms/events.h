// Tells NCCL's profiler what becomes of messages: one event for each part of a request, started when the part
// is posted and stopped before test() answers for it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "net_plugin/abi/types.h"
#include "net_plugin/comms/request.h"
#include "transport/transport.h"

namespace tombolo::net_plugin {

/// How an event is described to the plugin's own profiler (profiler/), under kOwnEventId: with what NCCL's
/// descriptions have no room for.
struct NetEvent {
  /// At the start as it seems then; in the update that which the message took, or null where it failed. Valid
  /// while the callback runs.
  const transport::Route* route = nullptr;
  std::uint64_t connection = 0;  ///< its number in the process's meters
  bool send = false;
  std::size_t bytes = 0;  ///< at the start what was posted, in the update the message's real size
};
inline constexpr std::int64_t kOwnEventId = (std::int64_t{0x7442} << 16) | 1;

/// Whether the plugin's own profiler wants network events. NCCL runs one profiler at a time, so that all
/// events are then described as NetEvent.
inline std::atomic<bool> own_profiler_listens{false};

/// What the parts of one comm are described by. Used under the comm's lock.
///
/// NCCL hands over its callback always, and the parents of events from v10 on. Without a profiler the
/// callback returns at once, and the event it gives is null; so nothing is stopped then. Parts under way when
/// their comm is closed are dropped without a word: the profiler may be gone by then.
class Events {
 public:
  Events() = default;
  /// `callback` may be null. `first`: the connection of the parts that no lane has yet; it lives as long as
  /// parts do.
  Events(abi::ncclProfilerCallback_t callback, const transport::Connection& first, bool send);

  /// Starts an event for each part that has a parent. `parents` may be null, and so may each of them.
  /// `buffers` are those that were posted.
  template <typename Buffers>
  void start(Request& request, void* const* parents, const Buffers& buffers) noexcept {
    if (callback_ == nullptr || parents == nullptr) return;
    for (std::size_t i = 0; i < request.count; ++i)
      if (parents[i] != nullptr) start(request.all_parts[i], parents[i], buffers[i].data.size());
  }
  /// Stops the events of those of the request's parts that are over, or of all where it failed. To be called
  /// after each test; `count` is the number of parts that it had before.
  void stop(Request& request, std::size_t count, bool failed) noexcept {
    if (callback_ == nullptr) return;
    for (std::size_t i = 0; i < count; ++i) {
      Part& part = request.all_parts[i];
      if (part.event != nullptr && (failed || !part.under_way())) stop(part);
    }
  }

 private:
  void start(Part& part, void* parent, std::size_t bytes) noexcept;
  void stop(Part& part) noexcept;
  const transport::Route& route_of(const Part& part) const noexcept;
  std::uint64_t number_of(const Part& part) const noexcept;

  abi::ncclProfilerCallback_t callback_ = nullptr;
  const transport::Connection* first_ = nullptr;
  std::uint64_t number_ = 0;  // of the first connection
  bool send_ = false;
  std::uint64_t posted_ = 0;
};

}  // namespace tombolo::net_plugin
