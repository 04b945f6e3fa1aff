// Calls of collectives on int64 that all ranks have planned alike, with even or uneven parts: each rank's
// buffers, and what they must hold in the end.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "collectives/engine/collective_call.h"

namespace tombolo::collectives::test {

/// One call that all ranks make: what it is, and where its buffers are.
struct Planned {
  Collective collective;
  std::size_t count;
  int root;
  bool waits;   ///< blocking
  bool uneven;  ///< where parts may differ: counts of their own for each pair of ranks
};

/// How many elements rank `from` has for rank `to` in an uneven call; of all but an all-to-all, whose part it
/// is (`to` == `from`).
inline std::size_t uneven_count(std::size_t most, int from, int to) {
  return most * static_cast<std::size_t>((from * 5 + to * 3) % 7) / 7;
}

inline std::int64_t planned_value(int call, int rank, std::size_t at) {
  return call * 1'000'003 + rank * 10'007 + static_cast<std::int64_t>(at);
}

inline bool has_planned_parts(Collective collective) {
  return collective == Collective::kReduceScatter || collective == Collective::kAllGather ||
         collective == Collective::kGather || collective == Collective::kScatter ||
         collective == Collective::kAllToAll;
}

/// The buffers of one call on one rank, and what they must hold in the end.
class PlannedCall {
 public:
  PlannedCall(const Planned& plan, int number, int rank, int ranks)
      : plan_(plan), number_(number), rank_(rank), ranks_(ranks) {
    plan_.uneven = plan_.uneven && has_planned_parts(plan_.collective);
    const bool to_all = plan_.collective == Collective::kAllToAll;
    in_parts_ = parts(to_all ? [](int self, int other) { return std::pair(self, other); }
                             : [](int, int other) { return std::pair(other, other); });
    out_parts_ = parts(to_all ? [](int self, int other) { return std::pair(other, self); }
                              : [](int, int other) { return std::pair(other, other); });
    const bool parts_in =
        plan.collective == Collective::kReduceScatter || plan.collective == Collective::kScatter || to_all;
    const bool parts_out =
        plan.collective == Collective::kAllGather || plan.collective == Collective::kGather || to_all;
    const auto own = static_cast<std::size_t>(rank);
    own_count_ = has_planned_parts(plan_.collective) ? out_parts_.counts[own] : plan_.count;
    in_.resize(parts_in ? extent(in_parts_) : own_count_);
    out_.assign(parts_out ? extent(out_parts_) : own_count_, -1);
    for (std::size_t i = 0; i < in_.size(); ++i) in_[i] = planned_value(number, rank, i);
  }

  CollectiveCall call() {
    CollectiveCall made{plan_.collective, in_.data(),     out_.data(), own_count_,
                        DataType::kInt64, ReduceOp::kSum, plan_.root};
    if (!plan_.uneven) return made;
    made.uneven = true;
    const bool rooted = plan_.collective == Collective::kGather || plan_.collective == Collective::kScatter;
    if (!rooted || rank_ == plan_.root) made.parts = std::make_shared<Parts>(out_parts_);
    if (plan_.collective == Collective::kAllToAll) {
      made.sent_parts = std::make_shared<Parts>(in_parts_);
      made.count = 0;
    }
    return made;
  }

  void check() const {
    ASSERT_EQ(out_, expected()) << collective_name(plan_.collective) << (plan_.uneven ? " (uneven) #" : " #")
                                << number_ << " on rank " << rank_;
  }

 private:
  using Ends = std::pair<int, int> (*)(int self, int other);
  /// Uneven parts have gaps between them.
  Parts parts(Ends ends, int of) const {
    std::vector<std::size_t> counts, offsets;
    std::size_t at = 0;
    for (int other = 0; other < ranks_; ++other) {
      const auto [from, to] = ends(of, other);
      counts.push_back(plan_.uneven ? uneven_count(plan_.count, from, to) : plan_.count);
      offsets.push_back(at);
      at += counts.back() + (plan_.uneven ? 3 : 0);
    }
    return {counts, offsets};
  }
  Parts parts(Ends ends) const { return parts(ends, rank_); }
  static std::size_t extent(const Parts& parts) { return parts.offsets.back() + parts.counts.back(); }
  std::int64_t sum(std::size_t at) const {
    std::int64_t all = 0;
    for (int rank = 0; rank < ranks_; ++rank) all += planned_value(number_, rank, at);
    return all;
  }

  std::vector<std::int64_t> expected() const {
    std::vector<std::int64_t> want(out_.size(), -1);
    const auto own = static_cast<std::size_t>(rank_);
    const bool is_root = rank_ == plan_.root;
    for (std::size_t i = 0; i < own_count_; ++i) {
      switch (plan_.collective) {
        case Collective::kAllReduce:
          want[i] = sum(i);
          break;
        case Collective::kReduceScatter:
          want[i] = sum(in_parts_.offsets[own] + i);
          break;
        case Collective::kBroadcast:
          want[i] = planned_value(number_, plan_.root, i);
          break;
        case Collective::kReduce:
          if (is_root) want[i] = sum(i);
          break;
        case Collective::kScatter:
          want[i] = planned_value(number_, plan_.root, in_parts_.offsets[own] + i);
          break;
        case Collective::kAllGather:
        case Collective::kGather:
        case Collective::kAllToAll:
        case Collective::kBarrier:
          break;
      }
    }
    const bool to_all = plan_.collective == Collective::kAllToAll;
    if (plan_.collective == Collective::kAllGather || to_all ||
        (plan_.collective == Collective::kGather && is_root)) {
      for (int from = 0; from < ranks_; ++from) {
        const auto part = static_cast<std::size_t>(from);
        // Where rank `from` has what it sends here.
        const Parts theirs = parts([](int self, int other) { return std::pair(self, other); }, from);
        for (std::size_t i = 0; i < out_parts_.counts[part]; ++i) {
          const std::size_t there = to_all ? theirs.offsets[own] + i : i;
          want[out_parts_.offsets[part] + i] = planned_value(number_, from, there);
        }
      }
    }
    return want;
  }

  Planned plan_;
  int number_, rank_, ranks_;
  Parts in_parts_, out_parts_;
  std::size_t own_count_ = 0;
  std::vector<std::int64_t> in_, out_;
};

}  // namespace tombolo::collectives::test
