// The reference against the CPU's kernels, and against differences of its own results.
#include "trainer/cuda/operations/reference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <vector>

#include "base/randomized_test.h"
#include "compute/instruction_set.h"
#include "trainer/cpu/attention.h"
#include "trainer/cpu/kernels.h"
#include "trainer/cuda/operations/token_runs.h"
#include "trainer/testing/expect_refusal.h"

namespace tombolo::trainer::cuda {
namespace {

using Floats = std::vector<float>;

class Reference : public testing::Test {
 protected:
  Floats numbers(std::size_t count, float spread = 1) {
    std::normal_distribution<float> normal(0, spread);
    Floats values(count);
    for (float& value : values) value = normal(random_);
    return values;
  }
  std::vector<std::int32_t> tokens(std::size_t count, unsigned vocabulary) {
    std::vector<std::int32_t> values(count);
    for (auto& value : values) value = static_cast<std::int32_t>(random_() % vocabulary);
    return values;
  }
  const cpu::Kernels& cpu_ = cpu::kernels(compute::InstructionSet::kBaseline);
  std::mt19937 random_{test_seed(1)};
};

Values of(Floats& values) {
  return {reinterpret_cast<std::byte*>(values.data()), Element::kFloat32};
}

void expect_near(const Floats& found, const Floats& expected, double bound) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t at = 0; at < found.size(); ++at)
    ASSERT_NEAR(found[at], expected[at], bound * std::max(1.0, std::abs(static_cast<double>(expected[at]))))
        << at;
}

TEST_F(Reference, EmbedsAsTheCpuDoes) {
  constexpr std::size_t kCount = 14, kContext = 7, kWidth = 5, kVocabulary = 6;
  const auto ids = tokens(kCount, kVocabulary);
  Floats table = numbers(kVocabulary * kWidth), positions = numbers(kContext * kWidth);
  Floats out(kCount * kWidth), expected(out.size());
  run_reference(Embed{of(out), of(table), of(positions), ids.data(), kCount, kContext, kWidth, kVocabulary});
  cpu_.embed(expected.data(), ids.data(), table.data(), positions.data(), kCount, kContext, kWidth);
  EXPECT_EQ(out, expected);

  Floats gradient = numbers(kCount * kWidth), by_table = numbers(table.size()),
         by_position = numbers(positions.size());
  Floats expected_table = by_table, expected_position = by_position;
  std::vector<std::int32_t> order(kCount), runs(kCount + 1);
  TokenRuns(static_cast<int>(kVocabulary)).sort(ids, order, runs);
  run_reference(EmbedBackward{by_table.data(), by_position.data(), of(gradient), ids.data(), order.data(),
                              runs.data(), kCount, kContext, kWidth, kVocabulary});
  cpu_.embed_backward(expected_table.data(), expected_position.data(), gradient.data(), ids.data(), kCount,
                      kContext, kWidth);
  expect_near(by_table, expected_table, 2e-6);
  expect_near(by_position, expected_position, 2e-6);

  std::vector<std::int32_t> wrong(kCount, static_cast<std::int32_t>(kVocabulary));
  test::expect_refusal(
      [&] {
        run_reference(
            Embed{of(out), of(table), of(positions), wrong.data(), kCount, kContext, kWidth, kVocabulary});
      },
      {"token 6", "below 6"}, Cause::kInternal);
}

