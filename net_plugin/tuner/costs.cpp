#include "net_plugin/tuner/costs.h"

#include <algorithm>
#include <utility>

namespace tombolo::net_plugin {
namespace {

/// What a protocol adds. The bytes follow from its format: LL sends four bytes of data with four of flag,
/// LL128 120 with 8. The seconds of a step are round figures for what a GPU and NCCL's proxy spend on one, in
/// the order in which the protocols differ: LL polls flags in the data, Simple waits for a fence and the
/// proxy. They decide only where a link's own latency is as small as they are.
struct ProtocolCost {
  double bytes;            ///< on the wire for each byte of data
  double network_seconds;  ///< of a step between hosts
  double local_seconds;    ///< of a step within a host
};
constexpr std::array<ProtocolCost, 3> kProtocolCosts{{
    {2.0, 3e-6, 1e-6},
    {128.0 / 120.0, 4e-6, 1.5e-6},
    {1.0, 12e-6, 4e-6},
}};

constexpr std::size_t kChunkUnit = 64 * 1024;
constexpr double kStepsUnderWay = 8;  // NCCL_STEPS

// Of a channel: what it keeps under way at most (NCCL_BUFFSIZE's default; what is set on one rank must not
// enter), and a round figure for what its copies and its connection carry on any host.
constexpr double kChannelBuffer = 4.0 * 1024 * 1024, kChannelRate = 1e9;
constexpr int kLeastChannels = 2, kMostChannels = 32;  // with one, nothing goes on while a chunk waits

/// What so many NICs of a host attain together between clusters.
double rate_of(const Span& span, int nics) {
  const double rate = nics * span.between.bytes_per_second;
  return span.shared_bytes_per_second > 0 ? std::min(rate, span.shared_bytes_per_second) : rate;
}

int channels_for(double amount, double each) {
  const double whole = std::min(amount / each, static_cast<double>(kMostChannels));
  const int below = static_cast<int>(whole);
  return std::max(1, below < whole ? below + 1 : below);
}

FillingChannels channels_of(const Span& span) {
  FillingChannels made;
  made.nics = std::clamp(span.nics, 1, kMostChannels);
  const double rate = rate_of(span, made.nics);
  made.round_trip = channels_for(rate * 2 * span.between.latency_seconds, kChannelBuffer);
  made.rate = channels_for(rate, kChannelRate);
  const int most = std::max({made.round_trip, made.rate, made.nics, kLeastChannels});
  made.all = (most + made.nics - 1) / made.nics * made.nics;
  return made;
}

/// The parent of a node in NCCL's binary tree, -1 for the root. A node stands above all nodes whose numbers
/// differ from its own only below its lowest set bit; where that parent would be beyond the last node, the
/// next lower one is taken.
int parent_of(int node, int nodes) {
  if (node == 0) return -1;
  const int bit = node & -node;
  const int below = node - bit;
  const int up = below | (bit << 1);
  return up < nodes ? up : below;
}

/// NCCL's second tree is the first one mirrored where the number of nodes is even, and shifted by one where
/// it is odd, so that the leaves of one tree are inside the other.
int parent_in_second(int node, int nodes) {
  if (nodes % 2 == 0) {
    const int up = parent_of(nodes - 1 - node, nodes);
    return up < 0 ? -1 : nodes - 1 - up;
  }
  const int up = parent_of((node + nodes - 1) % nodes, nodes);
  return up < 0 ? -1 : (up + 1) % nodes;
}

std::vector<int> cluster_of_nodes(const std::vector<int>& nodes) {
  std::vector<int> clusters;
  for (std::size_t cluster = 0; cluster < nodes.size(); ++cluster)
    clusters.insert(clusters.end(), static_cast<std::size_t>(nodes[cluster]), static_cast<int>(cluster));
  return clusters;
}

/// Bytes that each hop of a ring carries, for one byte of the collective.
double ring_bytes(Collective collective, double ranks) {
  switch (collective) {
    case Collective::kAllReduce:
      return 2 * (ranks - 1) / ranks;
    case Collective::kAllGather:
    case Collective::kReduceScatter:
      return (ranks - 1) / ranks;
    case Collective::kBroadcast:
    case Collective::kReduce:
      break;
  }
  return 1;
}

/// Counts a tree's edges by what they cross.
class TreeCount {
 public:
  explicit TreeCount(const std::vector<int>& nodes)
      : cluster_(cluster_of_nodes(nodes)),
        clusters_(nodes.size()),
        far_(cluster_.size()),
        near_(cluster_.size()),
        pairs_(nodes.size() * nodes.size()) {}

  template <typename Parent>
  void add(Parent parent) {
    const int count = static_cast<int>(cluster_.size());
    for (int node = 0; node < count; ++node) {
      const int up = parent(node, count);
      if (up >= 0) add_edge(static_cast<std::size_t>(node), static_cast<std::size_t>(up));
      // The chain from this node to the root.
      int far = 0, near = 0;
      for (int at = node, next = up; next >= 0; at = next, next = parent(at, count))
        ++(crosses(static_cast<std::size_t>(at), static_cast<std::size_t>(next)) ? far : near);
      if (std::pair(far, near) > std::pair(longest_far_, longest_near_)) {
        longest_far_ = far;
        longest_near_ = near;
      }
    }
  }

  int busiest_far() const { return *std::ranges::max_element(far_); }
  int busiest_near() const { return *std::ranges::max_element(near_); }
  int busiest_pair() const { return *std::ranges::max_element(pairs_); }
  int longest_far() const { return longest_far_; }
  int longest_near() const { return longest_near_; }

