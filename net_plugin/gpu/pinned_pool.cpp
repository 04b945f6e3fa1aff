#include "net_plugin/gpu/pinned_pool.h"

#include <algorithm>
#include <cstdlib>

#include "base/error.h"

namespace tombolo::net_plugin::gpu {
namespace {

constexpr std::size_t kPage = 4096;
// Shared pieces for each reserved one, as far as the limit allows.
constexpr std::size_t kSharedForEach = 8;

}  // namespace

PinnedPool::~PinnedPool() {
  for (Slab& slab : slabs_) {
    if (given_up_) {
      // A copy may still end in its memory, and is then noted in its pieces.
      static auto* const for_good = new std::vector<Slab>;
      for_good->push_back(std::move(slab));
    } else if (slab.gpu == nullptr) {
      std::free(slab.memory);
    } else if (slab.gpu->usable()) {
      const Calls calls(*slab.gpu);
      slab.gpu->cuda().free_host(slab.memory);
    }
  }
}

void PinnedPool::reserve(const std::shared_ptr<const Gpu>& gpu, std::size_t count, const void* owner,
                         FreePieces& to) {
  const std::lock_guard guard(lock_);
  const std::size_t needed = reserved_ + count;
  const std::size_t wanted = std::max(needed, std::min(most_, needed * (1 + kSharedForEach)));
  // Shared pieces that are in use cannot be reserved.
  const std::size_t missing =
      std::max(wanted > pieces_ ? wanted - pieces_ : 0, count > free_count_ ? count - free_count_ : 0);
  if (missing > 0) {
    const std::size_t room = most_ > pieces_ ? most_ - pieces_ : 0;
    grow(gpu, std::max(missing, std::min(room, kSlabPieces)));
  }
  for (std::size_t i = 0; i < count; ++i) {
    Piece* piece = free_.take();
    piece->owner = owner;
    to.put(piece);
  }
  free_count_ -= count;
  reserved_ += count;
}

void PinnedPool::grow(const std::shared_ptr<const Gpu>& gpu, std::size_t pieces) {
  Slab slab{gpu, nullptr, std::make_unique<Piece[]>(pieces)};
  slabs_.reserve(slabs_.size() + 1);
  const std::size_t bytes = pieces * kPieceBytes;
  if (gpu == nullptr) {
    slab.memory = std::aligned_alloc(kPage, bytes);
    if (slab.memory == nullptr) fail(Cause::kSystem, "allocate {} bytes for staging", bytes);
  } else {
    const Calls calls(*gpu);
    const CudaResult result =
        gpu->cuda().allocate_host(&slab.memory, bytes, topology::kCudaHostAllocPortable);
    if (result != CudaResult::kSuccess) {
      fail(Cause::kSystem,
           "GPU {}: lock {} bytes of host memory for staging: {}; TOMBOLO_NET_GPU_BUFFERS bounds how much is "
           "taken",
           gpu->ordinal(), bytes, gpu->cuda().describe(result));
    }
  }
  for (std::size_t i = 0; i < pieces; ++i) {
    Piece& piece = slab.pieces[i];
    piece.data = static_cast<std::byte*>(slab.memory) + i * kPieceBytes;
    free_.put(&piece);
  }
  slabs_.push_back(std::move(slab));
  pieces_ += pieces;
  free_count_ += pieces;
}

void PinnedPool::unreserve(Piece* piece) noexcept {
  if (generation_ != transport::fork_generation()) return;
  const std::lock_guard guard(lock_);
  piece->owner = nullptr;
  free_.put(piece);
  ++free_count_;
  --reserved_;
}

Piece* PinnedPool::take() noexcept {
  const std::lock_guard guard(lock_);
  Piece* piece = free_.take();
  if (piece != nullptr) --free_count_;
  return piece;
}

void PinnedPool::put(Piece* piece) noexcept {
  const std::lock_guard guard(lock_);
  free_.put(piece);
  ++free_count_;
}

void PinnedPool::give_up(Piece* piece) noexcept {
  const std::lock_guard guard(lock_);
  if (piece->owner != nullptr) --reserved_;
  given_up_ = true;
}

std::size_t PinnedPool::pieces() const {
  const std::lock_guard guard(lock_);
  return pieces_;
}

std::size_t PinnedPool::reserved() const {
  const std::lock_guard guard(lock_);
  return reserved_;
}

}  // namespace tombolo::net_plugin::gpu