TEST_F(Reference, NormalisesAsTheCpuDoes) {
  constexpr std::size_t kRows = 4, kWidth = 37;
  Floats x = numbers(kRows * kWidth, 3), weight = numbers(kWidth), bias = numbers(kWidth);
  Floats out(x.size()), mean(kRows), inverse(kRows), expected(x.size()), expected_mean(kRows),
      expected_inverse(kRows);
  Norm norm{};
  norm.out = of(out);
  norm.x = of(x);
  norm.weight = of(weight);
  norm.bias = of(bias);
  norm.mean = mean.data();
  norm.inverse = inverse.data();
  norm.rows = kRows;
  norm.width = kWidth;
  run_reference(norm);
  cpu_.norm(expected.data(), expected_mean.data(), expected_inverse.data(), x.data(), weight.data(),
            bias.data(), kRows, kWidth);
  expect_near(out, expected, 1e-5);
  expect_near(mean, expected_mean, 1e-6);
  expect_near(inverse, expected_inverse, 1e-6);

  // Of a sum: as if that had been there.
  Floats residual = numbers(x.size()), sum(x.size()), whole(x.size()), out_of_sum(x.size());
  for (std::size_t at = 0; at < x.size(); ++at) whole[at] = x[at] + residual[at];
  norm.residual = of(residual);
  norm.sum = of(sum);
  norm.out = of(out_of_sum);
  run_reference(norm);
  EXPECT_EQ(sum, whole);
  norm.residual = {};
  norm.x = of(whole);
  norm.out = of(out);
  run_reference(norm);
  EXPECT_EQ(out, out_of_sum);

  Floats gradient = numbers(x.size()), by_x = numbers(x.size()), by_weight = numbers(kWidth),
         by_bias = numbers(kWidth), scratch(norm_backward_scratch(kWidth));
  Floats expected_by_x = by_x, expected_by_weight = by_weight, expected_by_bias = by_bias;
  NormBackward backward{};
  backward.x_gradient = of(by_x);
  backward.gradient = of(gradient);
  backward.x = of(whole);
  backward.weight = of(weight);
  backward.weight_gradient = by_weight.data();
  backward.bias_gradient = by_bias.data();
  backward.mean = mean.data();
  backward.inverse = inverse.data();
  backward.scratch = scratch.data();
  backward.rows = kRows;
  backward.width = kWidth;
  run_reference(backward);
  cpu_.norm_backward(expected_by_x.data(), expected_by_weight.data(), expected_by_bias.data(),
                     gradient.data(), whole.data(), mean.data(), inverse.data(), weight.data(), kRows,
                     kWidth);
  expect_near(by_x, expected_by_x, 1e-5);
  expect_near(by_weight, expected_by_weight, 1e-5);
  expect_near(by_bias, expected_by_bias, 1e-5);
}

TEST_F(Reference, ProductsTakeEitherOperandTransposedAndAddToWhatIsThere) {
  constexpr std::size_t kM = 5, kN = 4, kK = 7;
  for (const bool a_transposed : {false, true})
    for (const bool b_transposed : {false, true})
      for (const bool accumulate : {false, true}) {
        Floats a = numbers(kM * kK), b = numbers(kK * kN), out = numbers(kM * kN), sums(kM, 9.0F);
        const Floats before = out;
        Product product{};
        product.out = of(out);
        product.a = of(a);
        product.b = of(b);
        product.a_transposed = a_transposed;
        product.b_transposed = b_transposed;
        product.accumulate = accumulate;
        product.m = kM;
        product.n = kN;
        product.k = kK;
        product.epilogue = Epilogue::kSumOfA;
        product.vector = of(sums);
        run_reference(product);
        for (std::size_t row = 0; row < kM; ++row) {
          double of_a = 0;
          for (std::size_t column = 0; column < kN; ++column) {
            double expected = accumulate ? before[row * kN + column] : 0.0;
            for (std::size_t inner = 0; inner < kK; ++inner)
              expected += static_cast<double>(a_transposed ? a[inner * kM + row] : a[row * kK + inner]) *
                          static_cast<double>(b_transposed ? b[column * kK + inner] : b[inner * kN + column]);
            EXPECT_NEAR(out[row * kN + column], expected, 1e-6);
          }
          for (std::size_t inner = 0; inner < kK; ++inner)
            of_a += a_transposed ? a[inner * kM + row] : a[row * kK + inner];
          EXPECT_NEAR(sums[row], of_a, 1e-6);
        }
      }
}

