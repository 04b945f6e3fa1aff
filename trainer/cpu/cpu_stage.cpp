#include "trainer/cpu/cpu_stage.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/error.h"
#include "compute/gemm.h"
#include "compute/instruction_set.h"
#include "trainer/cpu/arena.h"
#include "trainer/cpu/kernels.h"
#include "trainer/cpu/layer.h"

namespace tombolo::trainer {
namespace {

using cpu::Arena;
using cpu::Carver;

cpu::AttentionShape attention_shape(const StageOptions& options) {
  cpu::AttentionShape shape;
  shape.rows = static_cast<std::size_t>(options.rows);
  shape.context = static_cast<std::size_t>(options.shape.context);
  shape.heads = static_cast<std::size_t>(options.shape.heads);
  shape.head_size = static_cast<std::size_t>(options.shape.head_size());
  return shape;
}

/// What the forward pass keeps of one micro-batch for the backward pass.
struct MicroBatchActivations {
  MicroBatchActivations(Carver& carver, const StageOptions& options, const StageParameters& parameters,
                        const cpu::AttentionShape& shape, const cpu::LayerActivations& shared) {
    const std::size_t tokens = shape.rows * shape.context;
    for (int layer = 0; layer < options.layers; ++layer)
      layers.emplace_back(carver, shape, options.recompute, shared);
    if (!parameters.last()) return;
    normal = carver.take(tokens * shape.width());
    mean = carver.take(tokens);
    inverse = carver.take(tokens);
    scores = carver.take(tokens * static_cast<std::size_t>(options.shape.vocabulary));
  }
  std::vector<cpu::LayerActivations> layers;
  float *normal = nullptr, *mean = nullptr, *inverse = nullptr, *scores = nullptr;
};

/// Everything that is carved from the activation arena.
struct Buffers {
  Buffers(float* base, const StageOptions& options, const StageParameters& parameters,
          const cpu::AttentionShape& shape)
      : carver(base), scratch(carver, shape) {
    const std::size_t boundary = shape.rows * shape.context * shape.width();
    const auto shared = cpu::LayerActivations::shared(carver, shape, options.recompute);
    for (int index = 0; index < options.in_flight; ++index)
      activations.emplace_back(carver, options, parameters, shape, shared);
    for (int index = 0; index <= options.in_flight; ++index) inputs.push_back(carver.take(boundary));
    for (int index = 0; index < StageCompute::kGradientBuffers && options.training; ++index)
      gradients.push_back(carver.take(boundary));
  }
  Carver carver;
  cpu::LayerScratch scratch;
  std::vector<MicroBatchActivations> activations;
  std::vector<float*> inputs, gradients;
};

template <typename Ring>
auto& of(Ring& ring, int micro_batch) noexcept {
  return ring[static_cast<std::size_t>(micro_batch) % ring.size()];
}

class StageOnCpu final : public CpuStage {
 public:
  explicit StageOnCpu(const StageOptions& options)
      : options_(options),
        layout_(options.shape, options.first_layer, options.layers),
        shape_(attention_shape(options)),
        kernels_(cpu::kernels(compute::instruction_set())),
        multiply_(compute::multiply_of(options.precision)),
        parameters_(layout_.size(), "parameters"),
        gradients_(options.training ? layout_.size() : 0, "gradients"),
        moments_(options.training ? 2 * layout_.size() : 0, "optimizer state"),
        activations_(Buffers(nullptr, options, layout_, shape_).carver.used(), "activations"),
        buffers_(activations_.data(), options, layout_, shape_) {
    for (int layer = options.first_layer; layer < options.first_layer + options.layers; ++layer) {
      weights_.emplace_back(parameters_.data(), layout_, layer);
      if (options.training) weight_gradients_.emplace_back(gradients_.data(), layout_, layer);
    }
  }

  const StageParameters& layout() const noexcept override { return layout_; }
  StageMemory memory() const noexcept override {
    return {parameters_.bytes(), gradients_.bytes(), moments_.bytes(), activations_.bytes()};
  }
  std::string describe() const override { return fmt::format("CPU, {} kernels", kernels_.name); }
  std::span<float> parameters() noexcept override { return parameters_.all().first(layout_.size()); }
  std::span<float> gradients() noexcept override {
    return options_.training ? gradients_.all().first(layout_.size()) : std::span<float>{};
  }

