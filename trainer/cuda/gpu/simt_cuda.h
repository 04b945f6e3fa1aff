// simt.h's words in CUDA. The instructions are those of compute capability 8.0, which later GPUs have too.
#pragma once

#include <cuda_runtime.h>

#include "trainer/cuda/gpu/launcher.h"

#define TOMBOLO_GPU __device__ __forceinline__
/// A kernel for blocks of at most so many threads.
#define TOMBOLO_KERNEL(threads) __global__ void __launch_bounds__(threads)
#define TOMBOLO_SHARED __shared__
#define TOMBOLO_UNROLL _Pragma("unroll")
#define TOMBOLO_ROLLED _Pragma("unroll 1")

namespace tombolo::trainer::cuda::gpu {

using Word4 = uint4;  ///< 128 bits: the widest load and store

// Every block is one-dimensional.
TOMBOLO_GPU unsigned thread_x() {
  return threadIdx.x;
}
TOMBOLO_GPU unsigned threads_x() {
  return blockDim.x;
}
TOMBOLO_GPU unsigned block_x() {
  return blockIdx.x;
}
TOMBOLO_GPU unsigned block_y() {
  return blockIdx.y;
}
TOMBOLO_GPU unsigned block_z() {
  return blockIdx.z;
}
TOMBOLO_GPU unsigned blocks_x() {
  return gridDim.x;
}

TOMBOLO_GPU void sync_block() {
  __syncthreads();
}
TOMBOLO_GPU void sync_warp() {
  __syncwarp();
}

/// The block's memory of the size that the launch gave; aligned to 16 bytes.
TOMBOLO_GPU std::byte* shared_memory() {
  extern __shared__ __align__(16) std::byte tombolo_shared_memory[];
  return tombolo_shared_memory;
}

// Between the lanes of a full warp.
template <typename Number>
TOMBOLO_GPU Number shuffle_xor(Number value, int mask) {
  return __shfl_xor_sync(0xFFFFFFFFU, value, mask);
}
template <typename Number>
TOMBOLO_GPU Number shuffle(Number value, int lane) {
  return __shfl_sync(0xFFFFFFFFU, value, lane);
}

TOMBOLO_GPU std::uint32_t bits_of(float value) {
  return __float_as_uint(value);
}
TOMBOLO_GPU float float_of(std::uint32_t bits) {
  return __uint_as_float(bits);
}
/// Two floats rounded to nearest even, the first in the lower half.
TOMBOLO_GPU std::uint32_t bfloat16_pair(float low, float high) {
  std::uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

/// The same number, of which the compiler does not know that it is the same each time: within a loop, what
/// follows from it is computed anew rather than kept in registers.
TOMBOLO_GPU int computed_anew(int value) {
  asm volatile("" : "+r"(value));
  return value;
}

/// 2^x within 2 units in the last place; 0 for minus infinity.
TOMBOLO_GPU float exp2_fast(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

/// Four 8 x 8 matrices of bf16 from shared memory: lane 8 i + r gives the address (16 bytes, aligned) of row
/// r of matrix i. In `to[i]` a lane gets row lane / 4, columns 2 (lane mod 4) and the next.
TOMBOLO_GPU void load_matrices(std::uint32_t (&to)[4], const void* row) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
}
/// The same, each matrix transposed.
TOMBOLO_GPU void load_matrices_transposed(std::uint32_t (&to)[4], const void* row) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
}
/// c (16 x 8, fp32) += a (16 x 16) b (16 x 8) in bf16; the lanes' shares are those of mma.m16n8k16 in the PTX
/// ISA.
TOMBOLO_GPU void multiply_add(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                              std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// 4 or 16 bytes from global to shared memory, both aligned to as many, past the registers; zeros where not
/// `there` (then `from` is not read, but must be an address of the same array).
template <int kBytes>
TOMBOLO_GPU void copy_async(void* to, const void* from, bool there) {
  static_assert(kBytes == 4 || kBytes == 16);
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(to));
  const auto source = __cvta_generic_to_global(from);
  const int size = there ? kBytes : 0;
  if constexpr (kBytes == 16)  // which alone can pass by the first cache
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(source), "r"(size)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(address), "l"(source), "r"(size)
                 : "memory");
}
/// Closes a group of this thread's copies.
TOMBOLO_GPU void commit_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
/// Waits for this thread's groups but the latest `kPending`; other threads see them after sync_block().
template <int kPending>
TOMBOLO_GPU void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

/// Launches and returns; a refusal is left for cudaGetLastError().
template <typename... Parameters, typename... Arguments>
void launch(const Launcher& launcher, void (*kernel)(Parameters...), Grid grid, unsigned threads,
            std::size_t shared_bytes, const Arguments&... arguments) {
  constexpr std::size_t kWithoutAsking = 48 << 10;
  if (shared_bytes > kWithoutAsking &&
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                           static_cast<int>(shared_bytes)) != cudaSuccess)
    return;
  kernel<<<dim3(grid.x, grid.y, grid.z), threads, shared_bytes, launcher.stream>>>(arguments...);
}

}  // namespace tombolo::trainer::cuda::gpu