TEST_F(Reference, ProductsFinishWithBiasAndGeluAsTheCpuDoes) {
  constexpr std::size_t kM = 6, kN = 19, kK = 3;
  Floats a = numbers(kM * kK, 2), b = numbers(kK * kN, 2), bias = numbers(kN);
  Floats before_gelu(kM * kN), out(kM * kN), plain(kM * kN);
  Product product{};
  product.out = of(plain);
  product.a = of(a);
  product.b = of(b);
  product.m = kM;
  product.n = kN;
  product.k = kK;
  run_reference(product);
  product.out = of(out);
  product.vector = of(bias);
  product.epilogue = Epilogue::kBias;
  run_reference(product);
  for (std::size_t at = 0; at < out.size(); ++at) EXPECT_NEAR(out[at], plain[at] + bias[at % kN], 1e-5);
  const Floats with_bias = out;
  product.accumulate = true;
  run_reference(product);
  for (std::size_t at = 0; at < out.size(); ++at) EXPECT_NEAR(out[at], 2 * with_bias[at], 1e-5);
  product.accumulate = false;

  product.epilogue = Epilogue::kBiasGelu;
  product.auxiliary = of(before_gelu);
  run_reference(product);
  EXPECT_EQ(before_gelu, with_bias);
  Floats expected(out.size());
  cpu_.gelu(expected.data(), before_gelu.data(), out.size());
  expect_near(out, expected, 1e-6);

  product.epilogue = Epilogue::kGeluGradient;
  run_reference(product);
  Floats expected_gradient = plain, bias_gradient(kN);
  cpu_.gelu_backward(expected_gradient.data(), before_gelu.data(), bias_gradient.data(), kM, kN);
  expect_near(out, expected_gradient, 4e-6);

  product.accumulate = true;
  test::expect_refusal([&] { run_reference(product); }, {"matrix product 6 x 19 x 3", "GELU"},
                       Cause::kInternal);
}

struct AttentionCase {
  AttentionCase(std::size_t rows, std::size_t context, std::size_t heads, std::size_t head_size,
                const std::function<Floats(std::size_t)>& draw)
      : qkv(draw(rows * context * 3 * heads * head_size)),
        out(rows * context * heads * head_size),
        log_sum(rows * heads * context),
        gradient(draw(out.size())),
        qkv_gradient(qkv.size(), 7.0F) {
    forward.out = of(out);
    forward.qkv = of(qkv);
    forward.log_sum = log_sum.data();
    forward.rows = rows;
    forward.context = context;
    forward.heads = heads;
    forward.head_size = head_size;
    scratch.resize(reference_attention_scratch(forward));
    backward.qkv_gradient = of(qkv_gradient);
    backward.gradient = of(gradient);
    backward.out = of(out);
    backward.qkv = of(qkv);
    backward.log_sum = log_sum.data();
    backward.scratch = scratch.data();
    backward.rows = rows;
    backward.context = context;
    backward.heads = heads;
    backward.head_size = head_size;
  }
  Floats qkv, out, log_sum, gradient, qkv_gradient;
  std::vector<std::byte> scratch;
  Attention forward{};
  AttentionBackward backward{};
};

TEST_F(Reference, AttendsAsTheCpuDoes) {
  AttentionCase one(2, 39, 3, 8, [&](std::size_t count) { return numbers(count); });
  run_reference(one.forward);
  run_reference(one.backward);
  cpu::AttentionShape shape;
  shape.rows = 2;
  shape.context = 39;
  shape.heads = 3;
  shape.head_size = 8;
  Floats out(one.out.size()), probabilities(shape.probabilities()), qkv_gradient(one.qkv.size()),
      scratch(shape.scratch());
  cpu::attention(out.data(), probabilities.data(), one.qkv.data(), shape, cpu_);
  cpu::attention_backward(qkv_gradient.data(), scratch.data(), one.gradient.data(), one.qkv.data(),
                          probabilities.data(), shape, cpu_);
  expect_near(one.out, out, 2e-6);
  expect_near(one.qkv_gradient, qkv_gradient, 1e-5);
}

