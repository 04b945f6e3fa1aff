// Operations that were started and are redeemed exactly once, by the Work that stands for each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/error.h"
#include "collectives/engine/work.h"

namespace tombolo::collectives {

/// One thread at a time. References are valid until the next add().
template <typename Operation>
class WorkTable {
 public:
  explicit WorkTable(WorkKind kind) : kind_(kind) {}

  Work add(Operation operation) {
    std::uint32_t index = 0;
    if (free_.empty()) {
      index = static_cast<std::uint32_t>(slots_.size());
      slots_.emplace_back();
    } else {
      index = free_.back();
      free_.pop_back();
    }
    Slot& slot = slots_[index];
    slot.used = true;
    slot.operation = std::move(operation);
    ++open_;
    return {kind_, index, slot.generation};
  }
  /// Throws kInvalidUsage for a Work that was redeemed before, or never given out.
  const Operation& at(Work work) const {
    if (work.kind != kind_ || work.index >= slots_.size() || !slots_[work.index].used ||
        slots_[work.index].generation != work.generation) {
      fail(Cause::kInvalidUsage, "a Work that was redeemed before, or is of another communicator");
    }
    return slots_[work.index].operation;
  }
  Operation& at(Work work) { return const_cast<Operation&>(std::as_const(*this).at(work)); }
  /// The operation with that Work's index, which has not been redeemed.
  Operation& at_index(std::uint32_t index) { return slots_[index].operation; }
  const Operation& at_index(std::uint32_t index) const { return slots_[index].operation; }
  /// Throws as at() does.
  void redeem(Work work) {
    at(work) = Operation();
    slots_[work.index].used = false;
    ++slots_[work.index].generation;
    free_.push_back(work.index);
    --open_;
  }
  /// How many are not redeemed so far.
  std::size_t open() const noexcept { return open_; }
  template <typename Body>
  void for_each_open(const Body& body) {
    for (Slot& slot : slots_) {
      if (slot.used) body(slot.operation);
    }
  }

 private:
  struct Slot {
    Operation operation;
    std::uint32_t generation = 0;
    bool used = false;
  };

  WorkKind kind_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
  std::size_t open_ = 0;
};

}  // namespace tombolo::collectives
