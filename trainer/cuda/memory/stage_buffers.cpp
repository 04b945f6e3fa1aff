#include "trainer/cuda/memory/stage_buffers.h"

#include <algorithm>

#include "trainer/cuda/device.h"

namespace tombolo::trainer::cuda {
namespace {

constexpr std::size_t kStepRing = 2;

std::size_t chunk_of(const StageSizes& sizes, std::size_t wanted) {
  if (wanted > 0) return std::min(wanted, sizes.tokens);
  const std::size_t fitting = kScoreBytes / (sizes.padded_vocabulary * element_bytes(sizes.element));
  // Products of a multiple of 128 rows fill their tiles.
  const std::size_t whole = fitting >= 128 ? fitting / 128 * 128 : std::max<std::size_t>(fitting, 1);
  return std::min(whole, sizes.tokens);
}

/// Numbers of the stage's element.
class ValueCarver {
 public:
  ValueCarver(PlanCarver& carver, Element element) : carver_(carver), element_(element) {}
  Values operator()(MemoryUse use, std::string_view name, std::size_t count) const {
    return {carver_.take<std::byte>(use, name, count * element_bytes(element_)), element_};
  }

 private:
  PlanCarver& carver_;
  Element element_;
};

LayerBuffers layer_buffers(PlanCarver& carver, const StageSizes& sizes, MemoryUse use) {
  const ValueCarver values(carver, sizes.element);
  const std::size_t narrow = sizes.boundary();
  const std::string_view statistics = "norms' and softmaxes' statistics";
  LayerBuffers layer{};
  layer.normal1 = values(use, "norms' outputs", narrow);
  layer.qkv = values(use, "queries, keys, values", 3 * narrow);
  layer.attended = values(use, "attention's outputs", narrow);
  layer.middle = values(use, "residual stream", narrow);
  layer.normal2 = values(use, "norms' outputs", narrow);
  layer.mlp = values(use, "MLP before GELU", 4 * narrow);
  layer.activated = values(use, "MLP after GELU", 4 * narrow);
  for (float** one : {&layer.mean1, &layer.inverse1, &layer.mean2, &layer.inverse2})
    *one = carver.take<float>(use, statistics, sizes.tokens);
  layer.log_sum = carver.take<float>(use, statistics, sizes.tokens * sizes.heads);
  return layer;
}

SlotBuffers slot_buffers(PlanCarver& carver, const StageSizes& sizes, const LayerBuffers& shared) {
  const ValueCarver values(carver, sizes.element);
  constexpr auto kUse = MemoryUse::kActivations;
  SlotBuffers slot{};
  if (sizes.first || sizes.last) slot.tokens = carver.take<std::int32_t>(kUse, "tokens", sizes.token_block());
  slot.in = values(kUse, "residual stream", sizes.boundary());
  for (std::size_t layer = 0; layer < sizes.layers; ++layer) {
    slot.layers.push_back(sizes.recompute == planner::Recompute::kFull ? shared
                                                                       : layer_buffers(carver, sizes, kUse));
    slot.layers.back().out = values(kUse, "residual stream", sizes.boundary());
  }
  if (!sizes.last) return slot;
  slot.mean = carver.take<float>(kUse, "norms' and softmaxes' statistics", sizes.tokens);
  slot.inverse = carver.take<float>(kUse, "norms' and softmaxes' statistics", sizes.tokens);
  slot.losses = carver.take<float>(kUse, "losses", sizes.tokens);
  if (sizes.training) slot.normal_gradient = values(kUse, "final norm's gradient", sizes.boundary());
  return slot;
}

ScratchBuffers scratch_buffers(PlanCarver& carver, const StageSizes& sizes) {
  const ValueCarver values(carver, sizes.element);
  constexpr auto kUse = MemoryUse::kBuffers;
  ScratchBuffers scratch{};
  scratch.wide = values(kUse, "scratch of a block", 4 * sizes.boundary());
  scratch.narrow = values(kUse, "scratch of a block", sizes.boundary());
  scratch.projected = values(kUse, "scratch of a block", sizes.boundary());
  scratch.sum = carver.take<double>(kUse, "scratch of sums", kSumScratch);
  scratch.workspace = carver.take<std::byte>(kUse, "workspace of libraries", sizes.workspace);
  if (sizes.last) {
    scratch.scores = values(kUse, "scores of a chunk of tokens", sizes.chunk * sizes.padded_vocabulary);
    scratch.score_row = carver.take<float>(kUse, "scores of one token", sizes.padded_vocabulary);
    scratch.statistics = carver.take<float>(kUse, "scores of one token", 2);
  }
  if (!sizes.training) return scratch;
  scratch.bias = carver.take<float>(kUse, "scratch of sums", 4 * sizes.width);
  scratch.norm = carver.take<float>(kUse, "scratch of sums", norm_backward_scratch(sizes.width));
  scratch.attention = carver.take<std::byte>(kUse, "scratch of attention", sizes.attention_scratch);
  return scratch;
}

}  // namespace

StageSizes::StageSizes(const StageOptions& options, const CudaStageOptions& cuda,
                       const StageParameters& layout, const Device& device)
    : rows(static_cast<std::size_t>(options.rows)),
      context(static_cast<std::size_t>(options.shape.context)),
      heads(static_cast<std::size_t>(options.shape.heads)),
      head_size(static_cast<std::size_t>(options.shape.head_size())),
      width(static_cast<std::size_t>(options.shape.width)),
      vocabulary(static_cast<std::size_t>(options.shape.vocabulary)),
      padded_vocabulary(static_cast<std::size_t>(options.shape.padded_vocabulary)),
      tokens(rows * context),
      layers(static_cast<std::size_t>(options.layers)),
      in_flight(static_cast<std::size_t>(options.in_flight)),
      arena(layout.size()),
      element(options.precision == compute::Precision::kBfloat16 ? Element::kBfloat16 : Element::kFloat32),
      moments(options.moments == compute::Precision::kBfloat16 ? Element::kBfloat16 : Element::kFloat32),
      recompute(options.recompute),
      first(layout.first()),
      last(layout.last()),
      training(options.training),
      exchanges(options.exchanges_gradients && options.training) {
  chunk = chunk_of(*this, cuda.chunk_tokens);
  // With one stage nothing comes in or goes out.
  gradient_buffers = first && last ? 1 : std::min<std::size_t>(in_flight, StageCompute::kGradientBuffers);
  Attention attention{};
  attention.rows = rows;
  attention.context = context;
  attention.heads = heads;
  attention.head_size = head_size;
  attention.out.element = attention.qkv.element = element;
  attention_scratch = training ? device.attention_scratch(attention) : 0;
  workspace = device.workspace(attention);
}

DeviceBuffers::DeviceBuffers(PlanCarver carver, const StageSizes& sizes, std::size_t range_count) {
  constexpr auto kBuffer = MemoryUse::kBuffers;
  master = carver.take<float>(MemoryUse::kParameters, "parameters (fp32)", sizes.arena);
  if (sizes.element == Element::kBfloat16)
    copy = {carver.take<std::byte>(MemoryUse::kParameters, "parameters (bf16)", sizes.arena * 2),
            Element::kBfloat16};
  if (sizes.training) {
    gradients = carver.take<float>(MemoryUse::kGradients, "gradients (fp32)", sizes.arena);
    const bool small = sizes.moments == Element::kBfloat16;
    for (Values* moment : {&first_moment, &second_moment})
      *moment = {carver.take<std::byte>(MemoryUse::kOptimizer, small ? "moments (bf16)" : "moments (fp32)",
                                        sizes.arena * element_bytes(sizes.moments)),
                 sizes.moments};
    ranges = carver.take<Range>(MemoryUse::kOptimizer, "constants", range_count);
    step = carver.take<StepConstants>(MemoryUse::kOptimizer, "constants", 1);
    if (small)
      state = carver.take<float>(kBuffer, "moments on their way", std::min(sizes.arena, kStatePiece) + 16);
  }
  loss = carver.take<double>(kBuffer, "scratch of sums", 1);
  squares = carver.take<double>(kBuffer, "scratch of sums", 1);
  LayerBuffers shared{};
  if (sizes.recompute == planner::Recompute::kFull)
    shared = layer_buffers(carver, sizes, MemoryUse::kBuffers);
  for (std::size_t slot = 0; slot < sizes.in_flight; ++slot)
    slots.push_back(slot_buffers(carver, sizes, shared));
  for (std::size_t index = 0; sizes.training && index < sizes.gradient_buffers; ++index)
    boundary_gradients.push_back(
        ValueCarver(carver, sizes.element)(kBuffer, "boundary gradients", sizes.boundary()));
  scratch = scratch_buffers(carver, sizes);
}

HostBuffers::HostBuffers(PlanCarver carver, const StageSizes& sizes, std::size_t range_count) {
  constexpr auto kUse = MemoryUse::kBuffers;
  const auto boundary = [&] {
    return carver.take<std::byte>(kUse, "boundaries between stages", sizes.boundary_bytes());
  };
  for (std::size_t index = 0; !sizes.first && index <= sizes.in_flight; ++index) inputs.push_back(boundary());
  for (std::size_t index = 0; !sizes.last && index < sizes.in_flight; ++index) outputs.push_back(boundary());
  const bool alone = sizes.first && sizes.last;
  for (int index = 0; sizes.training && !alone && index < StageCompute::kGradientBuffers; ++index)
    boundary_gradients.push_back(boundary());
  for (std::size_t index = 0; (sizes.first || sizes.last) && index < sizes.in_flight + 2; ++index)
    tokens.push_back(carver.take<std::int32_t>(kUse, "tokens", sizes.token_block()));
  gradients = sizes.exchanges ? carver.take<float>(kUse, "gradients on their way", sizes.arena) : nullptr;
  state = carver.take<float>(kUse, "state on its way", std::min(sizes.arena, kStatePiece) + 16);
  scores = sizes.last ? carver.take<float>(kUse, "scores of one token", sizes.vocabulary) : nullptr;
  ranges = carver.take<Range>(kUse, "optimizer's constants", range_count);
  for (std::size_t index = 0; index < kStepRing; ++index)
    steps.push_back(carver.take<StepConstants>(kUse, "optimizer's constants", 1));
  scalar = carver.take<double>(kUse, "sums", 1);
}

}  // namespace tombolo::trainer::cuda
