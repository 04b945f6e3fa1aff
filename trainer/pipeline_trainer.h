// Trains: the schedule, the transfers between stages, the reduction over replicas and the optimizer, on one
// rank.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "collectives/engine/communicator.h"
#include "planner/model/schedule.h"
#include "trainer/data.h"
#include "trainer/gradient_reducer.h"
#include "trainer/pipeline_link.h"
#include "trainer/stage_compute.h"
#include "trainer/timeline.h"

namespace tombolo::trainer {

/// The same on every rank.
struct Job {
  Shape shape;
  Layout layout;
  AdamW optimizer;
  std::string data;                                             ///< path of the training text
  std::string init = "random:1337";                             ///< "random:SEED", or a checkpoint's path
  int threads = 1;                                              ///< for matrix products, per rank
  compute::Precision precision = compute::Precision::kFloat32;  ///< of matrix products
  /// Gradients are reduced in pieces of at least this many bytes.
  std::size_t bucket_bytes = 256 * 1024;
};

struct StepReport {
  int step = 0;
  double loss = 0;           ///< mean over the global batch, natural logarithm
  double gradient_norm = 0;  ///< of the whole model, before clipping
  double seconds = 0;
  double tokens_per_second = 0;  ///< of all replicas
  bool interrupted = false;      ///< some rank asked to stop; the update was made
};

/// One thread at a time.
class PipelineTrainer {
 public:
  /// Collective. `world` has layout.ranks() members and outlives the object; null stands for a single rank
  /// and no sockets. Throws kInvalidUsage for a layout of another size, unusable data, or a checkpoint of
  /// another shape.
  PipelineTrainer(const Job& job, collectives::Communicator* world, Timeline& timeline);

  /// Collective: one optimizer step. Every rank gets the same report but for `seconds`. `stop`: this rank
  /// asks all to stop. Throws what a communicator throws, and kInvalidUsage when the loss is no longer a
  /// number.
  StepReport step(int step, bool stop);

  /// Collective: all parameters in a checkpoint's order on rank 0; elsewhere empty.
  std::vector<float> gather();

  StageCompute& compute() noexcept { return *compute_; }
  Place place() const noexcept { return place_; }
  /// For matrix products.
  int threads() const noexcept { return job_.threads; }
  /// Payload bytes by pair of NICs, added up over this rank's communicators.
  std::vector<collectives::LinkTraffic> traffic() const;

 private:
  void forward(int micro_batch);
  void backward(int micro_batch);
  void load_tokens(int step);
  std::span<const std::int32_t> rows_of(const std::vector<std::int32_t>& tokens, int micro_batch) const;

  Job job_;
  collectives::Communicator* world_;
  Timeline& timeline_;
  Place place_;
  std::vector<planner::Operation> schedule_;
  TextFile text_;
  std::unique_ptr<StageCompute> compute_;
  // The helper thread uses data_ and tied_, so it is declared after them: it ends before they do.
  std::unique_ptr<collectives::Communicator> pipeline_, data_, tied_;
  std::unique_ptr<PipelineLink> link_;
  std::unique_ptr<GradientReducer> reducer_;
  std::vector<std::int32_t> tokens_, targets_;  ///< of this replica's share of the step
  double loss_sum_ = 0;
};

}  // namespace tombolo::trainer
