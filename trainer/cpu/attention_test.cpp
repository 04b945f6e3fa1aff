// Against attention written out in double precision, at shapes with and without a rest of a block of queries.
#include "trainer/cpu/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "base/format.h"
#include "base/randomized_test.h"
#include "compute/instruction_set.h"

namespace tombolo::trainer::cpu {
namespace {

using Doubles = std::vector<double>;

/// The same by the book: every query against every key up to its own.
struct PlainAttention {
  PlainAttention(const AttentionShape& of, const std::vector<float>& qkv)
      : shape(of), in(qkv.begin(), qkv.end()), p(shape.probabilities()), out(tokens() * shape.width()) {
    for_all([&](std::size_t row, std::size_t head) {
      for (std::size_t q = 0; q < shape.context; ++q) {
        double sum = 0;
        for (std::size_t k = 0; k <= q; ++k) {
          double dot = 0;
          for (std::size_t i = 0; i < shape.head_size; ++i)
            dot += in[at(row, q, 0, head, i)] * in[at(row, k, 1, head, i)];
          sum += probability(row, head, q, k) = std::exp(dot * scale());
        }
        for (std::size_t k = 0; k <= q; ++k) {
          probability(row, head, q, k) /= sum;
          for (std::size_t i = 0; i < shape.head_size; ++i)
            out[out_at(row, q, head, i)] += probability(row, head, q, k) * in[at(row, k, 2, head, i)];
        }
      }
    });
  }

  /// The gradient by queries, keys and values.
  Doubles backward(const std::vector<float>& gradient) {
    Doubles result(in.size());
    for_all([&](std::size_t row, std::size_t head) {
      for (std::size_t q = 0; q < shape.context; ++q) {
        Doubles by_probability(q + 1);
        double weighted = 0;
        for (std::size_t k = 0; k <= q; ++k) {
          for (std::size_t i = 0; i < shape.head_size; ++i) {
            const auto from = static_cast<double>(gradient[out_at(row, q, head, i)]);
            by_probability[k] += from * in[at(row, k, 2, head, i)];
            result[at(row, k, 2, head, i)] += from * probability(row, head, q, k);
          }
          weighted += by_probability[k] * probability(row, head, q, k);
        }
        for (std::size_t k = 0; k <= q; ++k) {
          const double by_score = probability(row, head, q, k) * (by_probability[k] - weighted) * scale();
          for (std::size_t i = 0; i < shape.head_size; ++i) {
            result[at(row, q, 0, head, i)] += by_score * in[at(row, k, 1, head, i)];
            result[at(row, k, 1, head, i)] += by_score * in[at(row, q, 0, head, i)];
          }
        }
      }
    });
    return result;
  }

  std::size_t tokens() const { return shape.rows * shape.context; }
  double scale() const { return 1 / std::sqrt(static_cast<double>(shape.head_size)); }
  /// `part`: 0 queries, 1 keys, 2 values.
  std::size_t at(std::size_t row, std::size_t token, std::size_t part, std::size_t head,
                 std::size_t i) const {
    return ((row * shape.context + token) * 3 + part) * shape.width() + head * shape.head_size + i;
  }
  std::size_t out_at(std::size_t row, std::size_t token, std::size_t head, std::size_t i) const {
    return (row * shape.context + token) * shape.width() + head * shape.head_size + i;
  }
  double& probability(std::size_t row, std::size_t head, std::size_t q, std::size_t k) {
    return p[((row * shape.heads + head) * shape.context + q) * shape.context + k];
  }
  template <typename Act>
  void for_all(const Act& act) {
    for (std::size_t row = 0; row < shape.rows; ++row)
      for (std::size_t head = 0; head < shape.heads; ++head) act(row, head);
  }

  AttentionShape shape;
  Doubles in, p, out;
};

void expect_near_all(const std::vector<float>& found, const Doubles& expected, double tolerance,
                     const char* what) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    ASSERT_NEAR(static_cast<double>(found[i]), expected[i], tolerance) << what << " " << i;
}

std::vector<float> normal_values(std::mt19937& random, std::size_t count) {
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

// One query; less than a block; a block; a rest of one; several blocks and a rest.
const AttentionShape kAttentionShapes[] = {{1, 1, 1, 4},  {2, 7, 3, 5},   {1, 32, 2, 16},
                                           {2, 33, 1, 8}, {2, 70, 2, 24}, {1, 96, 1, 64}};

TEST(Attention, AndItsGradientsAreThoseOfDoublePrecision) {
  std::mt19937 random(test_seed());
  const Kernels& set = kernels(compute::instruction_set());
  for (const AttentionShape& shape : kAttentionShapes) {
    SCOPED_TRACE(fmt::format("{} rows, context {}, {} heads of {}", shape.rows, shape.context, shape.heads,
                             shape.head_size));
    const auto qkv = normal_values(random, shape.rows * shape.context * 3 * shape.width());
    const auto gradient = normal_values(random, shape.rows * shape.context * shape.width());
    PlainAttention plain(shape, qkv);
    // What was there before must not matter.
    std::vector<float> out(gradient.size(), NAN), probabilities(shape.probabilities(), NAN);
    attention(out.data(), probabilities.data(), qkv.data(), shape, set);
    expect_near_all(out, plain.out, 1e-4, "output");
    for (std::size_t row = 0; row < shape.rows * shape.heads * shape.context; ++row)
      for (std::size_t k = 0; k <= row % shape.context; ++k)
        ASSERT_NEAR(probabilities[row * shape.context + k], plain.p[row * shape.context + k], 1e-5);
    std::vector<float> qkv_gradient(qkv.size(), NAN), scratch(shape.scratch(), NAN);
    attention_backward(qkv_gradient.data(), scratch.data(), gradient.data(), qkv.data(), probabilities.data(),
                       shape, set);
    expect_near_all(qkv_gradient, plain.backward(gradient), 1e-3, "gradient");
  }
}

TEST(Attention, NeedsScratchForOneBlockOfQueries) {
  EXPECT_EQ((AttentionShape{2, 7, 3, 5}.scratch()), 7U * 7);
  EXPECT_EQ((AttentionShape{2, 70, 3, 5}.scratch()), 32U * 70);
  EXPECT_EQ((AttentionShape{2, 70, 3, 5}.probabilities()), 2U * 3 * 70 * 70);
}

}  // namespace
}  // namespace tombolo::trainer::cpu
