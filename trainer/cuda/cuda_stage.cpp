#include "trainer/cuda/cuda_stage.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "trainer/cuda/block.h"
#include "trainer/cuda/head.h"
#include "trainer/cuda/memory_plan.h"
#include "trainer/cuda/pass_times.h"
#include "trainer/cuda/slots.h"
#include "trainer/cuda/token_runs.h"

namespace tombolo::trainer::cuda {
namespace {

template <typename Ring>
auto& of_micro_batch(Ring& ring, int micro_batch) {
  return ring[static_cast<std::size_t>(micro_batch) % ring.size()];
}

void check_stage(const StageOptions& options) {
  options.shape.check();
  if (options.rows < 1 || options.in_flight < 1 || options.layers < 1 || options.first_layer < 0 ||
      options.first_layer + options.layers > options.shape.layers)
    fail(Cause::kInvalidUsage, "stage: {} rows, {} in flight, layers {}+{} of {}", options.rows,
         options.in_flight, options.first_layer, options.layers, options.shape.layers);
}

/// Plans, allocates, and lays out.
template <typename Buffers, typename Allocate>
Buffers laid_out(MemoryPlan& plan, const StageSizes& sizes, std::size_t ranges, const Allocate& allocate) {
  MemoryPlan first;
  Buffers(PlanCarver(first, nullptr), sizes, ranges);
  return Buffers(PlanCarver(plan, allocate(first.bytes())), sizes, ranges);
}

class StageOnDevice final : public StageCompute {
 public:
  StageOnDevice(std::shared_ptr<Device> device, const StageOptions& options, const CudaStageOptions& cuda)
      : device_(std::move(device)),
        options_(options),
        graphs_(cuda.graphs),
        layout_(options.shape, options.first_layer, options.layers),
        sizes_(options, cuda, layout_, *device_),
        buffers_(laid_out<DeviceBuffers>(
            device_plan_, sizes_, layout_.slices().size(),
            [&](std::size_t bytes) { return device_->allocate(bytes, "a stage's memory"); })),
        host_(laid_out<HostBuffers>(
            host_plan_, sizes_, layout_.slices().size(),
            [&](std::size_t bytes) { return device_->allocate_host(bytes, "a stage's host memory"); })),
        runs_(options.shape.vocabulary),
        passes_(*device_, options.time_passes),
        embedded_(*device_),
        gradients_sent_(*device_),
        gradients_back_(*device_),
        settled_(*device_) {
    for (const SlotBuffers& slot : buffers_.slots) slots_.emplace_back(*device_, slot);
    for (const Values& values : buffers_.boundary_gradients) gradient_slots_.emplace_back(*device_, values);
    for (std::int32_t* tokens : host_.tokens) token_ring_.emplace_back(*device_, tokens);
    for (StepConstants* step : host_.steps) step_ring_.emplace_back(*device_, step);
    for (int layer = options.first_layer; layer < options.first_layer + options.layers; ++layer) {
      blocks_.emplace_back(buffers_.parameters(), layout_, layer);
      if (!options.training) continue;
      block_gradients_.emplace_back(buffers_.gradients, layout_, layer);
      layer_done_.emplace_back(*device_);
    }
    if (layout_.last())
      head_.emplace(buffers_.parameters(), options.training ? buffers_.gradients : nullptr, layout_);
    prepare_state();
  }

  ~StageOnDevice() override {
    // The device may still copy to and from what the caller will now free.
    try {
      settled_.record(Stream::kCompute);
      for (const Stream stream : {Stream::kToHost, Stream::kFromHost}) {
        settled_.order(stream);
        settled_.record(stream);
      }
      settled_.synchronize();
    } catch (const Error&) {
      // The device has failed, and whoever used the stage knows: nothing of it runs any more.
    }
  }

