#include "trainer/pipeline/pipeline_trainer.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "trainer/model/initial_values.h"
#include "trainer/model/model_file.h"
#include "trainer/pipeline/device_gradient_sum.h"
#include "trainer/pipeline/divergence.h"
#include "trainer/pipeline/engine_gradient_sum.h"

namespace tombolo::trainer {

using collectives::Communicator;
using collectives::DataType;
using collectives::ReduceOp;

namespace {

constexpr std::string_view kRandom = "random:";

/// Checks the job against the ranks that run.
RankCoordinates own_coordinates(const Job& job, const Communicator* world) {
  const int ranks = world == nullptr ? 1 : world->size();
  if (ranks != job.parallel.ranks())
    fail(Cause::kInvalidUsage,
         "the layout ({} stages x {} replicas) takes {} ranks, but {} {} running; start them "
         "with `tombolo run -n {} -- tombolo train ...`, torchrun, srun or mpirun",
         job.parallel.pipeline(), job.parallel.replicas, job.parallel.ranks(), ranks,
         ranks == 1 ? "is" : "are", job.parallel.ranks());
  job.shape.check();
  job.parallel.check(job.shape);
  job.optimizer.check();
  return job.parallel.coordinates[static_cast<std::size_t>(world == nullptr ? 0 : world->rank())];
}

StageOptions stage_options(const Job& job, const RankCoordinates& own, const Timeline& timeline) {
  const planner::Stage& stage = job.parallel.stages[static_cast<std::size_t>(own.stage)];
  StageOptions options;
  options.shape = job.shape;
  options.first_layer = stage.first_layer;
  options.layers = stage.layers;
  options.rows = job.parallel.micro_batch;
  options.in_flight =
      planner::micro_batches_in_flight(own.stage, job.parallel.pipeline(), job.parallel.micro_batches());
  options.loss_scale = 1.0 / (static_cast<double>(job.parallel.global_batch) * job.shape.context);
  options.threads = job.threads;
  options.precision = job.precision;
  options.moments = job.moments;
  options.recompute = job.recompute;
  options.time_passes = timeline.wants_passes();
  options.exchanges_gradients =
      job.reduction == Reduction::kEngine && (job.parallel.replicas > 1 || job.parallel.pipeline() > 1);
  return options;
}

void fill_parameters(const Job& job, StageCompute& compute) {
  std::vector<float> arena(compute.layout().size());
  if (!job.init.starts_with(kRandom)) {
    const Shape found = read_model_shape(job.init);
    if (found != job.shape)
      fail(Cause::kInvalidUsage, "model {} holds {}, but {} was asked for", job.init, found.text(),
           job.shape.text());
    read_model(job.init, compute.layout(), arena);
    compute.write_state(StageState::kParameters, 0, arena);
    return;
  }
  const std::string_view text = std::string_view(job.init).substr(kRandom.size());
  std::uint64_t seed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
  if (error != std::errc{} || end != text.data() + text.size())
    fail(Cause::kInvalidUsage, "initial values \"{}\": expected random:SEED with a whole number, or a file",
         job.init);
  initialize(job.shape, seed, compute.layout(), arena);
  compute.write_state(StageState::kParameters, 0, arena);
}

/// What stages pass to each other must have one format: bf16 between GPUs that compute in it, else fp32.
void check_boundaries(Communicator& pipeline, StageCompute& compute) {
  const double bytes =
      static_cast<double>(std::max(compute.input(0).size_bytes(), compute.output(0).size_bytes()));
  double largest_and_smallest[2] = {bytes, -bytes};
  pipeline.all_reduce(largest_and_smallest, largest_and_smallest, 2, DataType::kFloat64, ReduceOp::kMax);
  if (largest_and_smallest[0] != -largest_and_smallest[1])
    fail(Cause::kInvalidUsage,
         "stages pass boundaries of {:.0f} and of {:.0f} bytes (here {:.0f}): with bf16 all of them must "
         "compute on GPUs, or all on CPUs",
         -largest_and_smallest[1], largest_and_smallest[0], bytes);
}

/// Null where there is nothing to add up.
std::unique_ptr<GradientSum> make_gradient_sum(const Job& job, Communicator* data, Communicator* tied,
                                               StageCompute& compute, Timeline& timeline) {
  if (data == nullptr && tied == nullptr) return nullptr;
  if (job.reduction == Reduction::kNccl)
    return std::make_unique<DeviceGradientSum>(data, tied, compute, job.reduction_deadline, timeline);
  return std::make_unique<EngineGradientSum>(data, tied, compute, timeline);
}

void add_traffic(std::vector<collectives::LinkTraffic>& total, const Communicator* communicator) {
  if (communicator == nullptr) return;
  for (const collectives::LinkTraffic& link : communicator->traffic()) {
    auto same = [&](const collectives::LinkTraffic& other) {
      return other.local_host == link.local_host && other.local_nic == link.local_nic &&
             other.peer_host == link.peer_host && other.peer_nic == link.peer_nic;
    };
    auto found = std::ranges::find_if(total, same);
    if (found == total.end()) {
      total.push_back(link);
    } else {
      found->bytes_sent += link.bytes_sent;
      found->bytes_received += link.bytes_received;
    }
  }
}

}  // namespace

PipelineTrainer::PipelineTrainer(const Job& job, Communicator* world, Timeline& timeline)
    : job_(job),
      world_(world),
      timeline_(timeline),
      coordinates_(own_coordinates(job, world)),
      schedule_(planner::one_forward_one_backward(coordinates_.stage, job.parallel.pipeline(),
                                                  job.parallel.micro_batches())),
      rows_(open_source({job.data, job.tokenizer}), job.shape.context, job.order),
      compute_(job.make_stage(stage_options(job, coordinates_, timeline))) {
  timeline_.set_pass_clock(compute_->pass_clock());
  fill_parameters(job, *compute_);
  const int stages = job.parallel.pipeline();
  if (world_ != nullptr) {
    if (stages > 1) pipeline_ = world_->split(coordinates_.replica, coordinates_.stage);
    if (pipeline_) check_boundaries(*pipeline_, *compute_);
    if (job.parallel.replicas > 1) data_ = world_->split(coordinates_.stage, coordinates_.replica);
    const bool end = coordinates_.stage == 0 || coordinates_.stage == stages - 1;
    if (stages > 1) tied_ = world_->split(end ? coordinates_.replica : -1, coordinates_.stage);
  }
  const int in_flight =
      planner::micro_batches_in_flight(coordinates_.stage, stages, job.parallel.micro_batches());
  std::vector<int> pipeline_ranks;
  for (int stage = 0; stage < stages; ++stage)
    pipeline_ranks.push_back(job.parallel.rank_at(stage, coordinates_.replica));
  transfers_ = std::make_unique<PipelineTransfers>(pipeline_.get(), std::move(pipeline_ranks), *compute_,
                                                   job.parallel.micro_batches(), in_flight, timeline);
  reducer_ =
      std::make_unique<GradientReducer>(make_gradient_sum(job, data_.get(), tied_.get(), *compute_, timeline),
                                        data_.get(), compute_->layout(), job.bucket_bytes, timeline);
  const auto share = static_cast<std::size_t>(job.parallel.global_batch / job.parallel.replicas) *
                     static_cast<std::size_t>(job.shape.context);
  tokens_.resize(share);
  targets_.resize(share);
}

void PipelineTrainer::load_tokens(Rows& rows, int step) {
  const bool needed = compute_->layout().first() || compute_->layout().last();
  const int share = job_.parallel.global_batch / job_.parallel.replicas;
  const auto context = static_cast<std::size_t>(job_.shape.context);
  for (int row = 0; needed && row < share; ++row) {
    const std::size_t begin = static_cast<std::size_t>(row) * context;
    rows.read(static_cast<std::uint64_t>(step), job_.parallel.global_batch,
              coordinates_.replica * share + row, job_.shape.vocabulary,
              std::span(tokens_).subspan(begin, context), std::span(targets_).subspan(begin, context));
  }
}

std::span<const std::int32_t> PipelineTrainer::rows_of(const std::vector<std::int32_t>& tokens,
                                                       int micro_batch) const {
  const auto count =
      static_cast<std::size_t>(job_.parallel.micro_batch) * static_cast<std::size_t>(job_.shape.context);
  return std::span(tokens).subspan(static_cast<std::size_t>(micro_batch) * count, count);
}

void PipelineTrainer::forward(int micro_batch) {
  transfers_->before_forward(micro_batch);
  {
    const auto bar = timed("forward", Activity::kForward, micro_batch);
    compute_->forward(micro_batch, rows_of(tokens_, micro_batch), rows_of(targets_, micro_batch),
                      [this] { transfers_->progress(); });
  }
  transfers_->after_forward(micro_batch);
}

void PipelineTrainer::backward(int micro_batch) {
  transfers_->before_backward(micro_batch);
  {
    const auto bar = timed("backward", Activity::kBackward, micro_batch);
    GradientsFinal announce;
    if (micro_batch + 1 == job_.parallel.micro_batches())
      announce = [this](std::size_t from) { reducer_->gradients_final(from); };
    compute_->backward(
        micro_batch, rows_of(tokens_, micro_batch), [this] { transfers_->progress(); }, announce);
  }
  transfers_->after_backward(micro_batch);
}

StepReport PipelineTrainer::step(int step, bool stop, const SaveVotes& votes) {
  const TimePoint begin = Clock::steady().now();
  timeline_.set_step(step);
  step_ = step;
  load_tokens(rows_, step);
  {
    const auto bar = timed("clear gradients", Activity::kUpdate);
    compute_->clear_gradients();
  }
  transfers_->begin_step();
  for (const planner::Operation& operation : schedule_) {
    if (operation.kind == planner::Operation::Kind::kForward)
      forward(operation.micro_batch);
    else
      backward(operation.micro_batch);
  }
  transfers_->end_step();

  // The loss, whether any rank wants to stop, and the votes are summed over the replicas. Then the same and
  // the norm, which is equal on all replicas, are summed over the stages.
  enum Sum { kLoss, kStop, kDurable, kFailed, kNorm, kSums };
  const double own_loss = compute_->take_loss_sum();
  double sums[kSums] = {own_loss, stop ? 1.0 : 0.0, static_cast<double>(votes.durable),
                        static_cast<double>(votes.failed), 0.0};
  reducer_->finish(std::span(sums).first(kNorm));
  {
    const auto bar = timed("gradient norm", Activity::kUpdate);
    sums[kNorm] = compute_->gradient_square_sum();
  }
  collect_pass_times(StageCompute::Gather::kKnown);
  if (pipeline_ != nullptr) {
    const Timed timed(timeline_, "wait for norm", Activity::kWait);
    pipeline_->all_reduce(sums, sums, kSums, DataType::kFloat64, ReduceOp::kSum);
  }

  StepReport report;
  report.step = step;
  const double tokens = static_cast<double>(job_.parallel.global_batch) * job_.shape.context;
  report.loss = sums[kLoss] / tokens;
  report.interrupted = sums[kStop] > 0;
  report.votes = {static_cast<int>(sums[kDurable]), static_cast<int>(sums[kFailed])};
  report.gradient_norm = std::sqrt(sums[kNorm]);
  if (!std::isfinite(report.loss) || !std::isfinite(report.gradient_norm))
    fail_divergence({report.step, report.loss, report.gradient_norm, std::isfinite(own_loss), coordinates_},
                    *compute_, world_);
  {
    const auto bar = timed("update", Activity::kUpdate);
    compute_->update(adamw_step(job_.optimizer, step, report.gradient_norm));
  }
  updated_step_ = step;
  timeline_.end_step();
  report.seconds = to_seconds(Clock::steady().now() - begin);
  report.tokens_per_second = tokens / report.seconds;
  return report;
}

std::vector<float> PipelineTrainer::gather() {
  const int own = world_ == nullptr ? 0 : world_->rank();
  if (own != 0) {
    if (coordinates_.replica != 0) return {};
    std::vector<float> mine(compute_->layout().size());
    compute_->read_state(StageState::kParameters, 0, mine);
    world_->send(mine.data(), mine.size() * sizeof(float), 0);
    return {};
  }
  std::vector<float> all(parameter_count(job_.shape));
  for (int stage = 0; stage < job_.parallel.pipeline(); ++stage) {
    const int owner = job_.parallel.rank_at(stage, 0);
    const planner::Stage& layers = job_.parallel.stages[static_cast<std::size_t>(stage)];
    const StageParameters layout(job_.shape, layers.first_layer, layers.layers);
    std::vector<float> arena(layout.size());
    if (owner == own)
      compute_->read_state(StageState::kParameters, 0, arena);
    else
      world_->receive(arena.data(), arena.size() * sizeof(float), owner);
    for (const Slice& slice : layout.slices())
      if (!layout.is_copy(slice))
        std::ranges::copy(std::span(arena).subspan(slice.offset, slice.elements),
                          all.begin() + static_cast<std::ptrdiff_t>(slice.position));
  }
  return all;
}

std::vector<collectives::LinkTraffic> PipelineTrainer::traffic() const {
  std::vector<collectives::LinkTraffic> total;
  for (const Communicator* communicator :
       {static_cast<const Communicator*>(world_), static_cast<const Communicator*>(pipeline_.get()),
        static_cast<const Communicator*>(data_.get()), static_cast<const Communicator*>(tied_.get())})
    add_traffic(total, communicator);
  return total;
}

}  // namespace tombolo::trainer
