// What ring and tree take for a collective that spans clusters: an alpha-beta model, seconds = latencies on
// the longest chain of messages + bytes over the busiest link / its rate.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "net_plugin/tuner/knowledge.h"

namespace tombolo::net_plugin {

enum class Collective : std::uint8_t { kBroadcast, kReduce, kAllGather, kReduceScatter, kAllReduce };
enum class Pattern : std::uint8_t { kTree, kRing };           ///< numbered as NCCL's algorithms
enum class Protocol : std::uint8_t { kLl, kLl128, kSimple };  ///< numbered as NCCL's protocols

inline constexpr std::array kPatterns{Pattern::kTree, Pattern::kRing};
inline constexpr std::array kProtocols{Protocol::kLl, Protocol::kLl128, Protocol::kSimple};

/// What a pattern makes of one byte of the collective, and which chain of messages is its longest.
struct PatternLoad {
  double host_bytes = 0;    ///< that the busiest host sends to, or receives from, other clusters
  double shared_bytes = 0;  ///< that all hosts of a cluster send to one other cluster
  double inside_bytes = 0;  ///< that the busiest host sends within its cluster
  int far_steps = 0;        ///< of the longest chain, between clusters
  int near_steps = 0;       ///< of the same chain, between hosts of a cluster
  int local_steps = 0;      ///< of the same chain, within hosts
};

/// How many nodes of each cluster take part: in proportion to its hosts, and one at least of the first and of
/// the last. The nodes of a cluster have consecutive numbers, as launchers number hosts.
std::vector<int> nodes_by_cluster(const std::vector<int>& hosts, int nodes);

/// A ring over all ranks in order of their nodes, as NCCL makes it: it crosses from each cluster to the next
/// once. `nodes` is by cluster.
PatternLoad ring_load(Collective collective, const std::vector<int>& nodes, std::size_t ranks);

/// NCCL's two binary trees over the nodes, each of which carries half of an all-reduce up and then down; a
/// chain of ranks within each node. The trees know nothing of clusters, so that one cuts the border between
/// two of them up to log2(nodes) times.
PatternLoad tree_load(const std::vector<int>& nodes, std::size_t ranks);

/// How many of NCCL's channels fill the link between clusters, and of what the number is made. More of them
/// bring nothing: each has its buffers, its connection and its share of NCCL's progress thread.
struct FillingChannels {
  int all = 0;         ///< the largest of the others, as many for each NIC
  int round_trip = 0;  ///< whose buffers hold what the link carries in a round trip
  int rate = 0;        ///< whose copies keep up with the link
  int nics = 0;        ///< one for each of a host's NICs, since NCCL gives a channel one
};

/// Immutable; any thread may use it.
class CostModel {
 public:
  CostModel(const Span& span, std::size_t ranks, std::size_t nodes);

  /// Seconds that `operations` such collectives of together `bytes` take in one launch; nothing where NCCL
  /// has no such algorithm: a tree reduces to all only.
  std::optional<double> seconds(Collective collective, Pattern pattern, Protocol protocol, std::size_t bytes,
                                int operations) const;

  /// How many channels fill the link between clusters.
  const FillingChannels& filling_channels() const noexcept { return channels_; }

  /// The smallest chunk, a multiple of 64 KiB, with which the eight that NCCL keeps under way on each channel
  /// fill the link between clusters for a round trip.
  std::size_t filling_chunk(int channels) const;

 private:
  Span span_;
  std::array<PatternLoad, 5> ring_;  // by collective
  PatternLoad tree_;
  FillingChannels channels_;
};

}  // namespace tombolo::net_plugin
