// The kernels' launches, one for each operation. They check nothing: cuda_device.cpp does, where errors have
// words. All return at once; a refused launch is left for cudaGetLastError().
#pragma once

#include <cstddef>

#include "trainer/cuda/gpu/launcher.h"
#include "trainer/cuda/operations/operation.h"

namespace tombolo::trainer::cuda::gpu {

/// The widest row of a layer norm.
inline constexpr std::size_t kNormWidest = 16384;
/// The largest head of our own attention.
inline constexpr std::size_t kLargestHead = 256;

void launch_operation(const Launcher& launcher, const Embed& embed);
void launch_operation(const Launcher& launcher, const EmbedBackward& embed);
void launch_operation(const Launcher& launcher, const Norm& norm);
void launch_operation(const Launcher& launcher, const NormBackward& norm);
void launch_operation(const Launcher& launcher, const Add& add);
void launch_operation(const Launcher& launcher, const CrossEntropy& cross_entropy);
void launch_operation(const Launcher& launcher, const Sum& sum);
void launch_operation(const Launcher& launcher, const AdamWUpdate& update);
void launch_operation(const Launcher& launcher, const Convert& convert);

/// Our own attention: Tensor Cores for bf16 and heads of 64, 80, 96 or 128; one warp per token for all else.
void launch_operation(const Launcher& launcher, const Attention& attention);
void launch_operation(const Launcher& launcher, const AttentionBackward& attention);
/// Bytes of scratch that the latter takes.
std::size_t own_attention_scratch(const Attention& attention) noexcept;

/// Where the library has no product with this epilogue: what is left to do after the plain product, in place.
/// Of kSumOfA the sum alone, by `scratch` of sum_of_a_scratch() bytes.
void launch_epilogue(const Launcher& launcher, const Product& product, float* scratch);
std::size_t sum_of_a_scratch(const Product& product) noexcept;

}  // namespace tombolo::trainer::cuda::gpu
