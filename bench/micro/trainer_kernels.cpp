// The trainer's element-wise kernels, of each instruction set that this machine runs.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/micro/subjects.h"
#include "compute/instruction_set.h"
#include "trainer/cpu/kernels.h"
#include "trainer/model/optimizer.h"

namespace tombolo::bench::micro {
namespace {

using trainer::cpu::Kernels;

constexpr std::size_t kRows = 256, kWidth = 256, kCount = kRows * kWidth, kTokens = 256;

/// Arguments for every kernel. Several kernels work in place, so that an iteration's result is the next one's
/// input. The values are chosen such that this changes nothing, or leads nowhere near zero or infinity, where
/// processors may take longer.
struct Arguments {
  std::vector<float> x = std::vector<float>(kCount, 8.0F);  // where GELU's slope is 1
  std::vector<float> out = std::vector<float>(kCount, 0.5F);
  std::vector<float> gradient = std::vector<float>(kCount, 0.25F);
  std::vector<float> first_moment = std::vector<float>(kCount, 0.25F);
  std::vector<float> second_moment = std::vector<float>(kCount, 0.0625F);
  std::vector<float> even = std::vector<float>(kCount, 1.0F / kWidth);  // a row's probabilities
  std::vector<float> weight = std::vector<float>(kWidth, 1.0F), bias = std::vector<float>(kWidth, 0.5F);
  std::vector<float> weight_gradient = std::vector<float>(kWidth), bias_gradient = weight_gradient;
  std::vector<float> mean = std::vector<float>(kRows), inverse = std::vector<float>(kRows, 1.0F);
  std::vector<float> embedding = std::vector<float>(kTokens * kWidth, 0.5F), positions = embedding;
  std::vector<std::int32_t> tokens = std::vector<std::int32_t>(kRows);
  trainer::AdamWStep step = trainer::adamw_step({}, 100, 1.0);

  Arguments() {
    for (std::size_t row = 0; row < kRows; ++row) tokens[row] = static_cast<std::int32_t>(row * 37 % kTokens);
    for (std::size_t i = 0; i < kCount; ++i) x[i] += static_cast<float>(i % 7);
  }
};

struct KernelCall {
  const char* name;
  void (*call)(const Kernels& set, Arguments& with);
};

constexpr KernelCall kKernelCalls[] = {
    {"sum_rows",
     [](const Kernels& set, Arguments& with) {
       set.sum_rows(with.bias_gradient.data(), with.gradient.data(), kRows, kWidth);
     }},
    {"embed",
     [](const Kernels& set, Arguments& with) {
       set.embed(with.out.data(), with.tokens.data(), with.embedding.data(), with.positions.data(), kRows,
                 kTokens, kWidth);
     }},
    {"embed_backward",
     [](const Kernels& set, Arguments& with) {
       set.embed_backward(with.embedding.data(), with.positions.data(), with.gradient.data(),
                          with.tokens.data(), kRows, kTokens, kWidth);
     }},
    {"norm",
     [](const Kernels& set, Arguments& with) {
       set.norm(with.out.data(), with.mean.data(), with.inverse.data(), with.x.data(), with.weight.data(),
                with.bias.data(), kRows, kWidth);
     }},
    {"norm_backward",
     [](const Kernels& set, Arguments& with) {
       set.norm_backward(with.out.data(), with.weight_gradient.data(), with.bias_gradient.data(),
                         with.gradient.data(), with.x.data(), with.mean.data(), with.inverse.data(),
                         with.weight.data(), kRows, kWidth);
     }},
    {"gelu", [](const Kernels& set, Arguments& with) { set.gelu(with.out.data(), with.x.data(), kCount); }},
    {"gelu_backward",
     [](const Kernels& set, Arguments& with) {
       set.gelu_backward(with.gradient.data(), with.x.data(), with.bias_gradient.data(), kRows, kWidth);
     }},
    {"causal_softmax",
     [](const Kernels& set, Arguments& with) {
       set.causal_softmax(with.out.data(), 0, kRows, kWidth, kWidth);
     }},
    // With even probabilities and this scale it subtracts a row's mean, so that further iterations change
    // nothing.
    {"softmax_backward",
     [](const Kernels& set, Arguments& with) {
       set.softmax_backward(with.x.data(), with.even.data(), kRows, kWidth, kWidth, kWidth, kWidth);
     }},
    {"cross_entropy",
     [](const Kernels& set, Arguments& with) {
       benchmark::DoNotOptimize(set.cross_entropy(with.out.data(), with.tokens.data(), kRows, kWidth, 1.0F));
     }},
    {"square_sum", [](const Kernels& set,
                      Arguments& with) { benchmark::DoNotOptimize(set.square_sum(with.x.data(), kCount)); }},
    {"adamw",
     [](const Kernels& set, Arguments& with) {
       set.adamw(with.out.data(), with.gradient.data(), with.first_moment.data(), with.second_moment.data(),
                 kCount, with.step, 1.0F);
     }},
};

void measure_kernel(benchmark::State& state, const Kernels& set, const KernelCall& kernel) {
  Arguments with;
  for (auto _ : state) {
    kernel.call(set, with);
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(kCount));  // matrix elements
}

}  // namespace

void register_trainer_kernels() {
  using compute::InstructionSet;
  for (const InstructionSet each :
       {InstructionSet::kAvx512, InstructionSet::kAvx2, InstructionSet::kBaseline}) {
    if (each > compute::instruction_set_of(compute::read_cpuid())) continue;
    const Kernels* set = &trainer::cpu::kernels(each);
    for (const KernelCall& kernel : kKernelCalls)
      benchmark::RegisterBenchmark(
          fmt::format("trainer_kernels/{}/{}", kernel.name, set->name).c_str(),
          [set, &kernel](benchmark::State& state) { measure_kernel(state, *set, kernel); });
  }
}

}  // namespace tombolo::bench::micro
