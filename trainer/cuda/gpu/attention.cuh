// Which of our attention kernels takes which shape.
#pragma once

#include "trainer/cuda/gpu/flash_backward.cuh"
#include "trainer/cuda/gpu/flash_forward.cuh"

namespace tombolo::trainer::cuda::gpu {

template <int kHead>
void launch_flash(const Launcher& launcher, const Attention& operation) {
  using Shape = FlashForward<kHead>;
  launch(launcher, flash_forward_kernel<kHead>, attention_grid(operation, Shape::kQueries), kFlashThreads,
         Shape::kSharedBytes, arguments_of<Bfloat16>(operation));
}
template <int kHead>
void launch_flash(const Launcher& launcher, const AttentionBackward& operation) {
  using Keys = FlashKeyGradient<kHead>;
  using Queries = FlashQueryGradient<kHead>;
  const auto arguments = arguments_of<Bfloat16>(operation);
  launch_delta<Bfloat16>(launcher, operation);
  launch(launcher, flash_key_gradient_kernel<kHead>, attention_grid(operation, Keys::kKeys), kFlashThreads,
         Keys::kSharedBytes, arguments);
  launch(launcher, flash_query_gradient_kernel<kHead>, attention_grid(operation, Queries::kQueries),
         kFlashThreads, Queries::kSharedBytes, arguments);
}

template <typename Operation>
void launch_own_attention(const Launcher& launcher, const Operation& operation, bool aligned) {
  if (operation.rows == 0 || operation.context == 0) return;
  if (operation.qkv.element == Element::kBfloat16 && aligned) {
    switch (operation.head_size) {
      case 64:
        return launch_flash<64>(launcher, operation);
      case 80:
        return launch_flash<80>(launcher, operation);
      case 96:
        return launch_flash<96>(launcher, operation);
      case 128:
        return launch_flash<128>(launcher, operation);
      default:
        break;
    }
  }
  launch_plain_attention(launcher, operation);
}

void launch_operation(const Launcher& launcher, const Attention& attention) {
  launch_own_attention(launcher, attention, aligned_for_words(attention.out.at, attention.qkv.at));
}
void launch_operation(const Launcher& launcher, const AttentionBackward& attention) {
  launch_own_attention(launcher, attention,
                       aligned_for_words(attention.qkv_gradient.at, attention.gradient.at, attention.out.at,
                                         attention.qkv.at));
}
std::size_t own_attention_scratch(const Attention& attention) noexcept {
  return attention.rows * attention.heads * attention.context * sizeof(float);
}

}  // namespace tombolo::trainer::cuda::gpu
