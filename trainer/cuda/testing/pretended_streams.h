// The streams of a pretended device: in which order what was put on them is carried out.
#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <random>
#include <string_view>
#include <vector>

#include "trainer/cuda/device.h"
#include "trainer/cuda/testing/pretended_command.h"
#include "trainer/cuda/testing/pretended_memory.h"

namespace tombolo::trainer::cuda {

/// When what was put on a stream is carried out.
enum class Eagerness {
  kEarly,   ///< as soon as the events that it waits for have happened
  kLate,    ///< not before the host waits for it
  kRandom,  ///< at some time in between, by the seed
};

/// Carries out commands in an order that respects the streams' own order and the events, and nothing else,
/// and tells the memory how far each stream is known to be. Its clock is a virtual one: work begins once what
/// was put on its stream before it is done, the events that it waits for have happened, and the host, which
/// learns what time it is by waiting, has put it there. Not thread-safe.
class PretendedStreams {
 public:
  /// `operation_seconds`: that each operation takes. The memory outlives this.
  PretendedStreams(unsigned seed, const std::array<Eagerness, kStreams>& eagerness, double operation_seconds,
                   PretendedMemory& memory);

  /// Checks it by the rules of the memory and of events, and carries out what early streams and the dice
  /// want.
  void put(Stream stream, PretendedCommand command);

  Event make_event(bool timed);
  /// Throws where one keeps no time or has not happened.
  double seconds_between(Event begin, Event end) const;
  /// The number of the recording that a wait now waits for; throws where there is none.
  std::size_t last_recording(Event event) const;
  bool happened(Event event, std::size_t recording) const;
  /// Carries out something without which the recording will not happen. False where that must wait for
  /// another device.
  bool advance(Event event, std::size_t recording);
  /// The host knows now that the event's last recording has happened.
  void learn(Event event);

  const VectorClock& host_clock() const noexcept { return host_clock_; }
  /// The streams of everything carried out so far, in the order in which it was.
  const std::vector<Stream>& history() const noexcept { return history_; }
  /// Commands that are queued still.
  std::size_t pending() const;

 private:
  struct EventState {
    struct Recording {
      int stream = 0;
      bool happened = false;
      double seconds = 0;  ///< when
    };
    std::vector<Recording> recordings = {};
    VectorClock clock{};  ///< of the latest
    bool timed = false;
  };

  EventState& state_of(Event event, std::string_view use);
  const EventState& state_of(Event event, std::string_view use) const;
  double latest_seconds(Event event) const;
  bool touches_queued(const void* at, std::size_t bytes) const;
  void prepare_copy(PretendedCommand& command);
  bool runnable(int stream) const;
  void carry_out_head(int stream);
  void carry_out(PretendedCommand& command);
  void finish_sum(const PretendedCommand& command);
  bool step_towards(Event event, std::size_t recording);
  void advance_clock(int stream, const PretendedCommand& command);
  void carry_out_eagerly();
  void roll_dice();

  const std::array<Eagerness, kStreams> eagerness_;
  const double operation_seconds_;
  PretendedMemory& memory_;
  std::mt19937 random_;
  std::array<std::deque<PretendedCommand>, kStreams> queues_;
  std::array<VectorClock, kStreams> clocks_{};
  VectorClock host_clock_{};
  std::vector<EventState> events_;
  std::vector<Stream> history_;
  std::array<double, kStreams> stream_seconds_{};  ///< the virtual clock: when each stream was done
  double host_seconds_ = 0;                        ///< and what the host knows of it
};

}  // namespace tombolo::trainer::cuda