  const StageParameters& layout() const noexcept override { return layout_; }
  StageMemory memory() const noexcept override {
    return {device_plan_.bytes(MemoryUse::kParameters), device_plan_.bytes(MemoryUse::kGradients),
            device_plan_.bytes(MemoryUse::kOptimizer),
            device_plan_.bytes(MemoryUse::kActivations) + device_plan_.bytes(MemoryUse::kBuffers)};
  }
  std::string describe() const override {
    return device_->describe() + "\n" + device_plan_.table("memory of the device") +
           host_plan_.table("page-locked memory of the host");
  }

  void read_state(StageState state, std::size_t offset, std::span<float> to) const override;
  void write_state(StageState state, std::size_t offset, std::span<const float> from) override;
  std::span<float> gradients_to_host(const Bucket& bucket) override;
  void gradients_from_host(const Bucket& bucket) override;

  std::span<std::byte> input(int micro_batch) noexcept override {
    if (host_.inputs.empty()) return {};
    return {of_micro_batch(host_.inputs, micro_batch), sizes_.boundary_bytes()};
  }
  std::span<const std::byte> output(int micro_batch) const noexcept override {
    if (host_.outputs.empty()) return {};
    return {of_micro_batch(host_.outputs, micro_batch), sizes_.boundary_bytes()};
  }
  std::span<std::byte> boundary_gradient(int micro_batch) noexcept override {
    if (host_.boundary_gradients.empty()) return {};
    return {of_micro_batch(host_.boundary_gradients, micro_batch), sizes_.boundary_bytes()};
  }

  void forward(int micro_batch, std::span<const std::int32_t> tokens, std::span<const std::int32_t> targets,
               const Progress& progress) override;
  void backward(int micro_batch, std::span<const std::int32_t> tokens, const Progress& progress,
                const GradientsFinal& gradients_final) override;
  double take_loss_sum() override;
  std::span<const float> scores(int micro_batch, int row, int position) override;
  void clear_gradients() override;
  double gradient_square_sum() const override;
  void update(const AdamWStep& step) override;
  planner::PassClock pass_clock() const noexcept override { return planner::PassClock::kDevice; }
  std::vector<PassTime> take_pass_times(Gather gather) override;

 private:
  void prepare_state();
  void check_state(StageState state, std::size_t offset, std::size_t count) const;
  bool converts(StageState state) const noexcept {
    return state != StageState::kParameters && sizes_.moments == Element::kBfloat16;
  }
  Values state_values(StageState state) const noexcept;
  void refresh_copy(std::size_t begin, std::size_t count) const;
  /// Returns when all that is on the compute stream is done.
  void settle() const {
    settled_.record(Stream::kCompute);
    settled_.synchronize();
  }
  /// The same, and learns the times of the passes so far.
  void settle_passes() const {
    passes_.record_anchor();
    settle();
    passes_.anchor_reached(Clock::steady().now());
  }
  void settle_if_timed() const {
    if (options_.wait_per_layer) settle();
  }
  double read_scalar(const double* at) const;

  std::int32_t* stage_tokens(std::span<const std::int32_t> tokens, std::span<const std::int32_t> targets);
  void bring_input(Slot& slot, int micro_batch, std::span<const std::int32_t> tokens,
                   std::span<const std::int32_t> targets);
  void forward_layer(Slot& slot, std::size_t layer);
  void backward_layer(Slot& slot, const Values& gradient, std::size_t layer);
  void embed_backward(const Slot& slot, const Values& gradient);
  void after_layer(const Progress& progress) {
    settle_if_timed();
    if (progress) progress();
  }
  /// Waits while transfers go on.
  void wait_for(const Mark& mark, const Progress& progress) const;
  /// The event after which the gradients from this offset to the arena's end are final.
  const Mark& final_from(std::size_t offset) const;

  /// Does `body`'s work on the compute stream: the first time as it comes, so that the device prepares what
  /// it needs; then from a graph.
  template <typename Body>
  void run_part(Part& part, const Body& body) {
    if (!graphs_ || !std::exchange(part.ran, true)) return body();
    if (!part.graph) {
      device_->begin_graph(Stream::kCompute);
      body();
      part.graph = device_->end_graph(Stream::kCompute);
    }
    device_->launch(Stream::kCompute, *part.graph);
  }

