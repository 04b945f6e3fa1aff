// The interface that a device's back end implements: the computation of one pipeline stage. Schedule,
// transfers, gradient reduction and logs know only this; trainer/cpu/ and trainer/cuda/ implement it.
//
// trainer/model/ owns what is the same on every device: the model's shape and tensors, where a stage's
// parameters lie, checkpoints, the training text and the optimizer's arithmetic.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "compute/precision.h"
#include "planner/model/job.h"
#include "planner/simulate/pass_clock.h"
#include "trainer/model/model.h"
#include "trainer/model/optimizer.h"
#include "trainer/model/stage_group.h"
#include "trainer/model/stage_parameters.h"

namespace tombolo::trainer {

struct StageOptions {
  Shape shape;
  int first_layer = 0;
  int layers = 0;
  int rows = 1;           ///< per micro-batch
  int in_flight = 1;      ///< micro-batches whose activations are held at once
  double loss_scale = 1;  ///< multiplies every token's gradient: 1 / (global batch x context)
  int threads = 1;        ///< for matrix products
  /// On the CPU of the operands of the linear layers' products; on a GPU of activations and of the parameters
  /// that products read. Gradients of parameters, and the parameters that the optimizer changes, are fp32.
  compute::Precision precision = compute::Precision::kFloat32;
  /// In which the optimizer's moments are stored.
  compute::Precision moments = compute::Precision::kFloat32;
  /// What of a block's activations backward computes again in place of keeping it.
  planner::Recompute recompute = planner::Recompute::kNone;
  bool training = true;  ///< false: no gradients, no optimizer state, forward only
  /// False where nobody will call gradients_to_host(), as where there is one rank or devices sum by
  /// themselves: then no host memory is taken for all gradients, and the call is refused with kInternal.
  bool exchanges_gradients = true;
  /// True to take times: `progress` is called once after each block, when the device has done it, and every
  /// member waits for the device. The CPU does so always.
  bool wait_per_layer = false;
  /// Whether take_pass_times() will be called, once a step at least.
  bool time_passes = false;
};

struct StageMemory {
  std::size_t parameters = 0, gradients = 0, optimizer = 0, activations = 0;  ///< bytes
};

/// Called between the layers of forward and backward: keeps transfers going while this thread computes.
using Progress = std::function<void()>;
/// Called by backward each time more gradients are complete, or will be once the device has done what it was
/// told: those from this arena offset to the end.
using GradientsFinal = std::function<void(std::size_t)>;

/// What a stage is told to do.
enum class Pass { kForward, kBackward, kClearGradients, kGradientNorm, kUpdate };

/// When a device did it, on the host's axis.
struct PassTime {
  Pass pass;
  int micro_batch;  ///< -1 where it is of none
  TimePoint begin, end;
};

/// What a run must keep to go on later, beside the number of its next step. One float per arena element each.
enum class StageState { kParameters, kFirstMoment, kSecondMoment };
inline constexpr std::array kStageStates{StageState::kParameters, StageState::kFirstMoment,
                                         StageState::kSecondMoment};

/// One thread at a time, except that gradients_to_host() and gradients_from_host() may be called by another
/// for gradients that backward has announced. Arenas and buffers live as long as the object. What a
/// communicator sends and receives is in host memory; a device copies to and from it, so that calls may
/// return before the device has done the work, unless it is said here that they wait.
class StageCompute {
 public:
  virtual ~StageCompute() = default;

  virtual const StageParameters& layout() const noexcept = 0;
  virtual StageMemory memory() const noexcept = 0;
  /// What computes, and where its memory is planned, a table of what that is taken for: one or more lines.
  virtual std::string describe() const = 0;

  /// Copies out of or into the state, `offset` floats from the start of the arena; waits for the device.
  /// Throws kInternal beyond the arena's end, and for moments of a stage that does not train.
  virtual void read_state(StageState state, std::size_t offset, std::span<float> to) const = 0;
  virtual void write_state(StageState state, std::size_t offset, std::span<const float> from) = 0;

  /// Copies out of the gradients, as read_state() out of the state, once backward is over and what others
  /// change in them has come back. Throws kInternal beyond the arena's end and for a stage that does not
  /// train.
  virtual void read_gradients(std::size_t offset, std::span<float> to) const = 0;