TEST_F(Reference, AttentionsGradientIsTheDifferenceOfItsResults) {
  AttentionCase one(1, 5, 2, 3, [&](std::size_t count) { return numbers(count); });
  run_reference(one.forward);
  run_reference(one.backward);
  const auto loss = [&] {
    run_reference(one.forward);
    double total = 0;
    for (std::size_t at = 0; at < one.out.size(); ++at)
      total += static_cast<double>(one.out[at]) * static_cast<double>(one.gradient[at]);
    return total;
  };
  constexpr float kStep = 1e-2F;
  for (std::size_t at = 0; at < one.qkv.size(); ++at) {
    const float before = one.qkv[at];
    one.qkv[at] = before + kStep;
    const double above = loss();
    one.qkv[at] = before - kStep;
    const double below = loss();
    one.qkv[at] = before;
    EXPECT_NEAR((above - below) / (2.0 * static_cast<double>(kStep)), one.qkv_gradient[at], 1e-3) << at;
  }
}

TEST_F(Reference, CrossEntropyIsTheCpusAndLeavesNothingInThePadding) {
  constexpr std::size_t kRows = 5, kVocabulary = 11, kStride = 16;
  Floats scores = numbers(kRows * kStride, 3), losses(kRows), packed;
  for (std::size_t row = 0; row < kRows; ++row)
    packed.insert(packed.end(), scores.begin() + static_cast<std::ptrdiff_t>(row * kStride),
                  scores.begin() + static_cast<std::ptrdiff_t>(row * kStride + kVocabulary));
  const auto targets = tokens(kRows, kVocabulary);
  const Floats before = scores;
  CrossEntropy entropy{of(scores), losses.data(), targets.data(), kRows, kVocabulary, kStride, 0.25F, false};
  run_reference(entropy);
  EXPECT_EQ(scores, before) << "no gradient was asked for";
  const double expected = cpu_.cross_entropy(packed.data(), targets.data(), kRows, kVocabulary, 0.25F);
  double total = 0;
  for (const float loss : losses) total += loss;
  EXPECT_NEAR(total, expected, 1e-5);
  entropy.gradient = true;
  run_reference(entropy);
  for (std::size_t row = 0; row < kRows; ++row)
    for (std::size_t at = 0; at < kStride; ++at)
      EXPECT_NEAR(scores[row * kStride + at], at < kVocabulary ? packed[row * kVocabulary + at] : 0.0F, 1e-6);
}

TEST_F(Reference, SumsAndAdds) {
  Floats x = numbers(2000), y = numbers(2000);
  std::vector<double> scratch(kSumScratch);
  double sum = 1, squares = 2, expected_sum = 1;
  run_reference(Sum{&sum, x.data(), scratch.data(), x.size(), false});
  run_reference(Sum{&squares, x.data(), scratch.data(), x.size(), true});
  for (const float value : x) expected_sum += value;
  EXPECT_NEAR(sum, expected_sum, 1e-9);
  EXPECT_NEAR(squares, 2 + cpu_.square_sum(x.data(), x.size()), 1e-2);
  Floats added = x;
  run_reference(Add{added.data(), y.data(), y.size()});
  for (std::size_t at = 0; at < x.size(); ++at) ASSERT_EQ(added[at], x[at] + y[at]);
}

