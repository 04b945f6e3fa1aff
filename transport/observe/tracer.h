// Records what happened when, for a timeline: connections, messages, stalls, and streams that break and
// rejoin.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/clock.h"

namespace tombolo::transport {

enum class TraceKind : std::uint8_t { kSend, kReceive, kSendStall, kReceiveStall, kBreak, kRejoin, kWait };

struct TraceEvent {
  TraceKind kind = TraceKind::kSend;
  bool failed = false;           ///< a message that did not arrive
  std::uint32_t stream = 0;      ///< kBreak, kRejoin
  std::uint64_t connection = 0;  ///< ConnectionMeter::id()
  std::uint64_t bytes = 0;       ///< of a message
  TimePoint from{}, to{};        ///< posted and seen to be done; equal for what has no length
  const char* what = nullptr;    ///< kWait: its name; a text that is never freed
};

/// Keeps the first `capacity` events and counts the rest. add() may be called by any thread at any time: it
/// takes no lock and allocates nothing.
class Tracer {
 public:
  /// Reserves 64 bytes for each event; only those that are used become resident.
  explicit Tracer(std::size_t capacity);
  ~Tracer();
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;

  void add(const TraceEvent& event) noexcept;

  struct Lifetime {
    std::string name;
    TimePoint from{};
    TimePoint to{};  ///< zero while it lives
  };
  /// These two take a lock.
  void opened(std::uint64_t connection, std::string name);
  void closed(std::uint64_t connection);

  std::vector<TraceEvent> events() const;
  std::map<std::uint64_t, Lifetime> lifetimes() const;
  std::uint64_t dropped() const noexcept;
  /// What to add to a time of the monotonic clock to get the time of day.
  Duration to_time_of_day() const noexcept { return to_time_of_day_; }

 private:
  /// All bits are zero after allocation; `ready` is set once the event is complete.
  struct Slot {
    std::uint32_t ready;
    TraceEvent event;
  };
  std::size_t capacity_;
  Slot* slots_;
  std::atomic<std::uint64_t> next_{0};
  Duration to_time_of_day_;
  mutable std::mutex lock_;
  std::map<std::uint64_t, Lifetime> lifetimes_;
};

}  // namespace tombolo::transport
