// Registrations of memory that several connections share.
//
// Pinning is slow, and NCCL registers the same buffer with every connection. Only explicit registrations are
// kept here, and only while a connection holds them: an owner that registers memory keeps it mapped until it
// deregisters. Nothing outlives its last holder, so a buffer that was unmapped and mapped anew can never be
// reached by a stale registration. Buffers posted without registration are registered for that one operation,
// outside this cache.
#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <mutex>
#include <span>

struct ibv_mr;

namespace tombolo::transport::rdma {

class RegistrationCache {
 public:
  /// Both are called under this cache's lock. `add` throws where it cannot.
  using Add = std::function<ibv_mr*(std::span<std::byte>)>;
  using Remove = std::function<void(ibv_mr*)>;
  RegistrationCache(Add add, Remove remove) : add_(std::move(add)), remove_(std::move(remove)) {}

  /// Returns a registration that covers the range: one that is held already, or else a new one. The new one
  /// is of exactly this range, because the other end can reach all of it. From any thread.
  ibv_mr* acquire(std::span<std::byte> range);
  /// Gives back what acquire() returned for the range.
  void release(ibv_mr* registration);
  std::size_t size() const;

 private:
  struct Entry {
    std::span<std::byte> range;
    ibv_mr* registration = nullptr;
    std::size_t holders = 0;
  };
  Add add_;
  Remove remove_;
  mutable std::mutex lock_;
  std::list<Entry> entries_;
};

}  // namespace tombolo::transport::rdma
