// The loops around the micro-kernel, after Goto and van de Geijn, "Anatomy of high-performance matrix
// multiplication" (2008): a packed panel of the right operand stays in the first-level cache while a block of
// the left one passes by in tiles.
#include "compute/gemm.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "compute/gemm_bfloat16.h"
#include "compute/gemm_kernels.h"
#include "compute/gemm_pack.h"
#include "compute/instruction_set.h"
#include "compute/workers.h"

namespace tombolo::compute {
namespace {

// Block sizes in floats, chosen by measurement at the trainer's shapes: half and twice of each were as fast
// or slower.
constexpr std::size_t kInnerBlock = 512;        // a panel of 512 x 32 is 64 KiB
constexpr std::size_t kLeftBlock = 128 * 1024;  // half of a second-level cache of 1 MiB
// Packing a panel pays from this many rows on. Copying the left block pays from this many panels on, if its
// rows are at least kStrideToCopy apart, because they then compete for the same sets of the first-level
// cache.
constexpr std::size_t kRowsToPack = 64, kPanelsToCopy = 8, kStrideToCopy = 512;
// This many multiplications take 10 to 20 us, about the time that another thread needs to wake up.
constexpr std::size_t kProductsPerThread = 1 << 20;

thread_local int threads_wanted = 1;

/// Memory for packed operands; each thread has its own.
struct Buffers {
  alignas(64) float panel[kInnerBlock * kMostTileColumns];
  alignas(64) float left[2 * kLeftBlock];
  alignas(64) float edge[kMostTileRows * kMostTileColumns];
};

Buffers& buffers() {
  static thread_local const auto kOwn = std::make_unique_for_overwrite<Buffers>();
  return *kOwn;
}

std::size_t divide_up(std::size_t all, std::size_t most) noexcept {
  return (all + most - 1) / most;
}

struct Product {
  float* out;
  std::size_t out_stride;
  Operand left, right;
  std::size_t rows, columns, inner;
  Epilogue epilogue;

  /// The elements [first, first + count) of one dimension.
  Product of_rows(std::size_t first, std::size_t count) const noexcept {
    Product part = *this;
    part.out += first * out_stride;
    part.left.data += first * (left.transposed ? 1 : left.stride);
    if (epilogue.matrix != nullptr) part.epilogue.matrix += first * epilogue.matrix_stride;
    part.rows = count;
    return part;
  }
  Product of_columns(std::size_t first, std::size_t count) const noexcept {
    Product part = *this;
    part.out += first;
    part.right.data += first * (right.transposed ? right.stride : 1);
    if (epilogue.matrix != nullptr) part.epilogue.matrix += first;
    if (epilogue.row != nullptr) part.epilogue.row += first;
    part.columns = count;
    return part;
  }
  Product of_inner(std::size_t first, std::size_t count) const noexcept {
    Product part = *this;
    part.left.data += first * (left.transposed ? left.stride : 1);
    part.right.data += first * (right.transposed ? 1 : right.stride);
    part.inner = count;
    if (first > 0)
      part.epilogue = {epilogue.scale, out, out_stride, nullptr};  // added to the sums of the slice before
    return part;
  }
};

/// Copies the left operand to where its rows lie next to each other.
void copy_left(Product& product, Buffers& own) noexcept {
  Operand& left = product.left;
  const std::size_t count = left.transposed ? product.inner : product.rows;
  const std::size_t length = left.transposed ? product.rows : product.inner;
  const std::size_t stride = divide_up(length, 16) * 16 +
                             16;  // not a power of two, so that rows do not compete for the same cache sets
  if (count * stride > std::size(own.left)) return;
  for (std::size_t row = 0; row < count; ++row)
    std::memcpy(own.left + row * stride, left.data + row * left.stride, length * sizeof(float));
  left.data = own.left;
  left.stride = stride;
}

/// Copies the result of a narrow panel from its tile, which is wider, to the output.
void write_edge(const Product& part, std::size_t rows, const float* tile, std::size_t stride) noexcept {
  const Epilogue& last = part.epilogue;
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < part.columns; ++j) {
      float sum = tile[i * stride + j];
      if (last.row != nullptr) sum += last.row[j];
      if (last.matrix != nullptr) sum += last.matrix[i * last.matrix_stride + j];
      part.out[i * part.out_stride + j] = sum;
    }
}

/// Multiplies into at most one tile's columns: the right operand is packed into a panel, and the rows of the
/// left one are multiplied by it tile by tile.
void multiply_panel(const GemmKernels& kernels, Product product, Buffers& own) noexcept {
  const bool narrow = product.columns < kernels.columns;
  Operand& right = product.right;
  if (right.transposed)
    pack_transposed_panel(own.panel, right.data, right.stride, product.inner, product.columns,
                          kernels.columns);
  else if (narrow || product.rows > kRowsToPack)
    pack_panel(own.panel, right.data, right.stride, product.inner, product.columns, kernels.columns);
  if (right.transposed || narrow || product.rows > kRowsToPack) right = {own.panel, kernels.columns};
  const std::size_t tiles = divide_up(product.rows, kernels.rows);
  for (std::size_t tile = 0, row = 0; tile < tiles; ++tile) {
    const std::size_t rows =
        (product.rows - row) / (tiles - tile);  // tiles of equal height, as far as possible
    const Product part = product.of_rows(row, rows);
    const Epilogue& last = part.epilogue;
    Tile to{part.out,   part.out_stride, part.left.data, part.left.stride,   right.data, right.stride,
            part.inner, last.scale,      last.matrix,    last.matrix_stride, last.row};
    if (narrow) {
      to.out = own.edge;
      to.out_stride = kernels.columns;
      to.matrix = to.row = nullptr;
    }
    kernels.tile(to, rows, part.left.transposed);
    if (narrow) write_edge(part, rows, own.edge, kernels.columns);
    row += rows;
  }
}

/// Computes the whole product on the calling thread.
void multiply_here(const GemmKernels& kernels, const Product& product) noexcept {
  Buffers& own = buffers();
  const std::size_t inner_blocks = std::max<std::size_t>(1, divide_up(product.inner, kInnerBlock));
  const std::size_t inner = divide_up(product.inner, inner_blocks);
  const std::size_t rows = std::max(4 * kernels.rows, kLeftBlock / std::max<std::size_t>(1, inner));
  for (std::size_t block = 0; block < inner_blocks; ++block) {
    const std::size_t deep = block * inner;
    const Product slice = product.of_inner(deep, std::min(inner, product.inner - deep));
    for (std::size_t row = 0; row < product.rows; row += rows) {
      Product band = slice.of_rows(row, std::min(rows, product.rows - row));
      if (band.columns >= kPanelsToCopy * kernels.columns && band.left.stride >= kStrideToCopy)
        copy_left(band, own);
      for (std::size_t column = 0; column < product.columns; column += kernels.columns)
        multiply_panel(kernels, band.of_columns(column, std::min(kernels.columns, product.columns - column)),
                       own);
    }
  }
}

/// Divides the larger of a product's two dimensions among threads, in whole tiles.
void multiply_shared(const GemmKernels& kernels, const Product& product, int threads) {
  static thread_local Workers workers;
  const bool by_rows = product.rows >= product.columns;
  const std::size_t tile = by_rows ? kernels.rows : kernels.columns;
  const std::size_t all = by_rows ? product.rows : product.columns;
  const std::size_t tiles = divide_up(all, tile);
  const auto begin = [&](int index) {
    return std::min(all, tiles * static_cast<std::size_t>(index) / static_cast<std::size_t>(threads) * tile);
  };
  const auto piece = [&](int index) {
    const std::size_t first = begin(index), count = begin(index + 1) - first;
    if (count > 0)
      multiply_here(kernels, by_rows ? product.of_rows(first, count) : product.of_columns(first, count));
  };
  workers.run(threads, std::ref(piece));  // a reference fits into a std::function without memory of its own
}

#if defined(__x86_64__)
/// The operand with two neighbours of its inner dimension in each float, written to `room`.
Operand paired(const Operand& from, std::size_t outer, std::size_t inner, bool inner_along_rows,
               std::vector<float>& room) {
  const std::size_t pairs = divide_up(inner, 2);
  const std::size_t length = inner_along_rows ? pairs : outer;
  const std::size_t stride = divide_up(length, 16) * 16 + 16;  // no power of two
  const std::size_t floats = (inner_along_rows ? outer : pairs) * stride;
  if (room.size() < floats) room.resize(floats);
  if (inner_along_rows)
    pair_along_rows(room.data(), stride, from.data, from.stride, outer, inner);
  else
    pair_rows(room.data(), stride, from.data, from.stride, inner, outer);
  return {room.data(), stride, from.transposed};
}
#endif

}  // namespace

