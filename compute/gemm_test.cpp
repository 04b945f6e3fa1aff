#include "compute/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "base/randomized_test.h"
#include "compute/gemm_kernels.h"
#include "compute/instruction_set.h"
#include "compute/rounding_of_sum.h"

namespace tombolo::compute {
namespace {

constexpr InstructionSet kSets[] = {InstructionSet::kBaseline, InstructionSet::kAvx2,
                                    InstructionSet::kAvx512};

/// Random operands of one shape, with gaps between the rows that no product may touch.
struct Case {
  std::size_t rows, columns, inner;
  bool left_transposed, right_transposed;
  std::size_t gap = 0;  ///< floats between rows
  Epilogue epilogue = {};
  std::vector<float> left = {}, right = {}, matrix = {}, row = {};
  static constexpr float kUntouched = -77.5F;

  std::size_t out_stride() const { return columns + gap; }
  Operand left_operand() const {
    return {left.data(), (left_transposed ? rows : inner) + gap, left_transposed};
  }
  Operand right_operand() const {
    return {right.data(), (right_transposed ? inner : columns) + gap, right_transposed};
  }

  static Case random(std::mt19937& generator, std::size_t most) {
    const auto up_to = [&](std::size_t end) {
      return std::uniform_int_distribution<std::size_t>(0, end)(generator);
    };
    Case one{1 + up_to(most), 1 + up_to(most), up_to(3 * most), up_to(1) == 1, up_to(1) == 1, up_to(2) * 5};
    std::normal_distribution<float> normal;
    const auto fill = [&](std::vector<float>& values, std::size_t count) {
      values.resize(count);
      for (float& value : values) value = normal(generator);
    };
    fill(one.left, (std::max(one.rows, one.inner) + one.gap) * std::max(one.rows, one.inner));
    fill(one.right, (std::max(one.columns, one.inner) + one.gap) * std::max(one.columns, one.inner));
    fill(one.matrix, one.rows * one.out_stride());
    fill(one.row, one.columns);
    one.epilogue.scale = up_to(1) == 1 ? 0.125F : 1.0F;
    return one;
  }

  /// An element as it should be, and how far from it rounding may lead.
  struct Element {
    double value, allowed;
  };
  std::vector<Element> expected(bool with_matrix, bool with_row) const {
    const Operand l = left_operand(), r = right_operand();
    std::vector<Element> elements;
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t j = 0; j < columns; ++j) {
        double sum = 0, magnitudes = 0;
        const auto add = [&](double term) {
          sum += term;
          magnitudes += std::abs(term);
        };
        for (std::size_t k = 0; k < inner; ++k)
          add(static_cast<double>(epilogue.scale) *
              static_cast<double>(l.data[l.transposed ? k * l.stride + i : i * l.stride + k]) *
              static_cast<double>(r.data[r.transposed ? j * r.stride + k : k * r.stride + j]));
        if (with_matrix) add(static_cast<double>(matrix[i * out_stride() + j]));
        if (with_row) add(static_cast<double>(row[j]));
        elements.push_back({sum, rounding_of_sum(inner + 4, magnitudes)});
      }
    return elements;
  }