  /// Waits until the gradients of `bucket` are final and returns them in host memory, where they may be
  /// changed until gradients_from_host() of the same bucket, which makes the change the device's.
  virtual std::span<float> gradients_to_host(const Bucket& bucket) = 0;
  virtual void gradients_from_host(const Bucket& bucket) = 0;

  /// Both: for gradients that are summed over ranks by the devices. The id is made by one rank of the group;
  /// all join together. The stage outlives the group, which another thread may use. Throws kUnsupported where
  /// the device cannot do it, kTimeout naming the rank where others do not come.
  virtual GroupId make_group_id() {
    fail(Cause::kUnsupported, "this device sums no gradients by itself: {}", describe());
  }
  virtual std::unique_ptr<StageGroup> join_group(const GroupId& /*id*/, const GroupMember& /*member*/) {
    fail(Cause::kUnsupported, "this device sums no gradients by itself: {}", describe());
  }

  // Boundary buffers hold rows x context x width values: fp32, or bf16 where the stage computes in bf16.

  /// The buffer into which the caller puts the previous stage's activation before forward (not on the first
  /// stage). A ring of in_flight + 1 buffers: each is free again once backward of its micro-batch is over.
  virtual std::span<std::byte> input(int micro_batch) noexcept = 0;
  /// The activation that forward left for the next stage (not on the last stage); valid until backward of the
  /// same micro-batch.
  virtual std::span<const std::byte> output(int micro_batch) const noexcept = 0;
  /// Before backward the caller puts the loss's gradient by this stage's output here (not on the last stage);
  /// after backward it holds the gradient by this stage's input. A ring of kGradientBuffers buffers.
  virtual std::span<std::byte> boundary_gradient(int micro_batch) noexcept = 0;
  static constexpr int kGradientBuffers = 3;

  /// `tokens` (first stage) and `targets` (last stage) are rows x context. At most in_flight micro-batches
  /// may wait for backward; one that is given another forward pass instead, as validation does, is forgotten.
  /// Returns once output() is there, on the last stage possibly before that. With
  /// targets a stage that trains may add the output projection's gradient here already, so gradients are
  /// cleared before the first forward of a step.
  virtual void forward(int micro_batch, std::span<const std::int32_t> tokens,
                       std::span<const std::int32_t> targets, const Progress& progress) = 0;
  /// The sum of the losses (natural logarithm) of the tokens that forward has seen since the last call; 0 on
  /// all stages but the last. Waits for the device.
  virtual double take_loss_sum() = 0;
  /// Adds to the gradients. `tokens` are those given to forward. Returns once boundary_gradient() is there,
  /// on the first stage possibly before that.
  virtual void backward(int micro_batch, std::span<const std::int32_t> tokens, const Progress& progress,
                        const GradientsFinal& gradients_final) = 0;
  /// Last stage: the scores of every vocabulary entry after the token at `position` of `row`, from a forward
  /// pass without targets. Waits for the device; valid until the next call.
  virtual std::span<const float> scores(int micro_batch, int row, int position) = 0;

  virtual void clear_gradients() = 0;
  /// Sum of squares of this stage's gradients, without copies of tensors that another stage owns. Waits for
  /// the device.
  virtual double gradient_square_sum() const = 0;
  virtual void update(const AdamWStep& step) = 0;

  /// Which clock tells how long passes took: the caller's around the calls; or, where they return before the
  /// device has done the work, the device's, which take_pass_times() reads.
  virtual planner::PassClock pass_clock() const noexcept { return planner::PassClock::kHost; }
  /// What the device has done since the last call, in its order, as far as that is known without waiting: up
  /// to the last member that waits for the device. kAll waits for it. Empty with the host's clock.
  enum class Gather { kKnown, kAll };
  virtual std::vector<PassTime> take_pass_times(Gather /*gather*/) { return {}; }
};

/// Makes the stages of a back end. Throws as it does: kInvalidUsage for shapes out of range, kUnsupported for
/// what the back end cannot do, kSystem where memory does not suffice.
using StageFactory = std::function<std::unique_ptr<StageCompute>(const StageOptions&)>;

}  // namespace tombolo::trainer
