#include "trainer/run/generate.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "base/error.h"

namespace tombolo::trainer {
namespace {

/// Draws an index with probability proportional to exp(score / temperature).
std::size_t draw(std::span<const float> scores, double temperature, std::mt19937_64& random) {
  const auto likeliest = std::ranges::max_element(scores);
  if (temperature <= 0) return static_cast<std::size_t>(likeliest - scores.begin());
  std::vector<double> sums(scores.size());
  double total = 0;
  for (std::size_t index = 0; index < scores.size(); ++index) {
    total += std::exp((static_cast<double>(scores[index]) - static_cast<double>(*likeliest)) / temperature);
    sums[index] = total;
  }
  const double at = static_cast<double>(random() >> 11) * 0x1p-53 * total;
  const auto found = std::ranges::upper_bound(sums, at);
  return std::min(static_cast<std::size_t>(found - sums.begin()), scores.size() - 1);
}

/// As check_generation(); returns the prompt's tokens.
std::vector<std::int32_t> checked_prompt(const Shape& shape, const GenerateOptions& options,
                                         const TextCodec& codec) {
  if (options.tokens < 0) fail(Cause::kInvalidUsage, "--sample {} is below 0", options.tokens);
  if (options.prompt.empty()) fail(Cause::kInvalidUsage, "--prompt is empty: a sample begins with a byte");
  if (!(options.temperature >= 0) || std::isinf(options.temperature))
    fail(Cause::kInvalidUsage, "--temperature {} is no finite number from 0 on", options.temperature);
  std::vector<std::int32_t> tokens = codec.encode(options.prompt);
  for (const std::int32_t token : tokens)
    if (token >= shape.vocabulary)
      fail(Cause::kInvalidUsage, "--prompt: token {} is outside the model's vocabulary of {}", token,
           shape.vocabulary);
  return tokens;
}

StageOptions whole_model(const Shape& shape, int threads) {
  StageOptions stage;
  stage.shape = shape;
  stage.layers = shape.layers;
  stage.threads = threads;
  stage.training = false;
  return stage;
}

}  // namespace

void check_generation(const Shape& shape, const GenerateOptions& options) {
  checked_prompt(shape, options, TextCodec(options.tokenizer));
}

Generator::Generator(const Shape& shape, const GenerateOptions& options)
    : shape_(shape),
      options_(options),
      codec_(options.tokenizer),
      prompt_(checked_prompt(shape, options, codec_)),
      compute_(options.make_stage(whole_model(shape, options.threads))) {}

std::size_t Generator::memory() const noexcept {
  const StageMemory memory = compute_->memory();
  return memory.parameters + memory.activations;
}

GeneratedText Generator::generate(std::span<const float> parameters,
                                  const std::function<bool()>& stop_requested) {
  std::vector<float> arena(compute_->layout().size());
  for (const Slice& slice : compute_->layout().slices())
    std::ranges::copy(parameters.subspan(slice.position, slice.elements),
                      arena.begin() + static_cast<std::ptrdiff_t>(slice.offset));
  compute_->write_state(StageState::kParameters, 0, arena);

  std::vector<std::int32_t> tokens = prompt_;
  std::mt19937_64 random(options_.seed);
  const auto context = static_cast<std::size_t>(shape_.context);
  const auto vocabulary = static_cast<std::size_t>(std::min(shape_.vocabulary, codec_.vocabulary()));
  std::vector<std::int32_t> window(context);
  for (int count = 0; count < options_.tokens; ++count) {
    if (stop_requested && stop_requested()) break;
    const std::size_t seen = std::min(tokens.size(), context);
    // What follows the last token does not matter: attention looks back only.
    std::ranges::fill(window, 0);
    std::copy_n(tokens.end() - static_cast<std::ptrdiff_t>(seen), seen, window.begin());
    compute_->forward(0, window, {}, {});
    const auto scores = compute_->scores(0, 0, static_cast<int>(seen) - 1);
    tokens.push_back(static_cast<std::int32_t>(draw(scores.first(vocabulary), options_.temperature, random)));
  }
  const auto made = std::span(tokens).subspan(prompt_.size());
  return {codec_.decode(made), static_cast<int>(made.size())};
}

GeneratedText generate(const Shape& shape, std::span<const float> parameters, const GenerateOptions& options,
                       const std::function<bool()>& stop_requested) {
  return Generator(shape, options).generate(parameters, stop_requested);
}

}  // namespace tombolo::trainer
