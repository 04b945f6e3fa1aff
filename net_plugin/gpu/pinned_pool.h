// Host memory through which GPU memory is staged: pieces of one size, page-locked so that a copy engine
// reaches them.
//
// Page-locking takes long and may wait for kernels that run, so it is done in set-up alone. Every connection
// owns a few pieces, with which it makes progress whatever the others do: if all came from a common store,
// connections that wait could hold those for which the others wait, on two hosts in a circle. What is left
// widens the pipeline of whoever is busy.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "transport/gpu/copier.h"
#include "transport/kernel.h"

namespace tombolo::net_plugin::gpu {

using namespace transport::gpu;

/// 17 * 8 KiB: a message of a power of two then ends in a short piece, which is how its end is recognised,
/// without an empty one behind it.
inline constexpr std::size_t kPieceBytes = std::size_t{17} * 8192;

struct Piece {
  std::byte* data = nullptr;
  Copy copy;
  const void* owner = nullptr;  ///< who reserved it; null: anybody's
  Piece* next = nullptr;        ///< in a list of free ones
};

/// A list of free pieces.
class FreePieces {
 public:
  void put(Piece* piece) noexcept {
    piece->next = first_;
    first_ = piece;
  }
  /// Null where it is empty.
  Piece* take() noexcept {
    Piece* piece = first_;
    if (piece != nullptr) first_ = piece->next;
    return piece;
  }
  bool empty() const noexcept { return first_ == nullptr; }

 private:
  Piece* first_ = nullptr;
};

/// Threads: any.
class PinnedPool {
 public:
  /// `bytes`: how much memory to hold in all; more only where the owners' own pieces need it.
  explicit PinnedPool(std::size_t bytes) : most_(bytes / kPieceBytes) {}
  /// Every piece must be back, except those that were given up.
  ~PinnedPool();
  PinnedPool(const PinnedPool&) = delete;
  PinnedPool& operator=(const PinnedPool&) = delete;

  /// Set-up: `count` pieces of the owner's own, until it puts them back. Memory is locked through that GPU's
  /// context; null: plain memory, for a process without a GPU. Throws kSystem.
  void reserve(const std::shared_ptr<const Gpu>& gpu, std::size_t count, const void* owner, FreePieces& to);
  /// A reserved piece, back for good. A forked child leaves it where it is: a thread that is not there may
  /// hold the lock.
  void unreserve(Piece* piece) noexcept;

  /// A shared piece; null where all are in use.
  Piece* take() noexcept;
  void put(Piece* piece) noexcept;

  /// Leaves a piece to a copy that does not end: its memory is never freed.
  void give_up(Piece* piece) noexcept;

  std::size_t pieces() const;
  std::size_t reserved() const;

 private:
  static constexpr std::size_t kSlabPieces = (std::size_t{16} << 20) / kPieceBytes;
  struct Slab {
    std::shared_ptr<const Gpu> gpu;
    void* memory = nullptr;
    std::unique_ptr<Piece[]> pieces;
  };

  void grow(const std::shared_ptr<const Gpu>& gpu, std::size_t pieces);

  const std::size_t most_;
  const unsigned generation_ = transport::fork_generation();
  mutable std::mutex lock_;  // protects all below
  std::vector<Slab> slabs_;
  FreePieces free_;
  std::size_t pieces_ = 0, reserved_ = 0, free_count_ = 0;
  bool given_up_ = false;
};

}  // namespace tombolo::net_plugin::gpu