TEST_F(Reference, AdamWIsTheCpusAndTouchesItsRangesAlone) {
  constexpr std::size_t kSize = 48;
  Floats p = numbers(kSize), g = numbers(kSize), m = numbers(kSize, 0.1F), v = numbers(kSize, 0.1F);
  for (float& value : v) value = std::abs(value);
  const Floats p0 = p;
  Floats expected_p = p, expected_m = m, expected_v = v;
  AdamW options;
  options.weight_decay = 0.3;
  options.learning_rate = 0.01;
  const AdamWStep step = adamw_step(options, 4, 2.5);
  const std::int64_t number = step.number;
  EXPECT_EQ(number, 4);
  const std::vector<Range> ranges{{0, 20, 1}, {32, 9, 0}};
  std::vector<std::uint16_t> copy(kSize, 0);
  AdamWUpdate update{};
  update.parameters = p.data();
  update.copy = {reinterpret_cast<std::byte*>(copy.data()), Element::kBfloat16};
  update.first_moment = of(m);
  update.second_moment = of(v);
  update.gradients = g.data();
  update.ranges = ranges.data();
  update.range_count = ranges.size();
  update.largest = 20;
  update.size = kSize;
  update.step = &step;
  update.step_number = &number;
  run_reference(update);
  cpu_.adamw(expected_p.data(), g.data(), expected_m.data(), expected_v.data(), 20, step, step.decay);
  cpu_.adamw(expected_p.data() + 32, g.data() + 32, expected_m.data() + 32, expected_v.data() + 32, 9, step,
             1);
  expect_near(p, expected_p, 1e-6);
  expect_near(m, expected_m, 1e-6);
  expect_near(v, expected_v, 1e-6);
  for (std::size_t at = 0; at < kSize; ++at) {
    const bool inside = at < 20 || (at >= 32 && at < 41);
    EXPECT_NEAR(load_value(update.copy, at), inside ? p[at] : 0, 0x1p-8 * std::abs(p[at])) << at;
    if (!inside) {
      EXPECT_EQ(p[at], p0[at]);
    }
  }
  update.largest = 10;
  test::expect_refusal([&] { run_reference(update); }, {"AdamW", "range 0 + 20"}, Cause::kInternal);
}

// A moment that barely changes would never move if it were rounded to nearest; at random it does on average.
TEST_F(Reference, Bfloat16MomentsFollowTheMeanOfTinyChanges) {
  constexpr std::size_t kSize = 512;
  Floats p(kSize), g(kSize, 1.0F);
  std::vector<std::uint16_t> m(kSize, 0x3f00), v(kSize, 0x3f00);  // 0.5
  const std::vector<Range> ranges{{0, kSize, 0}};
  AdamWUpdate update{};
  update.parameters = p.data();
  update.first_moment = {reinterpret_cast<std::byte*>(m.data()), Element::kBfloat16};
  update.second_moment = {reinterpret_cast<std::byte*>(v.data()), Element::kBfloat16};
  update.gradients = g.data();
  update.ranges = ranges.data();
  update.range_count = 1;
  update.largest = update.size = kSize;
  AdamW options;
  options.beta1 = options.beta2 = 0.999;
  double expected = 0.5;
  for (std::int64_t number = 0; number < 40; ++number) {
    const AdamWStep step = adamw_step(options, number, 1);
    update.step = &step;
    update.step_number = &number;
    run_reference(update);
    expected = 0.999 * expected + 0.001;
  }
  for (const Values& moment : {update.first_moment, update.second_moment}) {
    double mean = 0;
    for (std::size_t at = 0; at < kSize; ++at) mean += load_value(moment, at) / static_cast<double>(kSize);
    EXPECT_NEAR(mean, expected, 1e-3) << "to nearest it would have stayed 0.5, and not become " << expected;
  }
}

TEST_F(Reference, ConvertsBothWays) {
  Floats x = numbers(33), back(33);
  std::vector<std::uint16_t> half(33);
  const Values rounded{reinterpret_cast<std::byte*>(half.data()), Element::kBfloat16};
  run_reference(Convert{rounded, of(x), x.size()});
  run_reference(Convert{of(back), rounded, x.size()});
  for (std::size_t at = 0; at < x.size(); ++at) EXPECT_NEAR(back[at], x[at], 0x1p-8 * std::abs(x[at]));
  EXPECT_NE(back, x);
}

}  // namespace
}  // namespace tombolo::trainer::cuda