  void read_state(StageState state, std::size_t offset, std::span<float> to) const override {
    check_state(state, offset, to.size());
    std::ranges::copy_n(state_begin(state) + offset, static_cast<std::ptrdiff_t>(to.size()), to.begin());
  }
  void write_state(StageState state, std::size_t offset, std::span<const float> from) override {
    check_state(state, offset, from.size());
    std::ranges::copy(from, state_begin(state) + offset);
  }
  void read_gradients(std::size_t offset, std::span<float> to) const override {
    if (!options_.training) fail(Cause::kInternal, "a stage that does not train has no gradients");
    check_range(offset, to.size());
    std::copy_n(gradients_.data() + offset, to.size(), to.begin());
  }
  std::span<float> gradients_to_host(const Bucket& bucket) override {
    return gradients().subspan(bucket.begin, bucket.end - bucket.begin);
  }
  void gradients_from_host(const Bucket& /*bucket*/) override {}

  std::span<std::byte> input(int micro_batch) noexcept override {
    return std::as_writable_bytes(std::span(of(buffers_.inputs, micro_batch), boundary()));
  }
  std::span<const std::byte> output(int micro_batch) const noexcept override {
    return std::as_bytes(std::span(of(buffers_.activations, micro_batch).layers.back().out, boundary()));
  }
  std::span<std::byte> boundary_gradient(int micro_batch) noexcept override {
    return std::as_writable_bytes(std::span(of(buffers_.gradients, micro_batch), boundary()));
  }

  void forward(int micro_batch, std::span<const std::int32_t> tokens, std::span<const std::int32_t> targets,
               const Progress& progress) override {
    const compute::MultiplyThreads threads(options_.threads);
    const MicroBatchActivations& kept = of(buffers_.activations, micro_batch);
    float* in = of(buffers_.inputs, micro_batch);
    if (layout_.first())
      kernels_.embed(in, tokens.data(), tensor(parameters_, Tensor::kTokenEmbedding),
                     tensor(parameters_, Tensor::kPositionEmbedding), this->tokens(), shape_.context,
                     width());
    const float* stream = in;
    for (std::size_t layer = 0; layer < kept.layers.size(); ++layer) {
      cpu::layer_forward(kept.layers[layer], stream, weights_[layer], shape_, kernels_, multiply_);
      stream = kept.layers[layer].out;
      if (progress) progress();
    }
    if (layout_.last()) loss_sum_ += head(kept, stream, targets);
  }

  double take_loss_sum() override { return std::exchange(loss_sum_, 0.0); }

  void backward(int micro_batch, std::span<const std::int32_t> tokens, const Progress& progress,
                const GradientsFinal& gradients_final) override {
    const compute::MultiplyThreads threads(options_.threads);
    const MicroBatchActivations& kept = of(buffers_.activations, micro_batch);
    float* gradient = of(buffers_.gradients, micro_batch);
    if (layout_.last()) head_backward(kept, gradient);
    for (std::size_t layer = kept.layers.size(); layer-- > 0;) {
      const float* in = layer > 0 ? kept.layers[layer - 1].out : of(buffers_.inputs, micro_batch);
      cpu::layer_recompute(kept.layers[layer], in, weights_[layer], shape_, kernels_, multiply_,
                           options_.recompute);
      cpu::layer_backward(gradient, weight_gradients_[layer], kept.layers[layer], in, weights_[layer],
                          buffers_.scratch, shape_, kernels_, multiply_);
      if (gradients_final)
        gradients_final(layout_.layer_begin(options_.first_layer + static_cast<int>(layer)));
      if (progress) progress();
    }
    if (!layout_.first()) return;
    kernels_.embed_backward(tensor(gradients_, Tensor::kTokenEmbedding),
                            tensor(gradients_, Tensor::kPositionEmbedding), gradient, tokens.data(),
                            this->tokens(), shape_.context, width());
    if (gradients_final) gradients_final(0);
  }

  std::span<const float> scores(int micro_batch, int row, int position) override {
    const auto vocabulary = static_cast<std::size_t>(options_.shape.vocabulary);
    const std::size_t token =
        static_cast<std::size_t>(row) * shape_.context + static_cast<std::size_t>(position);
    return {of(buffers_.activations, micro_batch).scores + token * vocabulary, vocabulary};
  }

  void clear_gradients() override { std::fill_n(gradients_.data(), layout_.size(), 0.0F); }

  double gradient_square_sum() const override {
    double total = 0;
    for (const Slice& slice : layout_.slices())
      if (!layout_.is_copy(slice))
        total += kernels_.square_sum(gradients_.data() + slice.offset, slice.elements);
    return total;
  }

  void update(const AdamWStep& step) override {
    for (const Slice& slice : layout_.slices())
      kernels_.adamw(parameters_.data() + slice.offset, gradients_.data() + slice.offset,
                     moments_.data() + slice.offset, moments_.data() + layout_.size() + slice.offset,
                     slice.elements, step, tensor_info(slice.tensor).matrix ? step.decay : 1.0F);
  }

