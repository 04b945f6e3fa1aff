#include "planner/cost/expert_work.h"

#include <gtest/gtest.h>

#include "planner/testing/testing.h"

namespace tombolo::planner {
namespace {

Job mixture_job() {
  Job job;
  job.model = testing::mixture_model(4);
  job.framework = Framework::kMegatron;
  return job;
}

TEST(ExpertProducts, AreThoseOfATokensExperts) {
  const Job job = mixture_job();
  // 3 rows of 32 tokens go to 2 experts of 2 matrices of 64 x 128 each; two ranks share these.
  const double flops = 3 * 32 * 2 * 2.0 * (2 * 64 * 128);
  const ExpertProducts products = expert_products(job, 3, 2, 1e9, 0);
  EXPECT_DOUBLE_EQ(products.forward, flops / 2 / 1e9);
  EXPECT_DOUBLE_EQ(products.input, products.forward);
  EXPECT_DOUBLE_EQ(products.weights, products.forward);
}

TEST(ExpertProducts, OfFewTokensTakeAsLongAsReadingTheirMatrices) {
  Job job = mixture_job();
  const double values = 4.0 * 2 * 64 * 128;
  const ExpertProducts all = expert_products(job, 1, 1, 1e15, 1e9);
  EXPECT_DOUBLE_EQ(all.forward, values * 4 / 1e9);
  EXPECT_DOUBLE_EQ(all.weights, values * 2 * 4 / 1e9) << "sums of gradients are read and written";
  // Of divided experts a rank reads its part, and multiplies as many tokens.
  job.expert_parallel = 4;
  EXPECT_DOUBLE_EQ(expert_products(job, 1, 1, 1e15, 1e9).forward, values / 4 * 4 / 1e9);
  EXPECT_DOUBLE_EQ(expert_products(job, 1, 1, 1e6, 1e9).forward, job.model.experts_forward_flops() / 1e6);
}

TEST(ExpertProducts, OfTheFullestRankAreMoreByTheImbalance) {
  Job job = mixture_job();
  job.model.expert_imbalance = 1.5;
  const double even = job.model.experts_forward_flops() / 1e6;
  EXPECT_DOUBLE_EQ(expert_products(job, 1, 1, 1e6, 0).forward, even)
      << "a rank with all experts has its tokens";
  const double sorted = routed_bytes(job, 2, 1);
  job.expert_parallel = 2;
  EXPECT_DOUBLE_EQ(expert_products(job, 1, 1, 1e6, 0).forward, 1.5 * even);
  EXPECT_DOUBLE_EQ(routed_bytes(job, 2, 1), sorted + 1.5 * 64 * 4 * 2 * 64 * 4);
  EXPECT_DOUBLE_EQ(job.token_inner(Mlp::kMixture), 1.5 * 2 * 128);
  EXPECT_DOUBLE_EQ(job.token_inner(Mlp::kDense), 256);
}

TEST(RoutedBytes, AreOfTheCopiesThereAndBackAndOfSorting) {
  Job job = mixture_job();
  const double width = 64 * 4, copies = 4 * 2 * width;
  EXPECT_DOUBLE_EQ(routed_bytes(job, 2, 1), 64 * (width + 16 * 4 + copies));
  job.expert_parallel = 2;  // two experts on each rank
  EXPECT_DOUBLE_EQ(routed_bytes(job, 2, 1), 64 * (width + 16 * 4 + 2 * copies));
  job.expert_parallel = 4;
  EXPECT_DOUBLE_EQ(routed_bytes(job, 2, 1), 64 * (width + 16 * 4 + copies)) << "nothing to sort";
  job.expert_parallel = 2;
  job.sequence_parallel = true;
  EXPECT_DOUBLE_EQ(routed_bytes(job, 2, 2), 32 * (width + 16 * 4 + copies) + 64 * copies);
}

}  // namespace
}  // namespace tombolo::planner
