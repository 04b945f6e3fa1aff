// How far the device has come with what a stage has in flight.
#pragma once

#include <optional>
#include <vector>

#include "trainer/cuda/device.h"
#include "trainer/cuda/memory/stage_buffers.h"

namespace tombolo::trainer::cuda {

/// An event, and whether it was ever recorded: before that there is nothing to wait for.
class Mark {
 public:
  explicit Mark(Device& device) : device_(&device), event_(device.make_event()) {}
  void record(Stream stream) {
    device_->record(stream, event_);
    recorded_ = true;
  }
  /// What is put on `stream` from now on waits for it.
  void order(Stream stream) const {
    if (recorded_) device_->wait(stream, event_);
  }
  /// The host waits for it.
  void synchronize() const {
    if (recorded_) device_->synchronize(event_);
  }
  bool done() const { return !recorded_ || device_->done(event_); }

 private:
  Device* device_;
  Event event_;
  bool recorded_ = false;
};

/// A piece of a pass that is the same each time it is done.
struct Part {
  bool ran = false;
  std::optional<Graph> graph = {};
};

/// One micro-batch in flight: its buffers, and how far the device has come with them.
struct Slot {
  Slot(Device& device, const SlotBuffers& of)
      : buffers(of),
        arrived(device),
        done(device),
        sent(device),
        forward(of.layers.size()),
        backward(of.layers.size()) {}
  SlotBuffers buffers;
  Mark arrived;  ///< what forward takes has been copied to the device
  Mark done;     ///< the latest pass over them is over
  Mark sent;     ///< the output is in the host's memory
  std::vector<Part> forward, backward;
  Part head_norm = {}, head_loss = {}, head_backward = {}, embed_backward = {};
};

/// A gradient by a boundary on its way through the device.
struct GradientSlot {
  GradientSlot(Device& device, const Values& of) : values(of), arrived(device), ready(device), sent(device) {}
  Values values;
  Mark arrived, ready, sent;
};

/// A buffer of the host from which the device copies.
template <typename T>
struct Staged {
  Staged(Device& device, T* of) : at(of), copied(device) {}
  T* at;
  Mark copied;
};

}  // namespace tombolo::trainer::cuda
