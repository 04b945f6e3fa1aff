// NCCL's tuner of one communicator: rewrites NCCL's table of costs where the communicator is known to span
// clusters, and leaves it untouched otherwise.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "base/log.h"
#include "net_plugin/abi/tuner_types.h"
#include "net_plugin/tuner/costs.h"
#include "net_plugin/tuner/knowledge.h"

namespace tombolo::net_plugin {

/// Where TOMBOLO_TUNER_LOG has the choices written.
using ChoiceSink = std::shared_ptr<const Log>;

/// NCCL's table: rows are algorithms, columns protocols, in one block.
struct CostTable {
  float* costs = nullptr;  ///< microseconds; NCCL_ALGO_PROTO_IGNORE = not available
  int algorithms = 0, protocols = 0;

  float& at(int algorithm, int protocol) const {
    return costs[static_cast<std::ptrdiff_t>(algorithm) * protocols + protocol];
  }
};

/// An algorithm and a protocol by NCCL's numbers; both "undefined" where nothing is chosen.
struct Choice {
  int algorithm = abi::NCCL_ALGO_UNDEF;
  int protocol = abi::NCCL_PROTO_UNDEF;

  friend bool operator==(const Choice&, const Choice&) = default;
};

/// Its answers depend on the constructor's first three arguments and on those of the call, on nothing else.
/// Any thread may use it.
class Tuner {
 public:
  /// `choices` may be null; what is written there changes nothing.
  Tuner(const Knowledge& knowledge, std::size_t ranks, std::size_t nodes, ChoiceSink choices);

  /// Gives ring and tree the model's costs and makes all other algorithms unavailable, since nothing here
  /// says how they would compare. An unavailable entry stays so. A table without an available ring or tree is
  /// left as it is, for instance where NCCL_ALGO asks for another algorithm: false then.
  bool tune(abi::ncclFunc_t function, std::size_t bytes, int operations, CostTable table) const;

  /// The number of channels for v3 and later: as many as fill the link between clusters, and no more than one
  /// for each 32 KiB of a small message; 0 leaves it to NCCL. Broadcast and all-gather are left to it: from
  /// 2.29 on NCCL asks for these also where it takes the answer unbounded by the channels that there are.
  int channels(abi::ncclFunc_t function, std::size_t bytes) const;

  /// For v2, which shows no table: the cheapest of what every communicator has. LL128 depends on the GPUs, so
  /// it is not among them.
  Choice choose(abi::ncclFunc_t function, std::size_t bytes, int operations) const;

  /// The chunk for v6: NCCL's own, or a larger one that keeps the link between clusters full.
  std::size_t chunk_size(int channels, std::size_t own) const;

  bool active() const noexcept { return model_ != nullptr; }

 private:
  void show_channels(int channels) const;
  void show_chunk(int channels, std::size_t own, std::size_t filling) const;
  void show(Collective collective, std::size_t bytes, int operations, const CostTable& table) const;

  std::size_t ranks_, nodes_;
  std::unique_ptr<const CostModel> model_;  // null: the communicator is left alone
  ChoiceSink choices_;
  mutable std::mutex shown_lock_;
  mutable std::set<std::tuple<Collective, int, int, int>> shown_;  // and class of size, algorithm, protocol
  mutable std::set<int> shown_channels_;
  mutable std::set<std::pair<int, int>> shown_chunks_;  // number of channels, class of NCCL's own size
};

/// What NCCL takes from such a table: the first of the smallest costs.
Choice cheapest(const CostTable& table);

}  // namespace tombolo::net_plugin