  const std::shared_ptr<Device> device_;
  const StageOptions options_;
  const bool graphs_;
  const StageParameters layout_;
  const StageSizes sizes_;
  MemoryPlan device_plan_, host_plan_;
  const DeviceBuffers buffers_;
  const HostBuffers host_;
  TokenRuns runs_;
  mutable PassTimes passes_;
  std::vector<Slot> slots_;
  std::vector<GradientSlot> gradient_slots_;
  std::vector<Staged<std::int32_t>> token_ring_;
  std::vector<Staged<StepConstants>> step_ring_;
  std::size_t next_tokens_ = 0, next_step_ = 0;
  std::vector<BlockParameters> blocks_;
  std::vector<BlockGradients> block_gradients_;
  std::optional<HeadTensors> head_;
  std::vector<Mark> layer_done_;  ///< backward of each block, and so its gradients
  Mark embedded_;                 ///< backward of the embedding
  Mark gradients_sent_, gradients_back_;
  mutable Mark settled_;
  Part update_;
  std::size_t largest_range_ = 0;
  // Two threads copy: the one that computes, and the one that reduces gradients.
  std::mutex to_host_, from_host_;
};

void StageOnDevice::prepare_state() {
  device_->clear(Stream::kCompute, buffers_.master, sizes_.arena * sizeof(float));
  if (buffers_.copy.at != nullptr)
    device_->clear(Stream::kCompute, buffers_.copy.at, sizes_.arena * element_bytes(sizes_.element));
  if (sizes_.training) {
    for (const Values& moment : {buffers_.first_moment, buffers_.second_moment})
      device_->clear(Stream::kCompute, moment.at, sizes_.arena * element_bytes(sizes_.moments));
    clear_gradients();
    std::size_t index = 0;
    for (const Slice& slice : layout_.slices()) {
      host_.ranges[index++] = {slice.offset, slice.elements, tensor_info(slice.tensor).matrix ? 1.0F : 0.0F};
      largest_range_ = std::max(largest_range_, slice.elements);
    }
    device_->copy(Stream::kCompute, buffers_.ranges, host_.ranges, index * sizeof(Range));
  }
  device_->clear(Stream::kCompute, buffers_.loss, sizeof(double));
  settle_passes();
  static_cast<void>(passes_.take());  // preparing is no pass
}

void StageOnDevice::check_state(StageState state, std::size_t offset, std::size_t count) const {
  if (state != StageState::kParameters && !options_.training)
    fail(Cause::kInternal, "a stage that does not train has no moments");
  if (offset > sizes_.arena || count > sizes_.arena - offset)
    fail(Cause::kInternal, "stage state: {} floats from {} on, but the arena has {}", count, offset,
         sizes_.arena);
}

Values StageOnDevice::state_values(StageState state) const noexcept {
  if (state == StageState::kParameters) return fp32(buffers_.master);
  return state == StageState::kFirstMoment ? buffers_.first_moment : buffers_.second_moment;
}

namespace {

/// The piece of an arena that is read or written at once, and what it becomes when it must begin and end
/// where vectors of 16 do.
struct StatePiece {
  StatePiece(std::size_t offset, std::size_t left)
      : begin(offset),
        count(std::min(left, kStatePiece)),
        aligned_begin(begin / 16 * 16),
        aligned_count((begin + count + 15) / 16 * 16 - aligned_begin) {}
  std::size_t begin, count, aligned_begin, aligned_count;
};

}  // namespace

void StageOnDevice::read_state(StageState state, std::size_t offset, std::span<float> to) const {
  check_state(state, offset, to.size());
  for (std::size_t done = 0; done < to.size();) {
    const StatePiece piece(offset + done, to.size() - done);
    const float* from = nullptr;
    if (converts(state)) {
      device_->run(Stream::kCompute,
                   Convert{fp32(buffers_.state), from_element(state_values(state), piece.aligned_begin),
                           piece.aligned_count});
      from = buffers_.state + (piece.begin - piece.aligned_begin);
    } else {
      from = reinterpret_cast<const float*>(state_values(state).at) + piece.begin;
    }
    device_->copy(Stream::kCompute, host_.state, from, piece.count * sizeof(float));
    settle();
    std::copy_n(host_.state, piece.count, to.begin() + static_cast<std::ptrdiff_t>(done));
    done += piece.count;
  }
}

void StageOnDevice::write_state(StageState state, std::size_t offset, std::span<const float> from) {
  check_state(state, offset, from.size());
  for (std::size_t done = 0; done < from.size();) {
    const StatePiece piece(offset + done, from.size() - done);
    std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(done), piece.count, host_.state);
    const Values to = from_element(state_values(state), piece.aligned_begin);
    if (converts(state)) {
      // What lies around the piece is read before it is written again: it comes back as it was.
      const Values wide = fp32(buffers_.state);
      device_->run(Stream::kCompute, Convert{wide, to, piece.aligned_count});
      device_->copy(Stream::kCompute, buffers_.state + (piece.begin - piece.aligned_begin), host_.state,
                    piece.count * sizeof(float));
      device_->run(Stream::kCompute, Convert{to, wide, piece.aligned_count});
    } else {
      device_->copy(Stream::kCompute, from_element(state_values(state), piece.begin).at, host_.state,
                    piece.count * sizeof(float));
    }
    if (state == StageState::kParameters) refresh_copy(piece.aligned_begin, piece.aligned_count);
    settle();
    done += piece.count;
  }
}

void StageOnDevice::refresh_copy(std::size_t begin, std::size_t count) const {
  if (buffers_.copy.at == nullptr) return;
  device_->run(Stream::kCompute,
               Convert{from_element(buffers_.copy, begin), fp32(buffers_.master + begin), count});
}

const Mark& StageOnDevice::final_from(std::size_t offset) const {
  // Backward goes from the arena's end to its beginning: what begins at or before the offset is done last.
  for (std::size_t layer = layer_done_.size(); layer-- > 0;)
    if (layout_.layer_begin(options_.first_layer + static_cast<int>(layer)) <= offset)
      return layer_done_[layer];
  return embedded_;
}

std::span<float> StageOnDevice::gradients_to_host(const Bucket& bucket) {
  if (host_.gradients == nullptr)
    fail(Cause::kInternal, "gradients {} to {}: this stage was made to exchange none", bucket.begin,
         bucket.end);
  const std::size_t count = bucket.end - bucket.begin;
  {
    const std::scoped_lock lock(to_host_);
    final_from(bucket.begin).order(Stream::kToHost);
    device_->copy(Stream::kToHost, host_.gradients + bucket.begin, buffers_.gradients + bucket.begin,
                  count * sizeof(float));
    gradients_sent_.record(Stream::kToHost);
  }
  gradients_sent_.synchronize();
  return {host_.gradients + bucket.begin, count};
}

void StageOnDevice::gradients_from_host(const Bucket& bucket) {
  const std::scoped_lock lock(from_host_);
  device_->copy(Stream::kFromHost, buffers_.gradients + bucket.begin, host_.gradients + bucket.begin,
                (bucket.end - bucket.begin) * sizeof(float));
  gradients_back_.record(Stream::kFromHost);
}

void StageOnDevice::wait_for(const Mark& mark, const Progress& progress) const {
  if (progress && !options_.wait_per_layer) {
    const Deadline deadline = Deadline::after(kDeviceDeadline);
    while (!mark.done() && !deadline.passed()) {
      progress();
      std::this_thread::yield();
    }
  }
  mark.synchronize();
}

/// Puts a micro-batch's tokens into a block of host memory from which no copy is under way.
std::int32_t* StageOnDevice::stage_tokens(std::span<const std::int32_t> tokens,
                                          std::span<const std::int32_t> targets) {
  const auto check_count = [&](std::span<const std::int32_t> given, const char* what) {
    if (given.size() != sizes_.tokens)
      fail(Cause::kInternal, "{} {} given, but a micro-batch has {}", given.size(), what, sizes_.tokens);
    runs_.check(given, what);
  };
  if (layout_.first()) check_count(tokens, "token");
  if (layout_.last() && !targets.empty()) check_count(targets, "target");
  Staged<std::int32_t>& staged = token_ring_[next_tokens_ % token_ring_.size()];
  staged.copied.synchronize();
  const std::span<std::int32_t> block(staged.at, sizes_.token_block());
  std::ranges::fill(block, 0);
  if (layout_.first()) {
    std::ranges::copy(tokens, block.begin());
    runs_.sort(tokens, block.subspan(sizes_.order_begin(), sizes_.tokens),
               block.subspan(sizes_.runs_begin(), sizes_.tokens + 1));
  }
  if (layout_.last())
    std::ranges::copy(targets, block.begin() + static_cast<std::ptrdiff_t>(sizes_.targets_begin()));
  return staged.at;
}

void StageOnDevice::bring_input(Slot& slot, int micro_batch, std::span<const std::int32_t> tokens,
                                std::span<const std::int32_t> targets) {
  const std::int32_t* block = layout_.first() || layout_.last() ? stage_tokens(tokens, targets) : nullptr;
  {
    const std::scoped_lock lock(from_host_);
    slot.done.order(Stream::kFromHost);
    if (block != nullptr) {
      device_->copy(Stream::kFromHost, slot.buffers.tokens, block,
                    sizes_.token_block() * sizeof(std::int32_t));
      token_ring_[next_tokens_++ % token_ring_.size()].copied.record(Stream::kFromHost);
    }
    if (!layout_.first())
      device_->copy(Stream::kFromHost, slot.buffers.in.at, of_micro_batch(host_.inputs, micro_batch),
                    sizes_.boundary_bytes());
    slot.arrived.record(Stream::kFromHost);
  }
  slot.arrived.order(Stream::kCompute);
}

void StageOnDevice::forward_layer(Slot& slot, std::size_t layer) {
  const SlotBuffers& buffers = slot.buffers;
  BlockInput input{buffers.in, {}, {}};
  if (layer == 0 && layout_.first()) {
    Embed embed{};
    embed.out = buffers.in;
    embed.token_embedding = from_element(buffers_.parameters(), layout_.find(Tensor::kTokenEmbedding).offset);
    embed.position_embedding =
        from_element(buffers_.parameters(), layout_.find(Tensor::kPositionEmbedding).offset);
    embed.tokens = buffers.tokens;
    embed.count = sizes_.tokens;
    embed.context = sizes_.context;
    embed.width = sizes_.width;
    embed.vocabulary = sizes_.padded_vocabulary;
    device_->run(Stream::kCompute, embed);
  } else if (layer > 0) {
    const LayerBuffers& before = buffers.layers[layer - 1];
    input = {before.out, buffers_.scratch.projected, before.middle};
  }
  const bool sends = layer + 1 == sizes_.layers && !layout_.last();
  block_forward(*device_, sizes_, input, buffers.layers[layer], blocks_[layer], buffers_.scratch,
                sends ? BlockEnd::kBlock : BlockEnd::kNextNorm);
}

void StageOnDevice::forward(int micro_batch, std::span<const std::int32_t> tokens,
                            std::span<const std::int32_t> targets, const Progress& progress) {
  Slot& slot = of_micro_batch(slots_, micro_batch);
  bring_input(slot, micro_batch, tokens, targets);
  passes_.begin(Pass::kForward, micro_batch);
  for (std::size_t layer = 0; layer < sizes_.layers; ++layer) {
    run_part(slot.forward[layer], [&] { forward_layer(slot, layer); });
    after_layer(progress);
  }
  if (layout_.last()) {
    run_part(slot.head_norm, [&] { head_norm(*device_, sizes_, slot.buffers, *head_, buffers_.scratch); });
    if (!targets.empty())
      run_part(slot.head_loss, [&] {
        head_loss(*device_, sizes_, slot.buffers, *head_, buffers_.scratch, buffers_.loss,
                  static_cast<float>(options_.loss_scale));
      });
    passes_.end();
    slot.done.record(Stream::kCompute);
    settle_if_timed();
    return;
  }
  passes_.end();
  slot.done.record(Stream::kCompute);
  {
    const std::scoped_lock lock(to_host_);
    slot.done.order(Stream::kToHost);
    device_->copy(Stream::kToHost, of_micro_batch(host_.outputs, micro_batch),
                  slot.buffers.layers.back().out.at, sizes_.boundary_bytes());
    slot.sent.record(Stream::kToHost);
  }
  wait_for(slot.sent, progress);
}

void StageOnDevice::backward_layer(Slot& slot, const Values& gradient, std::size_t layer) {
  const SlotBuffers& buffers = slot.buffers;
  const Values& in = layer > 0 ? buffers.layers[layer - 1].out : buffers.in;
  if (sizes_.recompute == planner::Recompute::kFull)
    block_recompute(*device_, sizes_, in, buffers.layers[layer], blocks_[layer], buffers_.scratch);
  block_backward(*device_, sizes_, gradient, in, buffers.layers[layer], blocks_[layer],
                 block_gradients_[layer], buffers_.scratch);
}

void StageOnDevice::embed_backward(const Slot& slot, const Values& gradient) {
  EmbedBackward embed{};
  embed.token_gradient = buffers_.gradients + layout_.find(Tensor::kTokenEmbedding).offset;
  embed.position_gradient = buffers_.gradients + layout_.find(Tensor::kPositionEmbedding).offset;
  embed.gradient = gradient;
  embed.tokens = slot.buffers.tokens;
  embed.order = slot.buffers.tokens + sizes_.order_begin();
  embed.runs = slot.buffers.tokens + sizes_.runs_begin();
  embed.count = sizes_.tokens;
  embed.context = sizes_.context;
  embed.width = sizes_.width;
  embed.vocabulary = sizes_.padded_vocabulary;
  device_->run(Stream::kCompute, embed);
}

void StageOnDevice::backward(int micro_batch, std::span<const std::int32_t> /*tokens*/,
                             const Progress& progress, const GradientsFinal& gradients_final) {
  Slot& slot = of_micro_batch(slots_, micro_batch);
  // By slot, not by micro-batch: a slot's graphs know one buffer.
  GradientSlot& gradient =
      gradient_slots_[static_cast<std::size_t>(micro_batch) % slots_.size() % gradient_slots_.size()];
  const auto announce = [&](Mark& mark, std::size_t from) {
    mark.record(Stream::kCompute);
    if (gradients_final) gradients_final(from);
  };
  if (!layout_.last()) {
    const std::scoped_lock lock(from_host_);
    gradient.ready.order(Stream::kFromHost);
    gradient.sent.order(Stream::kFromHost);
    device_->copy(Stream::kFromHost, gradient.values.at,
                  of_micro_batch(host_.boundary_gradients, micro_batch), sizes_.boundary_bytes());
    gradient.arrived.record(Stream::kFromHost);
  }
  (layout_.last() ? gradient.sent : gradient.arrived).order(Stream::kCompute);
  passes_.begin(Pass::kBackward, micro_batch);
  if (layout_.last())
    run_part(slot.head_backward, [&] {
      head_backward(*device_, sizes_, slot.buffers, gradient.values, *head_, buffers_.scratch);
    });
  for (std::size_t layer = sizes_.layers; layer-- > 0;) {
    run_part(slot.backward[layer], [&] { backward_layer(slot, gradient.values, layer); });
    announce(layer_done_[layer], layout_.layer_begin(options_.first_layer + static_cast<int>(layer)));
    after_layer(progress);
  }
  if (layout_.first()) {
    run_part(slot.embed_backward, [&] { embed_backward(slot, gradient.values); });
    announce(embedded_, 0);
  }
  passes_.end();
  gradient.ready.record(Stream::kCompute);
  slot.done.record(Stream::kCompute);
  settle_if_timed();
  if (layout_.first()) {
    // The caller may now put the next gradient where this one came from.
    if (!layout_.last()) wait_for(gradient.arrived, progress);
    return;
  }
  {
    const std::scoped_lock lock(to_host_);
    gradient.ready.order(Stream::kToHost);
    device_->copy(Stream::kToHost, of_micro_batch(host_.boundary_gradients, micro_batch), gradient.values.at,
                  sizes_.boundary_bytes());
    gradient.sent.record(Stream::kToHost);
  }
  wait_for(gradient.sent, progress);
}

double StageOnDevice::read_scalar(const double* at) const {
  device_->copy(Stream::kCompute, host_.scalar, at, sizeof(double));
  settle_passes();
  return *host_.scalar;
}

double StageOnDevice::take_loss_sum() {
  if (!layout_.last()) return 0;
  const double sum = read_scalar(buffers_.loss);
  device_->clear(Stream::kCompute, buffers_.loss, sizeof(double));
  return sum;
}

std::span<const float> StageOnDevice::scores(int micro_batch, int row, int position) {
  if (!layout_.last()) fail(Cause::kInternal, "scores of a stage that is not the last");
  const Slot& slot = of_micro_batch(slots_, micro_batch);
  const std::size_t token =
      static_cast<std::size_t>(row) * sizes_.context + static_cast<std::size_t>(position);
  const float* from = head_scores(*device_, sizes_, slot.buffers, token, *head_, buffers_.scratch);
  device_->copy(Stream::kCompute, host_.scores, from, sizes_.vocabulary * sizeof(float));
  settle();
  return {host_.scores, sizes_.vocabulary};
}

void StageOnDevice::clear_gradients() {
  if (!options_.training) return;
  gradients_back_.order(Stream::kCompute);
  passes_.begin(Pass::kClearGradients);
  device_->clear(Stream::kCompute, buffers_.gradients, sizes_.arena * sizeof(float));
  passes_.end();
  settle_if_timed();
}

double StageOnDevice::gradient_square_sum() const {
  if (!options_.training) return 0;
  gradients_back_.order(Stream::kCompute);
  // A copy of the embedding is the last tensor; padding between tensors is 0.
  const Slice& last = layout_.slices().back();
  const std::size_t count = layout_.is_copy(last) ? last.offset : sizes_.arena;
  passes_.begin(Pass::kGradientNorm);
  device_->clear(Stream::kCompute, buffers_.squares, sizeof(double));
  device_->run(Stream::kCompute,
               Sum{buffers_.squares, buffers_.gradients, buffers_.scratch.sum, count, true});
  passes_.end();
  return read_scalar(buffers_.squares);
}

void StageOnDevice::update(const AdamWStep& step) {
  if (!options_.training) fail(Cause::kInternal, "a stage that does not train has no optimizer");
  gradients_back_.order(Stream::kCompute);
  Staged<StepConstants>& staged = step_ring_[next_step_++ % step_ring_.size()];
  staged.copied.synchronize();
  *staged.at = {step, step.number};
  passes_.begin(Pass::kUpdate);
  device_->copy(Stream::kCompute, buffers_.step, staged.at, sizeof(StepConstants));
  staged.copied.record(Stream::kCompute);
  run_part(update_, [&] {
    AdamWUpdate operation{};
    operation.parameters = buffers_.master;
    operation.copy = buffers_.copy;
    operation.first_moment = buffers_.first_moment;
    operation.second_moment = buffers_.second_moment;
    operation.gradients = buffers_.gradients;
    operation.ranges = buffers_.ranges;
    operation.range_count = layout_.slices().size();
    operation.largest = largest_range_;
    operation.size = sizes_.arena;
    operation.step = &buffers_.step->step;
    operation.step_number = &buffers_.step->number;
    device_->run(Stream::kCompute, operation);
  });
  passes_.end();
  settle_if_timed();
}

std::vector<PassTime> StageOnDevice::take_pass_times(Gather gather) {
  if (gather == Gather::kAll && passes_.pending()) settle_passes();
  return passes_.take();
}

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
