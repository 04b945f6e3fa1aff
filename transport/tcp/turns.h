// Who moves a TCP connection: its owner inside a call, or the background thread between two calls.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

namespace tombolo::transport::tcp {

/// Any thread may take a turn, one holds it at a time. The owner's take it by a spin lock, which costs one
/// exchange while nobody else has it; a visit of the background thread only takes it while it is free, and
/// only where the owner has made no call since the visit before, and gives it back soon.
class Turns {
 public:
  /// A turn of the owner's, as long as it lives. Only those that move the connection are calls.
  enum class Of : std::uint8_t { kCall, kLook };
  class Turn {
   public:
    explicit Turn(Turns& turns, Of of = Of::kCall) noexcept : turns_(turns) {
      while (turns_.taken_.exchange(true, std::memory_order_acquire)) std::this_thread::yield();
      if (of == Of::kCall) ++turns_.calls_;
    }
    ~Turn() { turns_.taken_.store(false, std::memory_order_release); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    Turns& turns_;
  };

  /// A visit of the background thread's, as long as it lives. One thread makes them.
  class Visit {
   public:
    enum class Finds : std::uint8_t {
      kBusy,    ///< somebody has the turn
      kCalls,   ///< the owner has made calls since the last visit that was not kBusy: it moves the connection
                ///< itself
      kNobody,  ///< the turn is this visit's
    };
    explicit Visit(Turns& turns) noexcept : turns_(turns) {
      if (turns_.taken_.exchange(true, std::memory_order_acquire)) return;
      const bool calls = turns_.calls_ != turns_.calls_seen_;
      turns_.calls_seen_ = turns_.calls_;
      finds_ = calls ? Finds::kCalls : Finds::kNobody;
    }
    ~Visit() {
      if (finds_ != Finds::kBusy) turns_.taken_.store(false, std::memory_order_release);
    }
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;

    Finds finds() const noexcept { return finds_; }

   private:
    Turns& turns_;
    Finds finds_ = Finds::kBusy;
  };

 private:
  std::atomic<bool> taken_{false};
  std::uint32_t calls_ = 0, calls_seen_ = 0;  // belong to who has the turn
};

}  // namespace tombolo::transport::tcp
