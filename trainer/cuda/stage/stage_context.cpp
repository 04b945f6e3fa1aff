#include "trainer/cuda/stage/stage_context.h"

#include "base/error.h"

namespace tombolo::trainer::cuda {
namespace {

/// Plans, allocates, and lays out.
template <typename Buffers, typename Allocate>
Buffers laid_out(MemoryPlan& plan, const StageSizes& sizes, std::size_t ranges, const Allocate& allocate) {
  MemoryPlan first;
  Buffers(PlanCarver(first, nullptr), sizes, ranges);
  return Buffers(PlanCarver(plan, allocate(first.bytes())), sizes, ranges);
}

}  // namespace

StageContext::StageContext(std::shared_ptr<Device> of, const StageOptions& stage,
                           const CudaStageOptions& cuda)
    : device(std::move(of)),
      options(stage),
      layout(stage.shape, stage.first_layer, stage.layers),
      sizes(stage, cuda, layout, *device),
      buffers(laid_out<DeviceBuffers>(
          device_plan, sizes, layout.slices().size(),
          [&](std::size_t bytes) { return device->allocate(bytes, "a stage's memory"); })),
      host(laid_out<HostBuffers>(
          host_plan, sizes, layout.slices().size(),
          [&](std::size_t bytes) { return device->allocate_host(bytes, "a stage's host memory"); })),
      pass_times(*device, stage.time_passes),
      graphs_(cuda.graphs),
      settled_(*device) {
  device->lend_workspace(Stream::kCompute, {buffers.scratch.workspace, sizes.workspace});
}

StageContext::~StageContext() {
  try {
    settled_.record(Stream::kCompute);
    for (const Stream stream : {Stream::kToHost, Stream::kFromHost, Stream::kReduce}) {
      settled_.order(stream);
      settled_.record(stream);
    }
    settled_.synchronize();
  } catch (const Error&) {
    // The device has failed, and whoever used the stage knows: nothing of it runs any more.
  }
}

void StageContext::settle() {
  settled_.record(Stream::kCompute);
  settled_.synchronize();
}

void StageContext::settle_passes() {
  pass_times.record_anchor();
  settle();
  pass_times.anchor_reached(Clock::steady().now());
}

double StageContext::read_scalar(const double* at) {
  device->copy(Stream::kCompute, host.scalar, at, sizeof(double));
  settle_passes();
  return *host.scalar;
}

}  // namespace tombolo::trainer::cuda
