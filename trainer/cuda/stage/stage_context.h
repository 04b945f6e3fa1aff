// What the parts of a stage on a device share: its options, its memory, and how they wait for the device.
#pragma once

#include <memory>
#include <mutex>
#include <utility>

#include "trainer/cuda/device.h"
#include "trainer/cuda/memory/memory_plan.h"
#include "trainer/cuda/memory/slots.h"
#include "trainer/cuda/memory/stage_buffers.h"
#include "trainer/cuda/stage/pass_times.h"
#include "trainer/model/stage_compute.h"

namespace tombolo::trainer::cuda {

/// One allocation of the device's memory and one of the host's, laid out. Outlives the parts that use it.
class StageContext {
 public:
  StageContext(std::shared_ptr<Device> of, const StageOptions& stage, const CudaStageOptions& cuda);
  /// Waits for the device, which may still copy to and from what the caller will now free.
  ~StageContext();
  StageContext(const StageContext&) = delete;
  StageContext& operator=(const StageContext&) = delete;

  /// Returns when all that is on the compute stream is done.
  void settle();
  /// The same, and learns the times of the passes so far.
  void settle_passes();
  /// settle() where every member waits for the device.
  void settle_if_timed() {
    if (options.wait_per_layer) settle();
  }
  /// A number in the device's memory, once all that is on the compute stream is done. Learns the times of the
  /// passes before it.
  double read_scalar(const double* at);

  /// Does `body`'s work on the compute stream: the first time as it comes, so that the device prepares what
  /// it needs; then from a graph.
  template <typename Body>
  void run_part(Part& part, const Body& body) {
    if (!graphs_ || !std::exchange(part.ran, true)) return body();
    if (!part.graph) {
      device->begin_graph(Stream::kCompute);
      body();
      part.graph = device->end_graph(Stream::kCompute);
    }
    device->launch(Stream::kCompute, *part.graph);
  }

  const std::shared_ptr<Device> device;
  const StageOptions options;
  const StageParameters layout;
  const StageSizes sizes;
  MemoryPlan device_plan, host_plan;
  const DeviceBuffers buffers;
  const HostBuffers host;
  /// Held while work is put on these streams: two threads copy, the one that computes, and the one that
  /// reduces gradients.
  std::mutex to_host, from_host;
  /// By the thread that computes.
  PassTimes pass_times;

 private:
  const bool graphs_;
  Mark settled_;
};

/// A micro-batch's place in a ring of buffers.
template <typename Ring>
auto& of_micro_batch(Ring& ring, int micro_batch) {
  return ring[static_cast<std::size_t>(micro_batch) % ring.size()];
}

}  // namespace tombolo::trainer::cuda