 private:
  std::size_t tokens() const noexcept { return shape_.rows * shape_.context; }
  std::size_t width() const noexcept { return shape_.width(); }
  std::size_t boundary() const noexcept { return tokens() * width(); }
  float* state_begin(StageState state) const noexcept {
    if (state == StageState::kParameters) return parameters_.data();
    return moments_.data() + (state == StageState::kSecondMoment ? layout_.size() : 0);
  }
  void check_state(StageState state, std::size_t offset, std::size_t count) const {
    if (state != StageState::kParameters && !options_.training)
      fail(Cause::kInternal, "a stage that does not train has no moments");
    check_range(offset, count);
  }
  void check_range(std::size_t offset, std::size_t count) const {
    if (offset > layout_.size() || count > layout_.size() - offset)
      fail(Cause::kInternal, "stage state: {} floats from {} on, but the arena has {}", count, offset,
           layout_.size());
  }
  float* tensor(const Arena& arena, Tensor which) const { return arena.data() + layout_.find(which).offset; }

  /// Computes the final norm and the output projection; with targets, the scores become the loss's gradient.
  double head(const MicroBatchActivations& kept, const float* stream, std::span<const std::int32_t> targets) {
    const auto vocabulary = static_cast<std::size_t>(options_.shape.vocabulary);
    kernels_.norm(kept.normal, kept.mean, kept.inverse, stream, tensor(parameters_, Tensor::kFinalNormWeight),
                  tensor(parameters_, Tensor::kFinalNormBias), tokens(), width());
    multiply_(kept.scores, vocabulary, {kept.normal, width()},
              {tensor(parameters_, Tensor::kTokenEmbedding), width(), true}, tokens(), vocabulary, width(),
              {});
    if (targets.empty()) return 0;
    return kernels_.cross_entropy(kept.scores, targets.data(), tokens(), vocabulary,
                                  static_cast<float>(options_.loss_scale));
  }

  void head_backward(const MicroBatchActivations& kept, float* gradient) {
    const auto vocabulary = static_cast<std::size_t>(options_.shape.vocabulary);
    multiply_(tensor(gradients_, Tensor::kTokenEmbedding), width(), {kept.scores, vocabulary, true},
              {kept.normal, width()}, vocabulary, width(), tokens(),
              {.matrix = tensor(gradients_, Tensor::kTokenEmbedding), .matrix_stride = width()});
    float* normal_gradient = buffers_.scratch.narrow;
    multiply_(normal_gradient, width(), {kept.scores, vocabulary},
              {tensor(parameters_, Tensor::kTokenEmbedding), width()}, tokens(), width(), vocabulary, {});
    std::fill_n(gradient, boundary(), 0.0F);
    kernels_.norm_backward(gradient, tensor(gradients_, Tensor::kFinalNormWeight),
                           tensor(gradients_, Tensor::kFinalNormBias), normal_gradient,
                           kept.layers.back().out, kept.mean, kept.inverse,
                           tensor(parameters_, Tensor::kFinalNormWeight), tokens(), width());
  }

  StageOptions options_;
  StageParameters layout_;
  cpu::AttentionShape shape_;
  const cpu::Kernels& kernels_;
  decltype(&compute::multiply) multiply_;
  Arena parameters_, gradients_, moments_, activations_;
  Buffers buffers_;
  std::vector<cpu::LayerTensors> weights_, weight_gradients_;
  double loss_sum_ = 0;
};

}  // namespace

std::unique_ptr<CpuStage> make_cpu_stage(const StageOptions& options) {
  options.shape.check();
  compute::check_precision(options.precision);
  if (options.moments != compute::Precision::kFloat32)
    fail(Cause::kUnsupported, "the CPU keeps the optimizer's moments in fp32 only, not in {}",
         compute::precision_name(options.moments));
  if (options.rows < 1 || options.in_flight < 1 || options.layers < 1 || options.first_layer < 0 ||
      options.first_layer + options.layers > options.shape.layers || options.threads < 1)
    fail(Cause::kInvalidUsage, "stage: {} rows, {} in flight, layers {}+{} of {}, {} threads", options.rows,
         options.in_flight, options.first_layer, options.layers, options.shape.layers, options.threads);
  return std::make_unique<StageOnCpu>(options);
}

StageFactory cpu_stages() {
  return [](const StageOptions& options) { return make_cpu_stage(options); };
}

}  // namespace tombolo::trainer
