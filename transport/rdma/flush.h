// Makes sure that what the NICs of a connection have written into GPU memory can be seen by the GPU.
//
// The completion of a receive says that its bytes have left the NIC. Those for a GPU may still be under way
// on the PCI bus behind it, while the completion, which goes to the host's memory, has arrived. A read by the
// same NIC from the same GPU's memory cannot overtake them: once it is answered, they are there. So every NIC
// of the connection reads a byte through a queue pair that is connected to itself.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "transport/rdma/memory.h"
#include "transport/rdma/nic_pair.h"
#include "transport/transport.h"

namespace tombolo::transport::rdma {

/// Used by one thread at a time.
class Flusher {
 public:
  static constexpr std::uint32_t kMost = 256;  ///< flushes under way

  /// `nic_pairs`: of the connection, which outlive this. Throws kSystem naming what a NIC refused.
  Flusher(std::span<const std::unique_ptr<NicPair>> nic_pairs, const RdmaOptions& options);
  ~Flusher();
  Flusher(const Flusher&) = delete;
  Flusher& operator=(const Flusher&) = delete;

  /// Begins to read the byte at that address with every NIC. Null where kMost are under way, or a NIC
  /// refuses: then problem() is set.
  Request* post(const std::byte* at, const RdmaMemory& memory);
  bool owns(const Request* request) const noexcept;
  /// Of a request that post() made; done or failed, it may be used again. `failed`: the connection has.
  Outcome test(Request* request, bool failed) noexcept;
  /// True if anything moved.
  bool poll();
  bool idle() const noexcept { return under_way_ == 0; }
  /// Why a NIC did not read; empty while all goes well.
  const std::string& problem() const noexcept { return problem_; }
  /// Of which NIC pair that is.
  std::size_t problem_at() const noexcept { return problem_at_; }
  /// Ends every access of the NICs.
  void stop() noexcept;

 private:
  struct Flush final : Request {
    std::uint32_t reads = 0;  ///< under way
    Flush* next_free = nullptr;
  };
  struct Loop {
    NicPair* nic_pair = nullptr;
    ibv_cq* queue = nullptr;
    ibv_mr* registration = nullptr;
    std::unique_ptr<QueuePair> pair;
  };
  void release() noexcept;
  void note_problem(const Loop& loop, const std::string& what);

  std::array<std::uint64_t, kMostNicPairs> words_{};  // that the reads end in
  std::vector<Loop> loops_;                           // by NIC pair
  std::vector<Flush> flushes_;
  Flush* free_ = nullptr;
  std::uint32_t under_way_ = 0;
  std::string problem_;
  std::size_t problem_at_ = 0;
};

}  // namespace tombolo::transport::rdma
