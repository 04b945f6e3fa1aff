// What the CUDA back end needs of a device: memory, streams, events, operations, graphs.
//
// trainer/cuda/ owns the CUDA back end. operations/ says what a device can do, each thing with a reference in
// plain C++; memory/ plans a stage's memory; group/ sums over devices by NCCL; stage/ puts one stage's
// operations on streams; gpu/ is the device and its kernels, and all else is plain C++ that is tested on
// machines without a GPU.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "trainer/cuda/operations/operation.h"
#include "trainer/model/stage_group.h"

namespace tombolo::trainer::cuda {

/// Work on one stream is done in order. Work on two is ordered by events alone.
enum class Stream {
  kCompute,
  kToHost,    ///< copies of outputs and gradients
  kFromHost,  ///< copies of inputs, tokens and reduced gradients
  kReduce,    ///< sums of gradients over several devices
};
inline constexpr int kStreams = 4;

/// A device that has not done what it was told after this long is taken for hung.
inline constexpr Duration kDeviceDeadline = std::chrono::seconds(60);

struct Event {
  int index = -1;
};
struct Graph {
  int index = -1;
};

/// Devices of several ranks that sum numbers in their own memory. One thread at a time, except abort().
/// Failures throw Error naming operation, rank and the library's words, and leave the group unusable.
class DeviceGroup {
 public:
  /// Leaves in order where all was well, and gives up what is under way where it was not.
  virtual ~DeviceGroup() = default;
  /// Puts the sum over all ranks in the place of these numbers, on stream kReduce. Every rank calls it with
  /// as many, in the same order.
  virtual void all_reduce(float* at, std::size_t count) = 0;
  /// Throws what has failed since the last look, be it on another rank; kAborted after abort().
  virtual void check() = 0;
  /// Ends what is under way on this device, so that its streams go on; every later call throws kAborted.
  virtual void give_up(const std::string& reason) noexcept = 0;
  /// Makes the thread that uses the group find kAborted at its next look. Any thread.
  virtual void abort(const std::string& reason) noexcept = 0;
};

/// What is put on a stream is done later; the host learns by done() and synchronize(). One thread at a time
/// puts work on one stream; different threads may use different streams, and any thread may call done() and
/// synchronize(). Failures throw Error naming the operation, its shape, the device and CUDA's error; out of
/// memory says what was asked and what is free.
class Device {
 public:
  virtual ~Device() = default;

  /// "NVIDIA H100 80GB HBM3"
  virtual std::string name() const = 0;
  /// "NVIDIA H100 80GB HBM3, compute capability 9.0, 132 SMs, 79.6 GiB, attention: cuDNN 9.19.0"
  virtual std::string describe() const = 0;
  /// Floating-point operations per second of dense products by the data sheet; 0 where this is not known.
  virtual double peak(Element element) const = 0;

  /// Memory of the device, and page-locked memory of the host that it copies from and to; both live as long
  /// as the object. `what` names it in errors.
  virtual std::byte* allocate(std::size_t bytes, std::string_view what) = 0;
  virtual std::byte* allocate_host(std::size_t bytes, std::string_view what) = 0;
  /// Bytes that AttentionBackward's scratch takes.
  virtual std::size_t attention_scratch(const Attention& attention) const = 0;
  /// Bytes that Product, and Attention of this shape, take on one stream beside their operands, as the
  /// libraries do that run them.
  virtual std::size_t workspace(const Attention& attention) const = 0;
  /// Lends them, in an allocation of this device, to the operations that are put on this stream from now on.
  /// Without enough of it run() throws kInternal: nothing is allocated that the caller does not know of.
  virtual void lend_workspace(Stream stream, std::span<std::byte> memory) = 0;

  virtual void run(Stream stream, const Operation& operation) = 0;
  virtual void copy(Stream stream, void* to, const void* from, std::size_t bytes) = 0;
  virtual void clear(Stream stream, void* at, std::size_t bytes) = 0;

  virtual Event make_event() = 0;
  /// An event that also keeps when it happened, which takes the device a little longer.
  virtual Event make_timed_event() = 0;
  /// The event happens when all that is on the stream so far is done.
  virtual void record(Stream stream, Event event) = 0;
  /// What is put on the stream from now on waits for the event's latest recording.
  virtual void wait(Stream stream, Event event) = 0;
  virtual bool done(Event event) = 0;
  /// Returns when the event has happened. Throws kTimeout after `kDeviceDeadline`.
  virtual void synchronize(Event event) = 0;
  /// Seconds from the latest recording of one timed event to that of another, by the device's clock; below 0
  /// where `end` happened first. Both have happened. CUDA tells half microseconds.
  virtual double seconds_between(Event begin, Event end) = 0;

  /// What is put on `stream` between the two is kept, not done; launch() does it, any number of times, in the
  /// stream's order. Events recorded and waited for in between behave as outside at each launch.
  virtual void begin_graph(Stream stream) = 0;
  virtual Graph end_graph(Stream stream) = 0;
  virtual void launch(Stream stream, Graph graph) = 0;

  /// Tells this device from all that other ranks may have: machine and PCI address.
  virtual std::string address() const = 0;
  /// What sums over several devices: "NCCL 2.28.9 (libnccl.so.2)". Throws kUnsupported saying why nothing
  /// does.
  virtual std::string group_library() = 0;
  /// As StageCompute::make_group_id() and join_group(). The device outlives the group.
  virtual GroupId make_group_id() = 0;
  virtual std::unique_ptr<DeviceGroup> join_group(const GroupId& id, const GroupMember& member) = 0;
};

/// The GPU of this number among those that CUDA shows (CUDA_VISIBLE_DEVICES). Loads libtombolo_cuda.so at run
/// time. Throws kUnsupported saying what is missing: the library, the driver, a GPU, its compute capability.
std::unique_ptr<Device> open_cuda_device(int number);

}  // namespace tombolo::trainer::cuda
