// The GPU's kernels, thread by thread on the CPU (testing/simt_emulation.h), against the reference. What an
// emulation cannot show is left to tests/gpu/cuda_kernels_check.cpp: the compiler, the hardware, and its
// speed.
#include <gtest/gtest.h>

#include "base/randomized_test.h"
#include "base/sanitizer.h"
#include "trainer/cuda/gpu/attention.cuh"
#include "trainer/cuda/gpu/cross_entropy.cuh"
#include "trainer/cuda/gpu/elementwise.cuh"
#include "trainer/cuda/gpu/embed.cuh"
#include "trainer/cuda/gpu/epilogue.cuh"
#include "trainer/cuda/gpu/norm.cuh"
#include "trainer/cuda/testing/operation_cases.h"

namespace tombolo::trainer::cuda {
namespace {

/// Few, so that pieces of one thread follow each other in small cases too.
constexpr gpu::Launcher kLauncher{nullptr, 1};

void emulate(const Operation& operation) {
  std::visit(
      []<typename One>(const One& one) {
        if constexpr (!std::is_same_v<One, Product>) gpu::launch_operation(kLauncher, one);
      },
      operation);
}

std::vector<std::byte> emulated(const testing::Case& c, bool reversed,
                                const std::function<void(const Operation&)>& run) {
  std::vector<std::byte> memory = c.memory;
  gpu::emulation::Machine::instance().reverse(reversed);
  run(c.at(memory.data()));
  return memory;
}

void check(const testing::Case& c, const std::function<void(const Operation&)>& run) {
  const std::vector<std::byte> expected = testing::reference_of(c), found = emulated(c, false, run);
  EXPECT_EQ(testing::difference(c, expected, found), "");
  // Under AddressSanitizer every case takes long, and the order changes no address.
  if (kAddressSanitizer) return;
  EXPECT_TRUE(emulated(c, true, run) == found) << c.name << ": the order of threads changes the bits";
}

class CudaKernels : public ::testing::Test {
 protected:
  void SetUp() override {
    if (kThreadSanitizer)
      GTEST_SKIP()
          << "the emulated threads are contexts of one thread, which ThreadSanitizer does not follow";
  }
};

TEST_F(CudaKernels, AgreeWithTheReferenceInEveryOrderOfThreads) {
  testing::for_operation_cases(testing::Size::kSmall, test_seed(), gpu::own_attention_scratch,
                               [](const testing::Case& c) { check(c, emulate); });
}

TEST_F(CudaKernels, FinishAProductWhoseEpilogueTheLibraryLacks) {
  const auto finish = [](const Operation& operation) {
    const auto& product = std::get<Product>(operation);
    Product plain = product;
    plain.epilogue = Epilogue::kNone;
    run_reference(plain);
    std::vector<float> scratch(gpu::sum_of_a_scratch(product) / sizeof(float));
    gpu::launch_epilogue(kLauncher, product, scratch.data());
  };
  testing::for_product_cases(test_seed(), [&](const testing::Case& c) {
    const auto product = std::get<Product>(c.at(nullptr));
    if (product.epilogue != Epilogue::kNone && product.m * product.n < 100000) check(c, finish);
  });
}

}  // namespace
}  // namespace tombolo::trainer::cuda
