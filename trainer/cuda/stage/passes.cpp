#include "trainer/cuda/stage/passes.h"

#include <thread>

#include "base/error.h"

namespace tombolo::trainer::cuda {

Passes::Passes(StageContext& stage) : stage_(stage), tokens_(stage), embedded_(*stage.device) {
  Device& device = *stage.device;
  for (const SlotBuffers& slot : stage.buffers.slots) slots_.emplace_back(device, slot);
  for (const Values& values : stage.buffers.boundary_gradients) gradient_slots_.emplace_back(device, values);
  const bool training = stage.options.training;
  const int first = stage.options.first_layer;
  for (int layer = first; layer < first + stage.options.layers; ++layer) {
    blocks_.emplace_back(stage.buffers.parameters(), stage.layout, layer);
    if (!training) continue;
    block_gradients_.emplace_back(stage.buffers.gradients, stage.layout, layer);
    layer_done_.emplace_back(device);
  }
  if (stage.layout.last())
    head_.emplace(stage.buffers.parameters(), training ? stage.buffers.gradients : nullptr, stage.layout);
  device.clear(Stream::kCompute, stage.buffers.loss, sizeof(double));
}

void Passes::wait_for(const Mark& mark, const Progress& progress) const {
  if (progress && !stage_.options.wait_per_layer) {
    const Deadline deadline = Deadline::after(kDeviceDeadline);
    while (!mark.done() && !deadline.passed()) {
      progress();
      std::this_thread::yield();
    }
  }
  mark.synchronize();
}

const Mark& Passes::final_from(std::size_t offset) const {
  // Backward goes from the arena's end to its beginning: what begins at or before the offset is done last.
  for (std::size_t layer = layer_done_.size(); layer-- > 0;)
    if (stage_.layout.layer_begin(stage_.options.first_layer + static_cast<int>(layer)) <= offset)
      return layer_done_[layer];
  return embedded_;
}

void Passes::bring_input(Slot& slot, int micro_batch, std::span<const std::int32_t> tokens,
                         std::span<const std::int32_t> targets) {
  tokens_.stage(tokens, targets);
  {
    const std::scoped_lock lock(stage_.from_host);
    slot.done.order(Stream::kFromHost);
    tokens_.copy_to(slot.buffers.tokens);
    if (!stage_.layout.first())
      stage_.device->copy(Stream::kFromHost, slot.buffers.in.at,
                          of_micro_batch(stage_.host.inputs, micro_batch), stage_.sizes.boundary_bytes());
    slot.arrived.record(Stream::kFromHost);
  }
  slot.arrived.order(Stream::kCompute);
}

void Passes::forward_layer(Slot& slot, std::size_t layer) {
  const SlotBuffers& buffers = slot.buffers;
  BlockInput input{buffers.in, {}, {}};
  if (layer == 0 && stage_.layout.first()) {
    Embed embed{};
    embed.out = buffers.in;
    embed.token_embedding =
        from_element(stage_.buffers.parameters(), stage_.layout.find(Tensor::kTokenEmbedding).offset);
    embed.position_embedding =
        from_element(stage_.buffers.parameters(), stage_.layout.find(Tensor::kPositionEmbedding).offset);
    embed.tokens = buffers.tokens;
    embed.count = stage_.sizes.tokens;
    embed.context = stage_.sizes.context;
    embed.width = stage_.sizes.width;
    embed.vocabulary = stage_.sizes.padded_vocabulary;
    stage_.device->run(Stream::kCompute, embed);
  } else if (layer > 0) {
    const LayerBuffers& before = buffers.layers[layer - 1];
    input = {before.out, stage_.buffers.scratch.projected, before.middle};
  }
  const bool sends = layer + 1 == stage_.sizes.layers && !stage_.layout.last();
  block_forward(*stage_.device, stage_.sizes, input, buffers.layers[layer], blocks_[layer],
                stage_.buffers.scratch, sends ? BlockEnd::kBlock : BlockEnd::kNextNorm);
}

void Passes::forward(int micro_batch, std::span<const std::int32_t> tokens,
                     std::span<const std::int32_t> targets, const Progress& progress) {
  Slot& slot = of_micro_batch(slots_, micro_batch);
  bring_input(slot, micro_batch, tokens, targets);
  stage_.pass_times.begin(Pass::kForward, micro_batch);
  for (std::size_t layer = 0; layer < stage_.sizes.layers; ++layer) {
    stage_.run_part(slot.forward[layer], [&] { forward_layer(slot, layer); });
    after_layer(progress);
  }
  if (stage_.layout.last()) {
    stage_.run_part(slot.head_norm, [&] {
      head_norm(*stage_.device, stage_.sizes, slot.buffers, *head_, stage_.buffers.scratch);
    });
    if (!targets.empty())
      stage_.run_part(slot.head_loss, [&] {
        head_loss(*stage_.device, stage_.sizes, slot.buffers, *head_, stage_.buffers.scratch,
                  stage_.buffers.loss, static_cast<float>(stage_.options.loss_scale));
      });
    stage_.pass_times.end();
    slot.done.record(Stream::kCompute);
    stage_.settle_if_timed();
    return;
  }
  stage_.pass_times.end();
  slot.done.record(Stream::kCompute);
  {
    const std::scoped_lock lock(stage_.to_host);
    slot.done.order(Stream::kToHost);
    stage_.device->copy(Stream::kToHost, of_micro_batch(stage_.host.outputs, micro_batch),
                        slot.buffers.layers.back().out.at, stage_.sizes.boundary_bytes());
    slot.sent.record(Stream::kToHost);
  }
  wait_for(slot.sent, progress);
}

void Passes::backward_layer(Slot& slot, const Values& gradient, std::size_t layer) {
  const SlotBuffers& buffers = slot.buffers;
  const Values& in = layer > 0 ? buffers.layers[layer - 1].out : buffers.in;
  if (stage_.sizes.recompute == planner::Recompute::kFull)
    block_recompute(*stage_.device, stage_.sizes, in, buffers.layers[layer], blocks_[layer],
                    stage_.buffers.scratch);
  block_backward(*stage_.device, stage_.sizes, gradient, in, buffers.layers[layer], blocks_[layer],
                 block_gradients_[layer], stage_.buffers.scratch);
}

void Passes::embed_backward(const Slot& slot, const Values& gradient) {
  EmbedBackward embed{};
  embed.token_gradient = stage_.buffers.gradients + stage_.layout.find(Tensor::kTokenEmbedding).offset;
  embed.position_gradient = stage_.buffers.gradients + stage_.layout.find(Tensor::kPositionEmbedding).offset;
  embed.gradient = gradient;
  embed.tokens = slot.buffers.tokens;
  embed.order = slot.buffers.tokens + stage_.sizes.order_begin();
  embed.runs = slot.buffers.tokens + stage_.sizes.runs_begin();
  embed.count = stage_.sizes.tokens;
  embed.context = stage_.sizes.context;
  embed.width = stage_.sizes.width;
  embed.vocabulary = stage_.sizes.padded_vocabulary;
  stage_.device->run(Stream::kCompute, embed);
}

/// Brings the loss's gradient by this stage's output.
void Passes::bring_gradient(GradientSlot& gradient, int micro_batch) {
  {
    const std::scoped_lock lock(stage_.from_host);
    gradient.ready.order(Stream::kFromHost);
    gradient.sent.order(Stream::kFromHost);
    stage_.device->copy(Stream::kFromHost, gradient.values.at,
                        of_micro_batch(stage_.host.boundary_gradients, micro_batch),
                        stage_.sizes.boundary_bytes());
    gradient.arrived.record(Stream::kFromHost);
  }
  gradient.arrived.order(Stream::kCompute);
}

void Passes::backward(int micro_batch, const Progress& progress, const GradientsFinal& gradients_final) {
  Slot& slot = of_micro_batch(slots_, micro_batch);
  // By slot, not by micro-batch: a slot's graphs know one buffer.
  GradientSlot& gradient =
      gradient_slots_[static_cast<std::size_t>(micro_batch) % slots_.size() % gradient_slots_.size()];
  const auto announce = [&](Mark& mark, std::size_t from) {
    mark.record(Stream::kCompute);
    if (gradients_final) gradients_final(from);
  };
  if (stage_.layout.last())
    gradient.sent.order(Stream::kCompute);
  else
    bring_gradient(gradient, micro_batch);
  stage_.pass_times.begin(Pass::kBackward, micro_batch);
  if (stage_.layout.last())
    stage_.run_part(slot.head_backward, [&] {
      head_backward(*stage_.device, stage_.sizes, slot.buffers, gradient.values, *head_,
                    stage_.buffers.scratch);
    });
  for (std::size_t layer = stage_.sizes.layers; layer-- > 0;) {
    stage_.run_part(slot.backward[layer], [&] { backward_layer(slot, gradient.values, layer); });
    announce(layer_done_[layer],
             stage_.layout.layer_begin(stage_.options.first_layer + static_cast<int>(layer)));
    after_layer(progress);
  }
  if (stage_.layout.first()) {
    stage_.run_part(slot.embed_backward, [&] { embed_backward(slot, gradient.values); });
    announce(embedded_, 0);
  }
  stage_.pass_times.end();
  gradient.ready.record(Stream::kCompute);
  slot.done.record(Stream::kCompute);
  stage_.settle_if_timed();
  if (stage_.layout.first()) {
    // The caller may now put the next gradient where this one came from.
    if (!stage_.layout.last()) wait_for(gradient.arrived, progress);
    return;
  }
  {
    const std::scoped_lock lock(stage_.to_host);
    gradient.ready.order(Stream::kToHost);
    stage_.device->copy(Stream::kToHost, of_micro_batch(stage_.host.boundary_gradients, micro_batch),
                        gradient.values.at, stage_.sizes.boundary_bytes());
    gradient.sent.record(Stream::kToHost);
  }
  wait_for(gradient.sent, progress);
}

double Passes::take_loss_sum() {
  if (!stage_.layout.last()) return 0;
  const double sum = stage_.read_scalar(stage_.buffers.loss);
  stage_.device->clear(Stream::kCompute, stage_.buffers.loss, sizeof(double));
  return sum;
}

std::span<const float> Passes::scores(int micro_batch, int row, int position) {
  if (!stage_.layout.last()) fail(Cause::kInternal, "scores of a stage that is not the last");
  const Slot& slot = of_micro_batch(slots_, micro_batch);
  const std::size_t token =
      static_cast<std::size_t>(row) * stage_.sizes.context + static_cast<std::size_t>(position);
  const float* from =
      head_scores(*stage_.device, stage_.sizes, slot.buffers, token, *head_, stage_.buffers.scratch);
  stage_.device->copy(Stream::kCompute, stage_.host.scores, from, stage_.sizes.vocabulary * sizeof(float));
  stage_.settle();
  return {stage_.host.scores, stage_.sizes.vocabulary};
}

}  // namespace tombolo::trainer::cuda
