// The GPU's kernels, thread by thread on the processor, against the processor's own.
#include <gtest/gtest.h>

#include "base/randomized_test.h"
#include "collectives/testing/reduction_cases.h"
#include "collectives/testing/reduction_emulation.h"
#include "collectives/testing/test_support.h"

namespace tombolo::collectives {
namespace {

using gpu::Operation;
using test::Bytes;

constexpr std::byte kUntouched{0x5a};

/// Operands and target somewhere in memory, and bytes before and behind the target that nobody may touch.
class Placed {
 public:
  /// Each begins so many bytes behind a word's beginning.
  Placed(const test::ReductionCase& of, std::size_t left, std::size_t right, std::size_t target)
      : case_(of),
        left_(of.left.size() + kRoom),
        right_(left_.size()),
        target_(left_.size() + kRoom, kUntouched) {
    arguments_.left = copy(of.left, left_, left);
    arguments_.right = copy(of.right, right_, right);
    arguments_.target = word(target_) + kRoom / 2 + target;
    arguments_.count = of.count;
  }

  void in_place(bool of_left) {
    auto* const at = const_cast<std::byte*>(of_left ? arguments_.left : arguments_.right);
    arguments_.target = at;
  }
  void run(Operation operation, std::uint64_t threads) {
    arguments_.operation = operation;
    arguments_.operand = case_.operand(operation);
    test::emulate_reduction(arguments_, case_.type, threads);
  }
  const std::byte* result() const { return arguments_.target; }
  bool touched_more() const {
    const std::byte* const end = arguments_.target + case_.left.size();
    for (const std::byte& one : target_)
      if ((&one < arguments_.target || &one >= end) && one != kUntouched) return true;
    return false;
  }

 private:
  static constexpr std::size_t kRoom = 64;
  static std::byte* word(Bytes& in) {
    const auto at = reinterpret_cast<std::uintptr_t>(in.data());
    return in.data() + (16 - at % 16) % 16;
  }
  static std::byte* copy(const Bytes& from, Bytes& to, std::size_t offset) {
    std::memcpy(word(to) + offset, from.data(), from.size());
    return word(to) + offset;
  }

  const test::ReductionCase& case_;
  Bytes left_, right_, target_;
  gpu::ReductionArguments arguments_;
};

TEST(ReductionKernels, GiveTheProcessorsBits) {
  std::mt19937_64 random(test_seed());
  for (const DataType type : test::kAllTypes) {
    for (int round = 0; round < test_rounds(6); ++round) {
      const test::ReductionCase one(type, random() % 100, random);
      for (const Operation operation : test::kAllOperations) {
        const std::size_t element = size_of(type);
        const auto offset = [&] { return random() % 3 == 0 ? element * (random() % 4) : 0; };
        Placed placed(one, offset(), offset(), offset());
        const auto where = random() % 3;
        if (where > 0) placed.in_place(where == 1);
        placed.run(operation, 1 + random() % 80);
        EXPECT_EQ(one.first_wrong(operation, placed.result()), one.count)
            << data_type_name(type) << ", operation " << static_cast<int>(operation);
        if (where == 0) {
          EXPECT_FALSE(placed.touched_more()) << data_type_name(type);
        }
      }
    }
  }
}

TEST(ReductionKernels, GiveTheProcessorsBitsOfAllPairsOf8BitFloats) {
  std::mt19937_64 random(test_seed());
  for (const DataType type : {DataType::kFloat8E4m3, DataType::kFloat8E5m2}) {
    test::ReductionCase all(type, 0, random);
    all.left.clear();
    all.right.clear();
    for (unsigned pair = 0; pair < 0x10000; ++pair) {
      all.left.push_back(static_cast<std::byte>(pair >> 8));
      all.right.push_back(static_cast<std::byte>(pair));
    }
    all.count = all.left.size();
    for (const Operation operation : test::kAllOperations) {
      Placed placed(all, 0, 0, 0);
      placed.run(operation, 64);
      EXPECT_EQ(all.first_wrong(operation, placed.result()), all.count)
          << data_type_name(type) << ", operation " << static_cast<int>(operation);
    }
  }
}

TEST(ReductionKernels, TakeAnyNumberOfElements) {
  std::mt19937_64 random(test_seed());
  for (const DataType type : test::kAllTypes) {
    test::ReductionCase one(type, 0, random);
    for (std::size_t count = 0; count < 40; ++count) {
      one.count = count;
      one.left.resize(count * size_of(type));
      one.right.resize(count * size_of(type));
      Placed placed(one, 0, 0, count % 3 == 0 ? size_of(type) : 0);
      placed.run(Operation::kSum, 7);
      EXPECT_EQ(one.first_wrong(Operation::kSum, placed.result()), count) << data_type_name(type);
      EXPECT_FALSE(placed.touched_more()) << count << " of " << data_type_name(type);
    }
  }
}

}  // namespace
}  // namespace tombolo::collectives