  /// In place: `matrix` is the output.
  std::vector<float> product(const GemmKernels& kernels, bool with_matrix, bool with_row,
                             bool in_place) const {
    std::vector<float> out(rows * out_stride(), kUntouched);
    Epilogue last = epilogue;
    if (with_matrix) {
      last.matrix = in_place ? out.data() : matrix.data();
      last.matrix_stride = out_stride();
      for (std::size_t i = 0; i < rows && in_place; ++i)
        std::memcpy(&out[i * out_stride()], &matrix[i * out_stride()], columns * sizeof(float));
    }
    if (with_row) last.row = row.data();
    multiply_by(kernels, out.data(), out_stride(), left_operand(), right_operand(), rows, columns, inner,
                last);
    return out;
  }
};

void expect_product(const Case& one, const std::vector<float>& out,
                    const std::vector<Case::Element>& expected) {
  for (std::size_t i = 0; i < one.rows; ++i)
    for (std::size_t j = 0; j < one.out_stride(); ++j) {
      const float found = out[i * one.out_stride() + j];
      if (j >= one.columns)
        ASSERT_EQ(found, Case::kUntouched) << "between rows " << i << " and " << i + 1;
      else
        ASSERT_NEAR(found, expected[i * one.columns + j].value, expected[i * one.columns + j].allowed)
            << "row " << i << ", column " << j << " of " << one.rows << " x " << one.columns << " x "
            << one.inner;
    }
}

class Gemm : public testing::TestWithParam<InstructionSet> {
 protected:
  void SetUp() override {
    if (GetParam() > instruction_set_of(read_cpuid()))
      GTEST_SKIP() << "this machine lacks the instruction set";
  }
  const GemmKernels& kernels() const { return gemm_kernels(GetParam()); }
};

TEST_P(Gemm, IsThatOfDoublePrecisionForRandomShapesOperandsAndEpilogues) {
  std::mt19937 generator(test_seed());
  for (int round = 0; round < 120; ++round) {
    const Case one = Case::random(generator, round % 10 == 0 ? 150 : 40);
    const bool with_matrix = generator() % 2 == 0, with_row = generator() % 2 == 0,
               in_place = generator() % 2 == 0;
    SCOPED_TRACE(testing::Message() << "round " << round);
    expect_product(one, one.product(kernels(), with_matrix, with_row, in_place),
                   one.expected(with_matrix, with_row));
    if (HasFatalFailure()) return;
  }
}

TEST_P(Gemm, CutsTheInnerDimensionAndCopiesWideOperands) {
  std::mt19937 generator(test_seed(5));
  std::normal_distribution<float> normal;
  for (const bool transposed : {false, true}) {
    Case one{70, 300, 1100, transposed, !transposed};
    for (auto [values, count] :
         {std::pair{&one.left, 70 * 1100}, {&one.right, 300 * 1100}, {&one.matrix, 70 * 300}})
      for (int i = 0; i < count; ++i) values->push_back(normal(generator));
    for (int i = 0; i < 300; ++i) one.row.push_back(normal(generator));
    expect_product(one, one.product(kernels(), true, true, true), one.expected(true, true));
  }
}

TEST_P(Gemm, GivesTheSameBitsWithAnyNumberOfThreads) {
  std::mt19937 generator(test_seed(7));
  std::normal_distribution<float> normal;
  for (const auto& [rows, columns] : {std::pair<std::size_t, std::size_t>{257, 96}, {40, 555}}) {
    Case one{rows, columns, 400, false, true};
    for (std::size_t i = 0; i < rows * 400; ++i) one.left.push_back(normal(generator));
    for (std::size_t i = 0; i < columns * 400; ++i) one.right.push_back(normal(generator));
    const std::vector<float> alone = one.product(kernels(), false, false, false);
    expect_product(one, alone, one.expected(false, false));
    for (const int threads : {2, 3, 7}) {
      std::vector<float> here, there;
      const auto product = [&] {
        const MultiplyThreads shared(threads);
        return one.product(kernels(), false, false, false);
      };
      std::thread other([&] { there = product(); });  // has workers of its own
      here = product();
      other.join();
      EXPECT_EQ(here, alone) << threads;
      EXPECT_EQ(there, alone) << threads;
    }
  }
}

TEST_P(Gemm, CountsWhatRegistersAloneCompute) {
  double operations = 0;
  kernels().registers_only(1000, &operations);
  EXPECT_GT(operations, 1000.0 * 2 * 4);
  double twice = 0;
  kernels().registers_only(2000, &twice);
  EXPECT_EQ(twice, 2 * operations);
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, Gemm, testing::ValuesIn(kSets),
                         [](const auto& set) { return std::string(instruction_set_name(set.param)); });

}  // namespace
}  // namespace tombolo::compute
