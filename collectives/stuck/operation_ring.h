// The last collectives of a communicator, so that one that hangs can say how it came there. This folder owns
// what a rank keeps and says of itself for `tombolo stuck`.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/clock.h"
#include "collectives/data/data_type.h"
#include "collectives/schedule/collective.h"

namespace tombolo::collectives {

struct OperationRecord {
  std::uint64_t number = 0;  ///< of the communicator's collectives, from 1; 0: this place is empty
  Collective collective = Collective::kBarrier;
  DataType type = DataType::kInt8;
  ReduceOp op = ReduceOp::kSum;
  bool uneven = false;
  bool completed = false;
  std::int32_t root = 0;
  std::size_t count = 0;  ///< as Problem::count
  TimePoint started{};    ///< to some milliseconds
};

/// Each call writes one record, so it allocates nothing and reads no precise clock. One thread at a time.
class OperationRing {
 public:
  static constexpr std::size_t kKept = 64;

  /// The numbers come one by one: a record takes the place of the one that is kKept older.
  void start(const OperationRecord& record) noexcept { records_[record.number % kKept] = record; }
  void complete(std::uint64_t number) noexcept {
    OperationRecord& record = records_[number % kKept];
    if (record.number == number) record.completed = true;
  }
  /// Calls `body` with each record, the oldest first. `newest` is the last number that was started.
  template <typename Body>
  void for_each(std::uint64_t newest, const Body& body) const {
    for (std::uint64_t number = newest < kKept ? 1 : newest - kKept + 1; number <= newest; ++number) {
      const OperationRecord& record = records_[number % kKept];
      if (record.number == number) body(record);
    }
  }

 private:
  std::array<OperationRecord, kKept> records_{};
};

}  // namespace tombolo::collectives
