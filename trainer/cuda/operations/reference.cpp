#include "trainer/cuda/operations/reference.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "trainer/cuda/operations/rounding.h"

namespace tombolo::trainer::cuda {
namespace {

float from_bfloat16(std::uint16_t bits) noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

/// Numbers as they are computed with. Reading the whole matrix once is what makes products here bearable.
std::vector<float> load_all(const Values& values, std::size_t count) {
  std::vector<float> all(count);
  if (values.element == Element::kFloat32)
    std::memcpy(all.data(), values.at, count * sizeof(float));
  else
    for (std::size_t at = 0; at < count; ++at) all[at] = load_value(values, at);
  return all;
}

void check_index(std::string_view what, std::int64_t index, std::size_t end) {
  if (index < 0 || static_cast<std::uint64_t>(index) >= end)
    fail(Cause::kInternal, "{} {} is not below {}", what, index, end);
}

void carry_out(const Embed& o) {
  for (std::size_t i = 0; i < o.count; ++i) {
    check_index("embedding: token", o.tokens[i], o.vocabulary);
    const std::size_t token = static_cast<std::size_t>(o.tokens[i]) * o.width;
    const std::size_t position = i % o.context * o.width;
    for (std::size_t at = 0; at < o.width; ++at)
      store_value(
          o.out, i * o.width + at,
          load_value(o.token_embedding, token + at) + load_value(o.position_embedding, position + at));
  }
}

void carry_out(const EmbedBackward& o) {
  // By runs, as the kernel goes, so that wrong runs show.
  for (std::size_t run = 0; run < o.count; ++run) {
    const auto begin = static_cast<std::size_t>(o.runs[run]), end = static_cast<std::size_t>(o.runs[run + 1]);
    check_index("embedding backward: end of a run", o.runs[run + 1], o.count + 1);
    for (std::size_t at = 0; begin < end && at < o.width; ++at) {
      check_index("embedding backward: place in the order", o.order[begin], o.count);
      const std::int32_t token = o.tokens[o.order[begin]];
      check_index("embedding backward: token", token, o.vocabulary);
      double total = 0;
      for (std::size_t place = begin; place < end; ++place)
        total += static_cast<double>(
            load_value(o.gradient, static_cast<std::size_t>(o.order[place]) * o.width + at));
      float& to = o.token_gradient[static_cast<std::size_t>(token) * o.width + at];
      to = static_cast<float>(static_cast<double>(to) + total);
    }
  }
  for (std::size_t position = 0; position < std::min(o.context, o.count); ++position)
    for (std::size_t at = 0; at < o.width; ++at) {
      double total = 0;
      for (std::size_t i = position; i < o.count; i += o.context)
        total += static_cast<double>(load_value(o.gradient, i * o.width + at));
      float& to = o.position_gradient[position * o.width + at];
      to = static_cast<float>(static_cast<double>(to) + total);
    }
}

void carry_out(const Norm& o) {
  for (std::size_t row = 0; row < o.rows; ++row) {
    const std::size_t begin = row * o.width;
    std::vector<double> x(o.width);
    for (std::size_t at = 0; at < o.width; ++at) {
      if (o.residual.at != nullptr) {
        store_value(o.sum, begin + at, load_value(o.x, begin + at) + load_value(o.residual, begin + at));
        x[at] = static_cast<double>(load_value(o.sum, begin + at));
      } else {
        x[at] = static_cast<double>(load_value(o.x, begin + at));
      }
    }
    double mean = 0, squares = 0;
    for (const double value : x) mean += value;
    mean /= static_cast<double>(o.width);
    for (const double value : x) squares += (value - mean) * (value - mean);
    const double inverse = 1 / std::sqrt(squares / static_cast<double>(o.width) + 1e-5);
    for (std::size_t at = 0; at < o.width; ++at)
      store_value(
          o.out, begin + at,
          static_cast<float>((x[at] - mean) * inverse * static_cast<double>(load_value(o.weight, at)) +
                             static_cast<double>(load_value(o.bias, at))));
    o.mean[row] = static_cast<float>(mean);
    o.inverse[row] = static_cast<float>(inverse);
  }
}

void carry_out(const NormBackward& o) {
  std::vector<double> weight_total(o.width), bias_total(o.width), normal(o.width), inner(o.width);
  for (std::size_t row = 0; row < o.rows; ++row) {
    const std::size_t begin = row * o.width;
    const auto mean = static_cast<double>(o.mean[row]), inverse = static_cast<double>(o.inverse[row]);
    double total = 0, product = 0;
    for (std::size_t at = 0; at < o.width; ++at) {
      const auto gradient = static_cast<double>(load_value(o.gradient, begin + at));
      normal[at] = (static_cast<double>(load_value(o.x, begin + at)) - mean) * inverse;
      inner[at] = gradient * static_cast<double>(load_value(o.weight, at));
      total += inner[at];
      product += inner[at] * normal[at];
      weight_total[at] += gradient * normal[at];
      bias_total[at] += gradient;
    }
    total /= static_cast<double>(o.width);
    product /= static_cast<double>(o.width);
    for (std::size_t at = 0; at < o.width; ++at)
      store_value(o.x_gradient, begin + at,
                  static_cast<float>(static_cast<double>(load_value(o.x_gradient, begin + at)) +
                                     (inner[at] - total - normal[at] * product) * inverse));
  }
  for (std::size_t at = 0; at < o.width; ++at) {
    o.weight_gradient[at] = static_cast<float>(static_cast<double>(o.weight_gradient[at]) + weight_total[at]);
    o.bias_gradient[at] = static_cast<float>(static_cast<double>(o.bias_gradient[at]) + bias_total[at]);
  }
}

constexpr double kGeluFactor = 0.79788456080286535588;  // sqrt(2 / pi)

double gelu(double x) noexcept {
  return 0.5 * x * (1 + std::tanh(kGeluFactor * (x + 0.044715 * x * x * x)));
}

double gelu_slope(double x) noexcept {
  const double tangent = std::tanh(kGeluFactor * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + tangent) + 0.5 * x * (1 - tangent * tangent) * kGeluFactor * (1 + 3 * 0.044715 * x * x);
}

/// What the epilogue makes of one element of the product.
float finished(const Product& o, std::size_t row, std::size_t column, double product) {
  const std::size_t index = row * o.n + column;
  switch (o.epilogue) {
    case Epilogue::kBias:
      return static_cast<float>(product + static_cast<double>(load_value(o.vector, column)));
    case Epilogue::kBiasGelu:
      store_value(o.auxiliary, index,
                  static_cast<float>(product + static_cast<double>(load_value(o.vector, column))));
      // Of what backward will find, so that the slope there is that of the function here.
      return static_cast<float>(gelu(static_cast<double>(load_value(o.auxiliary, index))));
    case Epilogue::kGeluGradient:
      return static_cast<float>(product * gelu_slope(static_cast<double>(load_value(o.auxiliary, index))));
    case Epilogue::kNone:
    case Epilogue::kSumOfA:
      break;
  }
  return static_cast<float>(product);
}

void carry_out(const Product& o) {
  if (o.accumulate && o.epilogue != Epilogue::kNone && o.epilogue != Epilogue::kBias &&
      o.epilogue != Epilogue::kSumOfA)
    fail(Cause::kInternal, "matrix product {} x {} x {}: an epilogue with GELU does not accumulate", o.m, o.n,
         o.k);
  const std::vector<float> a = load_all(o.a, o.m * o.k), b = load_all(o.b, o.k * o.n);
  const std::size_t a_row = o.a_transposed ? 1 : o.k, a_inner = o.a_transposed ? o.m : 1;
  std::vector<double> sums(o.n);
  for (std::size_t row = 0; row < o.m; ++row) {
    std::ranges::fill(sums, 0.0);
    double a_total = 0;
    for (std::size_t inner = 0; inner < o.k; ++inner) {
      const auto left = static_cast<double>(a[row * a_row + inner * a_inner]);
      a_total += left;
      if (o.b_transposed) continue;
      const float* right = b.data() + inner * o.n;
      for (std::size_t column = 0; column < o.n; ++column)
        sums[column] += left * static_cast<double>(right[column]);
    }
    for (std::size_t column = 0; o.b_transposed && column < o.n; ++column)
      for (std::size_t inner = 0; inner < o.k; ++inner)
        sums[column] += static_cast<double>(a[row * a_row + inner * a_inner]) *
                        static_cast<double>(b[column * o.k + inner]);
    for (std::size_t column = 0; column < o.n; ++column) {
      if (o.accumulate) sums[column] += static_cast<double>(load_value(o.out, row * o.n + column));
      store_value(o.out, row * o.n + column, finished(o, row, column, sums[column]));
    }
    if (o.epilogue == Epilogue::kSumOfA) store_value(o.vector, row, static_cast<float>(a_total));
  }
}

void carry_out(const Add& o) {
  for (std::size_t at = 0; at < o.count; ++at) o.to[at] += o.from[at];
}

/// One head of one row of the batch, as numbers: queries, keys, values.
struct AttentionHead {
  template <typename Shape>
  AttentionHead(const Values& qkv, const Shape& shape, std::size_t row, std::size_t head)
      : query(shape.context * shape.head_size), key(query.size()), value(query.size()) {
    const std::size_t width = shape.heads * shape.head_size;
    for (std::size_t token = 0; token < shape.context; ++token)
      for (std::size_t at = 0; at < shape.head_size; ++at) {
        const std::size_t from = (row * shape.context + token) * 3 * width + head * shape.head_size + at;
        query[token * shape.head_size + at] = static_cast<double>(load_value(qkv, from));
        key[token * shape.head_size + at] = static_cast<double>(load_value(qkv, from + width));
        value[token * shape.head_size + at] = static_cast<double>(load_value(qkv, from + 2 * width));
      }
  }
  std::vector<double> query, key, value;
};

double dot(const double* one, const double* other, std::size_t count) noexcept {
  double total = 0;
  for (std::size_t at = 0; at < count; ++at) total += one[at] * other[at];
  return total;
}

void carry_out(const Attention& o) {
  const double scale = 1 / std::sqrt(static_cast<double>(o.head_size));
  std::vector<double> weights(o.context);
  for (std::size_t row = 0; row < o.rows; ++row)
    for (std::size_t index = 0; index < o.heads; ++index) {
      const AttentionHead head(o.qkv, o, row, index);
      for (std::size_t query = 0; query < o.context; ++query) {
        double top = -INFINITY;
        for (std::size_t key = 0; key <= query; ++key) {
          weights[key] =
              scale * dot(&head.query[query * o.head_size], &head.key[key * o.head_size], o.head_size);
          top = std::max(top, weights[key]);
        }
        double total = 0;
        for (std::size_t key = 0; key <= query; ++key) {
          weights[key] = std::exp(weights[key] - top);
          total += weights[key];
        }
        for (std::size_t at = 0; at < o.head_size; ++at) {
          double sum = 0;
          for (std::size_t key = 0; key <= query; ++key)
            sum += weights[key] * head.value[key * o.head_size + at];
          store_value(o.out, ((row * o.context + query) * o.heads + index) * o.head_size + at,
                      static_cast<float>(sum / total));
        }
        o.log_sum[(row * o.heads + index) * o.context + query] = static_cast<float>(top + std::log(total));
      }
    }
}

void carry_out(const AttentionBackward& o) {
  const double scale = 1 / std::sqrt(static_cast<double>(o.head_size));
  const std::size_t width = o.heads * o.head_size, size = o.head_size;
  for (std::size_t row = 0; row < o.rows; ++row)
    for (std::size_t index = 0; index < o.heads; ++index) {
      const AttentionHead head(o.qkv, o, row, index);
      std::vector<double> gradient(o.context * size), query_gradient(gradient.size()),
          key_gradient(gradient.size()), value_gradient(gradient.size());
      for (std::size_t token = 0; token < o.context; ++token) {
        double inner = 0;  // sum over keys of weight x its gradient
        for (std::size_t at = 0; at < size; ++at) {
          const std::size_t from = ((row * o.context + token) * o.heads + index) * size + at;
          gradient[token * size + at] = static_cast<double>(load_value(o.gradient, from));
          inner += gradient[token * size + at] * static_cast<double>(load_value(o.out, from));
        }
        const std::size_t place = (row * o.heads + index) * o.context + token;
        const auto kept = static_cast<float>(inner);
        std::memcpy(o.scratch + place * sizeof(float), &kept, sizeof kept);
        for (std::size_t key = 0; key <= token; ++key) {
          const double weight = std::exp(scale * dot(&head.query[token * size], &head.key[key * size], size) -
                                         static_cast<double>(o.log_sum[place]));
          const double slope = dot(&gradient[token * size], &head.value[key * size], size);
          const double score_gradient = weight * (slope - static_cast<double>(kept)) * scale;
          for (std::size_t at = 0; at < size; ++at) {
            value_gradient[key * size + at] += weight * gradient[token * size + at];
            query_gradient[token * size + at] += score_gradient * head.key[key * size + at];
            key_gradient[key * size + at] += score_gradient * head.query[token * size + at];
          }
        }
      }
      for (std::size_t token = 0; token < o.context; ++token)
        for (std::size_t at = 0; at < size; ++at) {
          const std::size_t to = (row * o.context + token) * 3 * width + index * size + at;
          const std::size_t from = token * size + at;
          store_value(o.qkv_gradient, to, static_cast<float>(query_gradient[from]));
          store_value(o.qkv_gradient, to + width, static_cast<float>(key_gradient[from]));
          store_value(o.qkv_gradient, to + 2 * width, static_cast<float>(value_gradient[from]));
        }
    }
}

void carry_out(const CrossEntropy& o) {
  for (std::size_t row = 0; row < o.rows; ++row) {
    const std::size_t begin = row * o.stride;
    check_index("cross-entropy: target", o.targets[row], o.vocabulary);
    const auto target = static_cast<std::size_t>(o.targets[row]);
    double top = -INFINITY, total = 0;
    for (std::size_t at = 0; at < o.vocabulary; ++at)
      top = std::max(top, static_cast<double>(load_value(o.scores, begin + at)));
    for (std::size_t at = 0; at < o.vocabulary; ++at)
      total += std::exp(static_cast<double>(load_value(o.scores, begin + at)) - top);
    o.losses[row] =
        static_cast<float>(std::log(total) + top - static_cast<double>(load_value(o.scores, begin + target)));
    if (!o.gradient) continue;
    for (std::size_t at = 0; at < o.vocabulary; ++at) {
      const double share = std::exp(static_cast<double>(load_value(o.scores, begin + at)) - top) / total;
      store_value(o.scores, begin + at,
                  static_cast<float>((share - (at == target ? 1 : 0)) * static_cast<double>(o.scale)));
    }
    for (std::size_t at = o.vocabulary; at < o.stride; ++at) store_value(o.scores, begin + at, 0);
  }
}

void carry_out(const Sum& o) {
  double total = 0;
  for (std::size_t at = 0; at < o.count; ++at) {
    const auto value = static_cast<double>(o.x[at]);
    total += o.squares ? value * value : value;
  }
  *o.sum += total;
}

/// A moment as it is stored: in bf16 up or down at random.
void store_moment(const Values& moments, std::size_t index, float value, std::uint32_t random) noexcept {
  if (moments.element == Element::kFloat32) return store_value(moments, index, value);
  const std::uint16_t bits = bfloat16_bits_at_random(std::bit_cast<std::uint32_t>(value), random);
  std::memcpy(moments.at + index * sizeof bits, &bits, sizeof bits);
}

void carry_out(const AdamWUpdate& o) {
  const AdamWStep s = *o.step;
  for (std::size_t range = 0; range < o.range_count; ++range) {
    const Range& r = o.ranges[range];
    if (r.begin > o.size || r.count > o.size - r.begin || r.count > o.largest)
      fail(Cause::kInternal, "AdamW: range {} + {} of at most {} in an arena of {}", r.begin, r.count,
           o.largest, o.size);
    const float decay = r.decays != 0 ? s.decay : 1.0F;
    for (std::size_t at = r.begin; at < r.begin + r.count; ++at) {
      const float g = o.gradients[at] * s.gradient_scale;
      const float m = s.beta1 * load_value(o.first_moment, at) + (1.0F - s.beta1) * g;
      const float v = s.beta2 * load_value(o.second_moment, at) + (1.0F - s.beta2) * (g * g);
      const std::uint32_t random = rounding_bits(at, *o.step_number);
      store_moment(o.first_moment, at, m, random & 0xffffU);
      store_moment(o.second_moment, at, v, random >> 16);
      o.parameters[at] = o.parameters[at] * decay - s.rate * m / (std::sqrt(v) * s.root_scale + s.epsilon);
      if (o.copy.at != nullptr) store_value(o.copy, at, o.parameters[at]);
    }
  }
}

void carry_out(const Convert& o) {
  for (std::size_t at = 0; at < o.count; ++at) store_value(o.to, at, load_value(o.from, at));
}

}  // namespace

float load_value(const Values& values, std::size_t index) noexcept {
  if (values.element == Element::kFloat32) {
    float value = 0;
    std::memcpy(&value, values.at + index * sizeof value, sizeof value);
    return value;
  }
  std::uint16_t bits = 0;
  std::memcpy(&bits, values.at + index * sizeof bits, sizeof bits);
  return from_bfloat16(bits);
}

void store_value(const Values& values, std::size_t index, float value) noexcept {
  if (values.element == Element::kFloat32) {
    std::memcpy(values.at + index * sizeof value, &value, sizeof value);
    return;
  }
  const std::uint16_t bits = bfloat16_bits(std::bit_cast<std::uint32_t>(value));
  std::memcpy(values.at + index * sizeof bits, &bits, sizeof bits);
}

std::size_t reference_attention_scratch(const Attention& attention) noexcept {
  return attention.rows * attention.heads * attention.context * sizeof(float);
}

void run_reference(const Operation& operation) {
  std::visit([](const auto& one) { carry_out(one); }, operation);
}

}  // namespace tombolo::trainer::cuda