void multiply_bfloat16(float* out, std::size_t out_stride, Operand left, Operand right, std::size_t rows,
                       std::size_t columns, std::size_t inner, const Epilogue& epilogue) noexcept {
#if defined(__x86_64__)
  static thread_local std::vector<float> left_room, right_room;
  multiply_by(kGemmBfloat16, out, out_stride, paired(left, rows, inner, !left.transposed, left_room),
              paired(right, columns, inner, right.transposed, right_room), rows, columns, divide_up(inner, 2),
              epilogue);
#else
  multiply(out, out_stride, left, right, rows, columns, inner, epilogue);
#endif
}

void multiply(float* out, std::size_t out_stride, Operand left, Operand right, std::size_t rows,
              std::size_t columns, std::size_t inner, const Epilogue& epilogue) noexcept {
  static const GemmKernels& kernels = gemm_kernels(instruction_set());
  multiply_by(kernels, out, out_stride, left, right, rows, columns, inner, epilogue);
}

void multiply_by(const GemmKernels& kernels, float* out, std::size_t out_stride, Operand left, Operand right,
                 std::size_t rows, std::size_t columns, std::size_t inner,
                 const Epilogue& epilogue) noexcept {
  const Product product{out, out_stride, left, right, rows, columns, inner, epilogue};
  const std::size_t worth = rows * columns * inner / kProductsPerThread;
  const int threads =
      static_cast<int>(std::min<std::size_t>(static_cast<std::size_t>(threads_wanted), worth));
  if (threads > 1)
    multiply_shared(kernels, product, threads);
  else
    multiply_here(kernels, product);
}

MultiplyThreads::MultiplyThreads(int threads) noexcept : before_(threads_wanted) {
  threads_wanted = std::max(1, threads);
}

MultiplyThreads::~MultiplyThreads() {
  threads_wanted = before_;
}

const GemmKernels& gemm_kernels(InstructionSet set) noexcept {
#if defined(__x86_64__)
  if (set == InstructionSet::kAvx512) return kGemmAvx512;
  if (set == InstructionSet::kAvx2) return kGemmAvx2;
#endif
  static_cast<void>(set);
  return kGemmBaseline;
}

}  // namespace tombolo::compute
