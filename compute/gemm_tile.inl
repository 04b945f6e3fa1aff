// The micro-kernel's one source, in the manner of BLIS: a tile of the product stays in registers while the
// inner dimension passes by. Each gemm_<set>.cpp includes it under its own target pragma and namespace, after
// defining kLanes and kTileRows (and TOMBOLO_BFLOAT16_PAIRS, where each 32 bits of the operands are two
// bfloat16), and includes nothing else that defines inline functions: the linker might otherwise keep a copy
// that needs AVX-512 for the whole program.

namespace {

#define TOMBOLO_INLINE inline __attribute__((always_inline))

typedef float Vector __attribute__((vector_size(4 * kLanes)));
constexpr std::size_t kTileColumns = 2 * kLanes;

TOMBOLO_INLINE Vector load(const float* from) {
  Vector result;
  __builtin_memcpy(&result, from, sizeof result);
  return result;
}
TOMBOLO_INLINE void store(float* to, Vector value) {
  __builtin_memcpy(to, &value, sizeof value);
}

#if defined(TOMBOLO_BFLOAT16_PAIRS)
constexpr double kOperationsPerLane = 4;  // two products and two sums
TOMBOLO_INLINE Vector multiply_add(Vector sum, Vector left, Vector right) {
  return (Vector)_mm512_dpbf16_ps((__m512)sum, (__m512bh)left, (__m512bh)right);
}
/// One operation that waits for the one before.
TOMBOLO_INLINE Vector next(Vector last, Vector left, Vector right) {
  return multiply_add(last, left, right);
}
#else
constexpr double kOperationsPerLane = 2;
TOMBOLO_INLINE Vector multiply_add(Vector sum, Vector left, Vector right) {
  return sum + left * right;
}
/// One operation that waits for the one before. (Of sum + left * right the product would be made once for all
/// sums.)
TOMBOLO_INLINE Vector next(Vector last, Vector left, Vector right) {
  return last * left + right;
}
#endif

/// Two vectors of columns by kRows rows. `kTransposed`: the left operand's rows are side by side in memory.
template <std::size_t kRows, bool kTransposed>
void multiply_tile(const Tile& tile) {
  Vector sums[kRows][2] = {};
  const float* right = tile.right;
  const std::size_t right_stride = tile.right_stride;
  const std::size_t left_stride = tile.left_stride;
  // Every third row has a pointer of its own; the two after it are one and two strides away, as the machine
  // addresses.
  const float* left[(kRows + 2) / 3];
  for (std::size_t third = 0; third < (kRows + 2) / 3; ++third)
    left[third] = tile.left + (kTransposed ? 0 : 3 * third * left_stride);
  const auto step = [&](std::size_t at) __attribute__((always_inline)) {
    const Vector low = load(right), high = load(right + kLanes);
    right += right_stride;
#pragma GCC unroll 16
    for (std::size_t row = 0; row < kRows; ++row) {
      const float value = kTransposed ? left[0][row] : left[row / 3][row % 3 * left_stride + at];
      const Vector all = value - Vector{};  // x - 0 is x for every x: a broadcast, no subtraction
      sums[row][0] = multiply_add(sums[row][0], all, low);
      sums[row][1] = multiply_add(sums[row][1], all, high);
    }
    if (kTransposed) left[0] += left_stride;
  };
  // Prefetches the output tile while the sums are computed.
  for (std::size_t row = 0; row < kRows; ++row) {
    __builtin_prefetch(tile.out + row * tile.out_stride, 1);
    __builtin_prefetch(tile.out + row * tile.out_stride + kTileColumns - 1, 1);
  }
  std::size_t k = 0;
  for (; k + 4 <= tile.inner; k += 4) {
    step(0);
    step(1);
    step(2);
    step(3);
    if (!kTransposed)
      for (const float*& pointer : left) pointer += 4;
  }
  for (; k < tile.inner; ++k) {
    step(0);
    if (!kTransposed)
      for (const float*& pointer : left) ++pointer;
  }
  float* out = tile.out;
  Vector low_row{}, high_row{};
  if (tile.row != nullptr) {
    low_row = load(tile.row);
    high_row = load(tile.row + kLanes);
  }
#pragma GCC unroll 16
  for (std::size_t row = 0; row < kRows; ++row, out += tile.out_stride) {
    Vector low = sums[row][0] * tile.scale + low_row, high = sums[row][1] * tile.scale + high_row;
    if (tile.matrix != nullptr) {
      low += load(tile.matrix + row * tile.matrix_stride);
      high += load(tile.matrix + row * tile.matrix_stride + kLanes);
    }
    store(out, low);
    store(out + kLanes, high);
  }
}

template <bool kTransposed, std::size_t... kRows>
TOMBOLO_INLINE void dispatch(const Tile& tile, std::size_t rows, std::index_sequence<kRows...>) {
  using Function = void (*)(const Tile&);
  static constexpr Function kByRows[] = {multiply_tile<kRows + 1, kTransposed>...};
  kByRows[rows - 1](tile);
}

void multiply_tile_of(const Tile& tile, std::size_t rows, bool transposed) {
  constexpr auto kAll = std::make_index_sequence<kTileRows>();
  if (transposed)
    dispatch<true>(tile, rows, kAll);
  else
    dispatch<false>(tile, rows, kAll);
}

float registers_only(std::size_t rounds, double* operations) {
  // So many sums that none waits for its last multiplication: twice a latency of five cycles.
  constexpr std::size_t kSums = 10;
  Vector sums[kSums];  // all different, since the compiler would merge equal ones
  for (std::size_t index = 0; index < kSums; ++index) sums[index] = Vector{} + static_cast<float>(index);
  Vector left = Vector{} + 0.5F, right = Vector{} + 0.25F;
  for (std::size_t round = 0; round < rounds; ++round) {
    // Hides the values from the compiler, which would otherwise compute less.
    __asm__ volatile("" : "+x"(left), "+x"(right));
#pragma GCC unroll 16
    for (Vector& sum : sums) sum = next(sum, left, right);
  }
  Vector all{};
  for (const Vector& sum : sums) all += sum;
  *operations = kOperationsPerLane * static_cast<double>(kLanes * kSums) * static_cast<double>(rounds);
  return all[0];
}

constexpr GemmKernels kTable{kTileRows, kTileColumns, multiply_tile_of, registers_only};

#undef TOMBOLO_INLINE

}  // namespace