 private:
  bool crosses(std::size_t one, std::size_t other) const { return cluster_[one] != cluster_[other]; }
  void add_edge(std::size_t one, std::size_t other) {
    if (!crosses(one, other)) {
      ++near_[one];
      ++near_[other];
      return;
    }
    ++far_[one];
    ++far_[other];
    // An edge carries as much up as down, so each direction between two clusters is as busy as the other.
    const auto [low, high] = std::minmax(cluster_[one], cluster_[other]);
    ++pairs_[static_cast<std::size_t>(low) * clusters_ + static_cast<std::size_t>(high)];
  }

  std::vector<int> cluster_;
  std::size_t clusters_;
  std::vector<int> far_, near_;  // edges by node
  std::vector<int> pairs_;       // edges by pair of clusters
  int longest_far_ = 0, longest_near_ = 0;
};

}  // namespace

std::vector<int> nodes_by_cluster(const std::vector<int>& hosts, int nodes) {
  std::int64_t all = 0;
  for (const int count : hosts) all += count;
  std::vector<int> parts;
  std::int64_t so_far = 0, before = 0;
  for (std::size_t cluster = 0; cluster < hosts.size(); ++cluster) {
    so_far += hosts[cluster];
    // rounded up, and between clusters so that nodes are left on both sides
    std::int64_t end = (nodes * so_far + all - 1) / all;
    if (cluster + 1 < hosts.size()) end = std::clamp<std::int64_t>(end, 1, nodes - 1);
    parts.push_back(static_cast<int>(end - before));
    before = end;
  }
  return parts;
}

PatternLoad ring_load(Collective collective, const std::vector<int>& nodes, std::size_t ranks) {
  int node_count = 0, clusters = 0;
  for (const int count : nodes) {
    node_count += count;
    clusters += count > 0 ? 1 : 0;
  }
  PatternLoad load;
  load.host_bytes = load.shared_bytes = load.inside_bytes =
      ring_bytes(collective, static_cast<double>(ranks));
  const int rounds = collective == Collective::kAllReduce ? 2 : 1;
  const int steps = rounds * (static_cast<int>(ranks) - 1);
  // The longest chain is that of a piece which meets all crossings in each round.
  load.far_steps = std::min(steps, rounds * clusters);
  load.near_steps = std::min(steps - load.far_steps, rounds * (node_count - clusters));
  load.local_steps = steps - load.far_steps - load.near_steps;
  return load;
}

PatternLoad tree_load(const std::vector<int>& nodes, std::size_t ranks) {
  TreeCount count(nodes);
  count.add(parent_of);
  count.add(parent_in_second);
  int node_count = 0;
  for (const int each : nodes) node_count += each;
  constexpr double kHalf = 0.5;  // of the collective, through each tree
  PatternLoad load;
  load.host_bytes = kHalf * count.busiest_far();
  load.shared_bytes = kHalf * count.busiest_pair();
  load.inside_bytes = kHalf * count.busiest_near();
  load.far_steps = 2 * count.longest_far();  // up and down
  load.near_steps = 2 * count.longest_near();
  const int per_node = static_cast<int>((ranks + static_cast<std::size_t>(node_count) - 1) /
                                        static_cast<std::size_t>(node_count));
  load.local_steps = 2 * (per_node - 1);
  return load;
}

CostModel::CostModel(const Span& span, std::size_t ranks, std::size_t nodes)
    : span_(span), channels_(channels_of(span)) {
  const std::vector<int> by_cluster = nodes_by_cluster(span.hosts, static_cast<int>(nodes));
  for (std::size_t i = 0; i < ring_.size(); ++i)
    ring_[i] = ring_load(static_cast<Collective>(i), by_cluster, ranks);
  tree_ = tree_load(by_cluster, ranks);
}

std::optional<double> CostModel::seconds(Collective collective, Pattern pattern, Protocol protocol,
                                         std::size_t bytes, int operations) const {
  if (pattern == Pattern::kTree && collective != Collective::kAllReduce) return std::nullopt;
  const PatternLoad& load = pattern == Pattern::kTree ? tree_ : ring_[static_cast<std::size_t>(collective)];
  const ProtocolCost& cost = kProtocolCosts[static_cast<std::size_t>(protocol)];

  double per_byte = load.host_bytes / span_.between.bytes_per_second;
  if (span_.shared_bytes_per_second > 0)
    per_byte = std::max(per_byte, load.shared_bytes / span_.shared_bytes_per_second);
  if (span_.inside.bytes_per_second > 0)
    per_byte = std::max(per_byte, load.inside_bytes / span_.inside.bytes_per_second);

  const double chain = load.far_steps * (span_.between.latency_seconds + cost.network_seconds) +
                       load.near_steps * (span_.inside.latency_seconds + cost.network_seconds) +
                       load.local_steps * cost.local_seconds;
  return static_cast<double>(std::max(operations, 1)) * chain +
         static_cast<double>(bytes) * cost.bytes * per_byte;
}

std::size_t CostModel::filling_chunk(int channels) const {
  // All channels together are bound by what one host attains between clusters.
  const double under_way = rate_of(span_, 1) * 2 * span_.between.latency_seconds;
  const double units = under_way / (std::max(channels, 1) * kStepsUnderWay * kChunkUnit);
  constexpr double kMostUnits = 1 << 14;  // 1 GiB: beyond any buffer of NCCL's
  return (static_cast<std::size_t>(std::min(units, kMostUnits)) + 1) * kChunkUnit;
}

}  // namespace tombolo::net_plugin
