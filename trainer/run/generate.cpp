#include "trainer/run/generate.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>
#include <vector>

#include "base/error.h"
#include "trainer/cpu/cpu_stage.h"
#include "trainer/data/text_encoder.h"
#include "trainer/data/tokenizer_files.h"

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

/// Between text and tokens; without a tokenizer they are bytes.
class Codec {
 public:
  explicit Codec(const std::string& tokenizer) {
    if (!tokenizer.empty()) tokenizer_.emplace(load_tokenizer(tokenizer));
  }

  int vocabulary() const { return tokenizer_ ? tokenizer_->vocabulary() : 256; }
  std::vector<std::int32_t> encode(const std::string& text) const {
    if (tokenizer_) return TextEncoder(*tokenizer_).encode(text);
    std::vector<std::int32_t> tokens;
    for (const char byte : text) tokens.push_back(static_cast<unsigned char>(byte));
    return tokens;
  }
  std::string decode(std::span<const std::int32_t> tokens) const {
    if (tokenizer_) return tokenizer_->decode(tokens);
    std::string text;
    for (const std::int32_t token : tokens) text.push_back(static_cast<char>(token));
    return text;
  }

 private:
  std::optional<Tokenizer> tokenizer_;
};

}  // namespace

GeneratedText generate(const Shape& shape, std::span<const float> parameters, const GenerateOptions& options,
                       const std::function<bool()>& stop_requested) {
  if (options.prompt.empty()) fail(Cause::kInvalidUsage, "a sample needs a prompt of at least one byte");
  if (!(options.temperature >= 0))
    fail(Cause::kInvalidUsage, "temperature is {}, but must be at least 0", options.temperature);
  const Codec codec(options.tokenizer);
  std::vector<std::int32_t> tokens = codec.encode(options.prompt);
  for (const std::int32_t token : tokens)
    if (token >= shape.vocabulary)
      fail(Cause::kInvalidUsage, "the prompt's token {} is outside the model's vocabulary of {}", token,
           shape.vocabulary);
  StageOptions stage;
  stage.shape = shape;
  stage.layers = shape.layers;
  stage.threads = options.threads;
  stage.training = false;
  const auto compute = options.make_stage(stage);
  std::vector<float> arena(compute->layout().size());
  for (const Slice& slice : compute->layout().slices())
    std::ranges::copy(parameters.subspan(slice.position, slice.elements),
                      arena.begin() + static_cast<std::ptrdiff_t>(slice.offset));
  compute->write_state(StageState::kParameters, 0, arena);

  std::mt19937_64 random(options.seed);
  const std::size_t prompt = tokens.size();
  const auto context = static_cast<std::size_t>(shape.context);
  const auto vocabulary = static_cast<std::size_t>(std::min(shape.vocabulary, codec.vocabulary()));
  std::vector<std::int32_t> window(context);
  for (int count = 0; count < options.tokens; ++count) {
    if (stop_requested && stop_requested()) break;
    const std::size_t seen = std::min(tokens.size(), context);
    // What follows the last token does not matter: attention looks back only.
    std::ranges::fill(window, 0);
    std::copy_n(tokens.end() - static_cast<std::ptrdiff_t>(seen), seen, window.begin());
    compute->forward(0, window, {}, {});
    const auto scores = compute->scores(0, 0, static_cast<int>(seen) - 1);
    tokens.push_back(static_cast<std::int32_t>(draw(scores.first(vocabulary), options.temperature, random)));
  }
  const auto made = std::span(tokens).subspan(prompt);
  return {codec.decode(made), static_cast<int>(made.size())};
}

}  // namespace tombolo::trainer
