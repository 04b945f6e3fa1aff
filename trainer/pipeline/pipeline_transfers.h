// Transfers of activations and their gradients between neighbouring pipeline stages. Receives are posted as
// soon as a buffer is free; a send is waited for only when its buffer is needed again.
#pragma once

#include <optional>
#include <vector>

#include "collectives/engine/communicator.h"
#include "trainer/model/stage_compute.h"
#include "trainer/pipeline/timeline.h"

namespace tombolo::trainer {

/// Used by the thread that computes. With a null communicator (one stage) every call does nothing.
class PipelineTransfers {
 public:
  /// `pipeline`: the ranks of one replica, in stage order; this rank is stage `pipeline->rank()`. `ranks`:
  /// their numbers in the job, by stage, for the timeline. All arguments but `ranks` outlive the object.
  PipelineTransfers(collectives::Communicator* pipeline, std::vector<int> ranks, StageCompute& compute,
                    int micro_batches, int in_flight, Timeline& timeline);

  /// Posts the step's first receives.
  void begin_step();
  /// Returns when the micro-batch's input has arrived and the buffers that its forward pass overwrites are
  /// free.
  void before_forward(int micro_batch);
  void after_forward(int micro_batch);
  void before_backward(int micro_batch);
  void after_backward(int micro_batch);
  /// Returns when everything that was sent has left its buffers.
  void end_step();
  /// Makes progress on the transfers; to be called between computations.
  void progress();

 private:
  /// A transfer under way.
  struct Started {
    collectives::Work work;
    TimePoint begin;
    Transfer transfer;
  };
  using Pending = std::vector<std::optional<Started>>;

  bool has_previous() const noexcept { return pipeline_ != nullptr && pipeline_->rank() > 0; }
  bool has_next() const noexcept { return pipeline_ != nullptr && pipeline_->rank() + 1 < pipeline_->size(); }
  int neighbour(int distance) const noexcept;
  /// Of an activation to the next stage or from the previous one, or of a gradient the other way.
  std::optional<Started> send(std::span<const std::byte> from, std::string_view what, int to,
                              int micro_batch);
  std::optional<Started> receive(std::span<std::byte> into, std::string_view what, int from, int micro_batch);
  /// True where nothing is under way any more; does not wait.
  bool finished(std::optional<Started>& started);
  void finish(std::optional<Started>& started, std::string_view what);
  /// Posts the receive of the next gradient if its buffer is free; with `wait`, makes it free.
  bool post_gradient(bool wait);

  collectives::Communicator* pipeline_;
  std::vector<int> ranks_;
  StageCompute& compute_;
  int micro_batches_;
  int in_flight_;
  Timeline& timeline_;
  // The transfers under way, by micro-batch of the current step.
  Pending inputs_, outputs_, gradients_in_, gradients_out_;
  int next_gradient_ = 0;  ///< the micro-batch whose gradient's receive is posted next
  int backwards_ = 0;      ///< backward passes completed in this step
};

}  // namespace tombolo::trainer
