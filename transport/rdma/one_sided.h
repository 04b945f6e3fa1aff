// Reads and writes of the other end's memory by the NICs of a connection. They are divided among its payload
// queue pairs as large messages are.
//
// A NIC acknowledges a write once it has the bytes, which may still be under way to memory behind it. What
// the same NIC delivers later arrives behind them, but what another delivers need not. So where a connection
// has several pairs of NICs, a read of each part's last byte follows the part: it is answered from memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "transport/observe/meters.h"
#include "transport/one_sided.h"
#include "transport/rdma/agreed.h"
#include "transport/rdma/shares.h"

namespace tombolo::transport::rdma {

/// Part of a connection, and used by its thread.
class OneSidedWork final : public OneSided {
 public:
  static constexpr std::size_t kMost = 64;  ///< operations under way

  /// What of the connection it uses.
  struct Of {
    Agreed& agreed;
    Shares& shares;
    const std::vector<StreamMeter*>& streams;  ///< by queue pair
    const std::uint64_t& longest;              ///< bytes of one work request
    const Clock& clock;
    const std::optional<Error>& error;
  };
  explicit OneSidedWork(const Of& of) noexcept;

  std::unique_ptr<OpenWindow> open(std::span<std::byte> memory) override;
  Begun begin(OneSidedOperation& operation) noexcept override;

  /// Gives the NICs what they have room for. True if anything moved.
  bool advance();
  /// A work request of the operation at that place is done, and has freed its entry of the send queue.
  void piece_done(std::uint32_t place) noexcept;
  /// No queue pair is left: what is not done is lost, and nothing is begun any more.
  void end() noexcept;
  bool idle() const noexcept { return free_count_ == kMost; }
  /// Why a NIC takes nothing; empty while all goes well.
  const std::string& problem() const noexcept { return problem_; }
  /// The pair of NICs whose it is.
  std::size_t problem_at() const noexcept { return problem_at_; }

 private:
  struct UnderWay {
    OneSidedOperation* operation = nullptr;
    std::uint32_t pieces = 0;  ///< work requests
    bool given = false;        ///< all of it to the NICs
  };
  bool give(std::uint32_t place);
  bool post(std::uint32_t place, std::size_t pair, ibv_wr_opcode opcode, const ibv_sge& here,
            std::uint64_t there);
  void finish(std::uint32_t place, OneSidedOperation::State state) noexcept;

  Of of_;
  bool allowed_ = false, ended_ = false;
  std::array<UnderWay, kMost> places_;
  std::array<std::uint32_t, kMost> free_{};
  std::size_t free_count_ = kMost;
  std::array<std::uint32_t, kMost> waiting_{};  // places to be given to the NICs, in order: a ring
  std::uint64_t first_ = 0, last_ = 0;          // of it
  // The first of them:
  PartList parts_{};
  std::span<const Part> divided_;
  std::size_t next_part_ = 0, part_offset_ = 0;
  std::uint64_t part_begin_ = 0;
  std::string problem_;
  std::size_t problem_at_ = 0;
};

}  // namespace tombolo::transport::rdma
