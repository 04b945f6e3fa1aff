#include "trainer/run/generate.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

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

}  // namespace

std::string generate(const Shape& shape, std::span<const float> parameters, const GenerateOptions& options,
                     const std::function<bool()>& stop_requested) {
  if (options.prompt.empty()) fail(Cause::kInvalidUsage, "a sample needs a prompt of at least one byte");
  if (!(options.temperature >= 0))
    fail(Cause::kInvalidUsage, "temperature is {}, but must be at least 0", options.temperature);
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
  std::string text = options.prompt;
  const auto context = static_cast<std::size_t>(shape.context);
  std::vector<std::int32_t> window(context);
  for (int count = 0; count < options.bytes; ++count) {
    if (stop_requested && stop_requested()) break;
    const std::size_t seen = std::min(text.size(), context);
    // What follows the last byte does not matter, because attention only looks back.
    std::ranges::fill(window, 0);
    for (std::size_t index = 0; index < seen; ++index)
      window[index] = static_cast<unsigned char>(text[text.size() - seen + index]);
    compute->forward(0, window, {}, {});
    const auto scores = compute->scores(0, 0, static_cast<int>(seen) - 1);
    text.push_back(static_cast<char>(
        draw(scores.first(std::min<std::size_t>(scores.size(), 256)), options.temperature, random)));
  }
  return text.substr(options.prompt.size());
}

}  // namespace tombolo::trainer
