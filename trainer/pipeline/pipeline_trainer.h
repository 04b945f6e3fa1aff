// One rank's part of a training step: it runs the 1F1B schedule, the transfers between stages, the reduction
// over replicas and the optimizer.
//
// trainer/pipeline/ owns what joins the ranks of a job: which part each holds, what is sent between them, and
// when.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collectives/engine/communicator.h"
#include "planner/model/schedule.h"
#include "trainer/checkpoint/save_votes.h"
#include "trainer/cpu/cpu_stage.h"
#include "trainer/data/open_source.h"
#include "trainer/data/rows.h"
#include "trainer/model/stage_compute.h"
#include "trainer/pipeline/gradient_reducer.h"
#include "trainer/pipeline/gradient_sum.h"
#include "trainer/pipeline/parallel_config.h"
#include "trainer/pipeline/pipeline_transfers.h"
#include "trainer/pipeline/timeline.h"

namespace tombolo::trainer {

/// What to train and how; equal on every rank but for make_stage.
struct Job {
  Shape shape;
  ParallelConfig parallel;
  std::shared_ptr<const planner::Plan> plan;  ///< that all this comes from; null without one
  AdamW optimizer;
  std::string data;                                             ///< what to train on: see data_paths()
  std::string tokenizer;                                        ///< path, for text; empty: bytes are tokens
  RowOrder order;                                               ///< in which the rows of the data follow
  std::string init = "random:1337";                             ///< "random:SEED", or a model's path
  int threads = 1;                                              ///< for matrix products, per rank
  compute::Precision precision = compute::Precision::kFloat32;  ///< see StageOptions
  compute::Precision moments = compute::Precision::kFloat32;    ///< see StageOptions
  planner::Recompute recompute = planner::Recompute::kNone;
  /// What computes, on this rank: the one member that may differ from rank to rank, as long as all pass
  /// boundaries in one format.
  StageFactory make_stage = cpu_stages();
  /// Gradients are reduced in pieces of at least this many bytes.
  std::size_t bucket_bytes = 256 * 1024;
  /// What adds them up. kNccl: every rank computes on a GPU of its own that sums with the others.
  Reduction reduction = Reduction::kEngine;
  /// With kNccl: for joining, and for each of its sums.
  Duration reduction_deadline = std::chrono::seconds(60);
};

struct StepReport {
  int step = 0;
  double loss = 0;           ///< mean over the global batch, natural logarithm
  double gradient_norm = 0;  ///< of the whole model, before clipping
  double seconds = 0;
  SaveVotes votes;                        ///< of all ranks
  double tokens_per_second = 0;           ///< of all replicas
  bool interrupted = false;               ///< some rank asked to stop; the update was made
  std::optional<double> validation_loss;  ///< mean, where it was measured after this step
};

/// Used by one thread at a time.
class PipelineTrainer {
 public:
  /// Collective. `world` has parallel.ranks() members and outlives the object; null stands for a single rank
  /// and no sockets. Throws kInvalidUsage for a job of another number of ranks, unusable data, a checkpoint
  /// of another shape, or stages that pass boundaries in different formats; and what make_stage throws.
  PipelineTrainer(const Job& job, collectives::Communicator* world, Timeline& timeline);

  /// Collective: one optimizer step. Every rank gets the same report but for `seconds`. `stop`: this rank
  /// asks all to stop. `votes`: this rank's, which the report holds added up over all. They travel with the
  /// loss whether anybody votes or not, so that saving changes no bit of it. Throws what a communicator
  /// throws, and kInvalidUsage when the loss is no longer a number.
  StepReport step(int step, bool stop, const SaveVotes& votes = {});

  /// Collective: the mean loss over the first `batches` global batches of `rows`, forward only; the same on
  /// every rank, and in every layout but for rounding. Between steps; changes nothing that a step uses.
  double validate(Rows& rows, int batches);

  /// Adds to the timeline what a device that has a clock of its own has done since the last step's end. Waits
  /// for it; to be called before the timeline is read.
  void finish_timeline();

  /// Collective: returns all parameters in a checkpoint's order on rank 0; elsewhere nothing.
  std::vector<float> gather();

  StageCompute& compute() noexcept { return *compute_; }
  const Rows& rows() const noexcept { return rows_; }
  Rows& rows() noexcept { return rows_; }
  RankCoordinates coordinates() const noexcept { return coordinates_; }
  /// Threads for matrix products.
  int threads() const noexcept { return job_.threads; }
  /// Payload bytes by pair of NICs, added up over this rank's communicators.
  std::vector<collectives::LinkTraffic> traffic() const;

 private:
  /// A bar of what the calling thread does, where the host's clock times passes.
  std::optional<Timed> timed(std::string_view name, Activity activity, int micro_batch = -1);
  /// What forward passes of the device are for.
  enum class ForwardOf { kTraining, kValidation };
  void collect_pass_times(StageCompute::Gather gather, ForwardOf forward = ForwardOf::kTraining);
  void forward(int micro_batch);
  void backward(int micro_batch);
  /// This replica's share of a step's rows, to tokens_ and targets_.
  void load_tokens(Rows& rows, int step);
  std::span<const std::int32_t> rows_of(const std::vector<std::int32_t>& tokens, int micro_batch) const;

  Job job_;
  collectives::Communicator* world_;
  Timeline& timeline_;
  RankCoordinates coordinates_;
  std::vector<planner::Operation> schedule_;
  Rows rows_;
  std::unique_ptr<StageCompute> compute_;
  // The helper thread uses data_ and tied_. It is declared after them, so that it ends before they do.
  std::unique_ptr<collectives::Communicator> pipeline_, data_, tied_;
  std::unique_ptr<PipelineTransfers> transfers_;
  std::unique_ptr<GradientReducer> reducer_;
  std::vector<std::int32_t> tokens_, targets_;  ///< this replica's rows of the step
  int step_ = 0, updated_step_ = 0;             ///< the step under way; the one whose update was put last
};

}  // namespace tombolo::trainer
