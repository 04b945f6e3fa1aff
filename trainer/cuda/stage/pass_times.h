// When the device did what it was told, by its own clock.
#pragma once

#include <optional>
#include <vector>

#include "base/clock.h"
#include "trainer/cuda/device.h"
#include "trainer/model/stage_compute.h"

namespace tombolo::trainer::cuda {

/// Puts a timed event before and after each pass on the compute stream, and asks for their times once the
/// host has waited for something later on that stream anyway: the device is never stalled for them. Events
/// are used again, so there are as many as passes are under way. Used by one thread at a time.
///
/// The two clocks are compared where the host has waited (anchor): positions on the host's axis are late by
/// what it takes to notice that, tens of microseconds; how long a pass took is not affected.
class PassTimes {
 public:
  /// Where nobody wants the times nothing is recorded.
  PassTimes(Device& device, bool wanted) : device_(device), wanted_(wanted) {}

  /// What is put on the compute stream from here to end() is one pass; passes do not overlap.
  void begin(Pass pass, int micro_batch = -1);
  void end();

  /// To be called before the host waits for all that is on the compute stream; `anchor_reached` when it has,
  /// with the time.
  void record_anchor();
  void anchor_reached(TimePoint now);

  /// Whether passes have ended of which no anchor is known to be later.
  bool pending() const noexcept { return !ended_.empty(); }
  /// The passes up to the last anchor that were not taken yet, in their order.
  std::vector<PassTime> take();

 private:
  struct Recorded {
    Pass pass;
    int micro_batch;
    Event begin, end;
  };
  Event recorded_event();

  Device& device_;
  const bool wanted_;
  std::vector<Event> free_;
  std::optional<Event> anchor_;
  std::optional<Recorded> open_;
  std::vector<Recorded> ended_;
  std::vector<PassTime> known_;
};

}  // namespace tombolo::trainer::cuda
