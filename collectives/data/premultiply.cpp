#include "collectives/data/premultiply.h"

#include <algorithm>

namespace tombolo::collectives {
namespace {

/// What is multiplied at a time: little enough to stay in a core's first cache, with the factors beside it.
constexpr std::size_t kBlockBytes = 4096;
using Block = std::array<std::byte, kBlockBytes>;

/// The factor as a vector, so that the kernels which multiply two vectors serve.
class Factors {
 public:
  Factors(std::size_t count, DataType type, const Factor& factor) noexcept
      : type_(type), bytes_(size_of(type)) {
    const std::size_t wanted = std::min(count, kBlockBytes / bytes_) * bytes_;
    std::memcpy(block_.data(), factor.bytes.data(), bytes_);
    for (std::size_t filled = bytes_; filled < wanted; filled *= 2)
      std::memcpy(block_.data() + filled, block_.data(), std::min(filled, wanted - filled));
  }

  /// At most a block of elements.
  void multiply(std::byte* destination, const std::byte* contribution, std::size_t count) const noexcept {
    combine(destination, contribution, block_.data(), count, type_, ReduceOp::kProduct);
  }

 private:
  DataType type_;
  std::size_t bytes_;
  alignas(64) Block block_;
};

/// Calls `action` with the first byte and the number of elements of each block.
template <typename Action>
void for_each_block(std::size_t count, DataType type, const Action& action) noexcept {
  const std::size_t element = size_of(type), most = kBlockBytes / element;
  for (std::size_t done = 0; done < count; done += most) action(done * element, std::min(most, count - done));
}

}  // namespace

void premultiply(void* destination, const void* contribution, std::size_t count, DataType type,
                 const Factor& factor) noexcept {
  const Factors factors(count, type, factor);
  for_each_block(count, type, [&](std::size_t at, std::size_t elements) {
    factors.multiply(static_cast<std::byte*>(destination) + at,
                     static_cast<const std::byte*>(contribution) + at, elements);
  });
}

void premultiplied_sum(void* destination, const void* left, const void* right, Premultiplied which,
                       std::size_t count, DataType type, const Factor& factor) noexcept {
  if (which == Premultiplied::kNone) return combine(destination, left, right, count, type, ReduceOp::kSum);
  const Factors factors(count, type, factor);
  alignas(64) Block products;
  for_each_block(count, type, [&](std::size_t at, std::size_t elements) {
    const std::byte* from_left = static_cast<const std::byte*>(left) + at;
    const std::byte* from_right = static_cast<const std::byte*>(right) + at;
    auto& multiplied = which == Premultiplied::kLeft ? from_left : from_right;
    factors.multiply(products.data(), multiplied, elements);
    multiplied = products.data();
    combine(static_cast<std::byte*>(destination) + at, from_left, from_right, elements, type, ReduceOp::kSum);
  });
}

}  // namespace tombolo::collectives
