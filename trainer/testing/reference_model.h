// The bundled model's loss in double precision, written for reading and not for speed: the truth that back
// ends are compared with.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <span>
#include <vector>

#include "trainer/model/model.h"

namespace tombolo::trainer::test {
/// The passes of reference_loss().
class Reference {
 public:
  using Vector = std::vector<double>;

  Reference(const Shape& shape, std::span<const double> parameters)
      : shape_(shape),
        parameters_(parameters),
        width_(static_cast<std::size_t>(shape.width)),
        context_(static_cast<std::size_t>(shape.context)) {}

  double row_loss(std::span<const std::int32_t> tokens, std::span<const std::int32_t> targets) const {
    std::vector<Vector> stream;  // by position
    for (std::size_t at = 0; at < context_; ++at) {
      Vector x(width_);
      for (std::size_t i = 0; i < width_; ++i)
        x[i] = of(Tensor::kTokenEmbedding)[static_cast<std::size_t>(tokens[at]) * width_ + i] +
               of(Tensor::kPositionEmbedding)[at * width_ + i];
      stream.push_back(x);
    }
    for (int layer = 0; layer < shape_.layers; ++layer) block(stream, layer);
    double total = 0;
    for (std::size_t at = 0; at < context_; ++at) {
      const Vector normal = norm(stream[at], of(Tensor::kFinalNormWeight), of(Tensor::kFinalNormBias));
      total += token_loss(normal, targets[at]);
    }
    return total;
  }

 private:
  std::span<const double> of(Tensor tensor, int layer = 0) const {
    return parameters_.subspan(tensor_position(shape_, tensor, layer), tensor_elements(shape_, tensor));
  }

  static Vector norm(const Vector& x, std::span<const double> weight, std::span<const double> bias) {
    double mean = 0, variance = 0;
    for (const double value : x) mean += value / static_cast<double>(x.size());
    for (const double value : x) variance += (value - mean) * (value - mean) / static_cast<double>(x.size());
    Vector out(x.size());
    for (std::size_t i = 0; i < x.size(); ++i)
      out[i] = (x[i] - mean) / std::sqrt(variance + 1e-5) * weight[i] + bias[i];
    return out;
  }

  /// weight is outputs x inputs.
  static Vector linear(const Vector& x, std::span<const double> weight, std::span<const double> bias) {
    Vector out(bias.begin(), bias.end());
    for (std::size_t o = 0; o < out.size(); ++o)
      for (std::size_t i = 0; i < x.size(); ++i) out[o] += weight[o * x.size() + i] * x[i];
    return out;
  }

  static void add(Vector& to, const Vector& other) {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] += other[i];
  }

  void block(std::vector<Vector>& stream, int layer) const {
    std::vector<Vector> qkv;
    for (const Vector& x : stream)
      qkv.push_back(linear(norm(x, of(Tensor::kNorm1Weight, layer), of(Tensor::kNorm1Bias, layer)),
                           of(Tensor::kQkvWeight, layer), of(Tensor::kQkvBias, layer)));
    for (std::size_t at = 0; at < context_; ++at)
      add(stream[at], linear(attended(qkv, at), of(Tensor::kAttentionProjectionWeight, layer),
                             of(Tensor::kAttentionProjectionBias, layer)));
    for (Vector& x : stream) {
      Vector hidden = linear(norm(x, of(Tensor::kNorm2Weight, layer), of(Tensor::kNorm2Bias, layer)),
                             of(Tensor::kMlpWeight, layer), of(Tensor::kMlpBias, layer));
      for (double& value : hidden)
        value *=
            0.5 *
            (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (value + 0.044715 * value * value * value)));
      add(x, linear(hidden, of(Tensor::kMlpProjectionWeight, layer), of(Tensor::kMlpProjectionBias, layer)));
    }
  }

  /// What the heads of the position `at` see, one after the other.
  Vector attended(const std::vector<Vector>& qkv, std::size_t at) const {
    const auto size = static_cast<std::size_t>(shape_.head_size());
    Vector out(width_);
    for (std::size_t head = 0; head < width_; head += size) {
      Vector weights(at + 1);
      for (std::size_t key = 0; key <= at; ++key) {
        for (std::size_t i = head; i < head + size; ++i) weights[key] += qkv[at][i] * qkv[key][width_ + i];
        weights[key] /= std::sqrt(static_cast<double>(size));
      }
      const double largest = *std::ranges::max_element(weights);
      double sum = 0;
      for (double& weight : weights) sum += weight = std::exp(weight - largest);
      for (std::size_t key = 0; key <= at; ++key)
        for (std::size_t i = head; i < head + size; ++i)
          out[i] += weights[key] / sum * qkv[key][2 * width_ + i];
    }
    return out;
  }

  double token_loss(const Vector& normal, std::int32_t target) const {
    Vector scores(static_cast<std::size_t>(shape_.vocabulary));
    for (std::size_t entry = 0; entry < scores.size(); ++entry)
      for (std::size_t i = 0; i < width_; ++i)
        scores[entry] += of(Tensor::kTokenEmbedding)[entry * width_ + i] * normal[i];
    const double largest = *std::ranges::max_element(scores);
    double sum = 0;
    for (const double score : scores) sum += std::exp(score - largest);
    return largest + std::log(sum) - scores[static_cast<std::size_t>(target)];
  }

  const Shape& shape_;
  std::span<const double> parameters_;
  std::size_t width_, context_;
};

/// Mean loss (natural logarithm) of `tokens` against `targets`, each rows x context. `parameters`: all of the
/// model's, in a checkpoint's order.
inline double reference_loss(const Shape& shape, std::span<const double> parameters,
                             std::span<const std::int32_t> tokens, std::span<const std::int32_t> targets) {
  const Reference reference(shape, parameters);
  const auto context = static_cast<std::size_t>(shape.context);
  double total = 0;
  for (std::size_t begin = 0; begin < tokens.size(); begin += context)
    total += reference.row_loss(tokens.subspan(begin, context), targets.subspan(begin, context));
  return total / static_cast<double>(tokens.size());
}

}  // namespace tombolo::trainer::test
