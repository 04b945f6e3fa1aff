#include "trainer/cuda/stage/cuda_stage.h"

#include <utility>

#include "base/error.h"
#include "trainer/cuda/stage/device_optimizer.h"
#include "trainer/cuda/stage/gradient_exchange.h"
#include "trainer/cuda/stage/passes.h"
#include "trainer/cuda/stage/stage_context.h"
#include "trainer/cuda/stage/stage_state.h"

namespace tombolo::trainer::cuda {
namespace {

void check_stage(const StageOptions& options) {
  options.shape.check();
  if (options.rows < 1 || options.in_flight < 1 || options.layers < 1 || options.first_layer < 0 ||
      options.first_layer + options.layers > options.shape.layers)
    fail(Cause::kInvalidUsage, "stage: {} rows, {} in flight, layers {}+{} of {}", options.rows,
         options.in_flight, options.first_layer, options.layers, options.shape.layers);
}

/// Joins the parts, and sees to the order between gradients that come back and what takes them.
class StageOnDevice final : public StageCompute {
 public:
  StageOnDevice(std::shared_ptr<Device> device, const StageOptions& options, const CudaStageOptions& cuda)
      : stage_(std::move(device), options, cuda),
        state_(stage_),
        passes_(stage_),
        exchange_(stage_, passes_),
        optimizer_(stage_) {
    stage_.settle_passes();
    static_cast<void>(stage_.pass_times.take());  // preparing is no pass
  }

  const StageParameters& layout() const noexcept override { return stage_.layout; }
  StageMemory memory() const noexcept override {
    const MemoryPlan& plan = stage_.device_plan;
    return {plan.bytes(MemoryUse::kParameters), plan.bytes(MemoryUse::kGradients),
            plan.bytes(MemoryUse::kOptimizer),
            plan.bytes(MemoryUse::kActivations) + plan.bytes(MemoryUse::kBuffers)};
  }
  std::string describe() const override {
    return stage_.device->describe() + "\n" + stage_.device_plan.table("memory of the device") +
           stage_.host_plan.table("page-locked memory of the host");
  }

  void read_state(StageState state, std::size_t offset, std::span<float> to) const override {
    state_.read(state, offset, to);
  }
  void write_state(StageState state, std::size_t offset, std::span<const float> from) override {
    state_.write(state, offset, from);
  }
  void read_gradients(std::size_t offset, std::span<float> to) const override {
    exchange_.order_back();
    state_.read_gradients(offset, to);
  }
  std::span<float> gradients_to_host(const Bucket& bucket) override { return exchange_.to_host(bucket); }
  void gradients_from_host(const Bucket& bucket) override { exchange_.from_host(bucket); }
  GroupId make_group_id() override { return stage_.device->make_group_id(); }
  std::unique_ptr<StageGroup> join_group(const GroupId& id, const GroupMember& member) override {
    return exchange_.join(id, member);
  }

  std::span<std::byte> input(int micro_batch) noexcept override {
    if (stage_.host.inputs.empty()) return {};
    return {of_micro_batch(stage_.host.inputs, micro_batch), stage_.sizes.boundary_bytes()};
  }
  std::span<const std::byte> output(int micro_batch) const noexcept override {
    if (stage_.host.outputs.empty()) return {};
    return {of_micro_batch(stage_.host.outputs, micro_batch), stage_.sizes.boundary_bytes()};
  }
  std::span<std::byte> boundary_gradient(int micro_batch) noexcept override {
    if (stage_.host.boundary_gradients.empty()) return {};
    return {of_micro_batch(stage_.host.boundary_gradients, micro_batch), stage_.sizes.boundary_bytes()};
  }

  void forward(int micro_batch, std::span<const std::int32_t> tokens, std::span<const std::int32_t> targets,
               const Progress& progress) override {
    passes_.forward(micro_batch, tokens, targets, progress);
  }
  void backward(int micro_batch, std::span<const std::int32_t> /*tokens*/, const Progress& progress,
                const GradientsFinal& gradients_final) override {
    passes_.backward(micro_batch, progress, gradients_final);
  }
  double take_loss_sum() override { return passes_.take_loss_sum(); }
  std::span<const float> scores(int micro_batch, int row, int position) override {
    return passes_.scores(micro_batch, row, position);
  }

  void clear_gradients() override {
    exchange_.order_back();
    optimizer_.clear_gradients();
  }
  double gradient_square_sum() const override {
    exchange_.order_back();
    return optimizer_.gradient_square_sum();
  }
  void update(const AdamWStep& step) override {
    exchange_.order_back();
    optimizer_.update(step);
  }
  planner::PassClock pass_clock() const noexcept override { return planner::PassClock::kDevice; }
  std::vector<PassTime> take_pass_times(Gather gather) override {
    if (gather == Gather::kAll && stage_.pass_times.pending()) stage_.settle_passes();
    return stage_.pass_times.take();
  }

 private:
  // Reading what the device holds takes work on its streams, which changes nothing that a caller sees.
  mutable StageContext stage_;
  DeviceState state_;
  Passes passes_;
  GradientExchange exchange_;
  mutable DeviceOptimizer optimizer_;
};

}  // namespace

std::unique_ptr<StageCompute> make_cuda_stage(std::shared_ptr<Device> device, const StageOptions& options,
                                              const CudaStageOptions& cuda) {
  check_stage(options);
  return std::make_unique<StageOnDevice>(std::move(device), options, cuda);
}

StageFactory cuda_stages(std::function<std::shared_ptr<Device>()> open, const CudaStageOptions& cuda) {
  return [open = std::move(open), cuda](const StageOptions& options) {
    check_stage(options);
    return make_cuda_stage(open(), options, cuda);
  };
}

}  // namespace tombolo::trainer::cuda
