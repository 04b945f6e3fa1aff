#include "collectives/schedule/algorithms/two_level/cluster_exchange.h"

#include <algorithm>
#include <numeric>
#include <optional>

namespace tombolo::collectives {

ClusterExchange::ClusterExchange(ScheduleBuilder& builder, const Problem& problem, Compression compression,
                                 const RankMap& ranks, const Extent& extent)
    : builder_(builder),
      problem_(problem),
      compression_(compression),
      weights_(ranks.cluster_weights),
      cluster_(static_cast<std::size_t>(ranks.cluster)),
      clusters_(ranks.clusters.size()),
      most_cuts_(extent.most_cuts),
      one_way_(clusters_ <= 2 || extent.one_way),
      slots_(builder, clusters_ > 1 ? encoded({0, longest_message(extent.longest_cut)}) : 0,
             (extent.turns + 3) * slots_of_a_turn()) {}

bool ClusterExchange::is_quicker_one_way(const RankMap& ranks, const Problem& problem,
                                         Compression compression, const Tuning& tuning) {
  const std::uint64_t clusters = ranks.clusters.size();
  if (clusters <= 2) return true;
  // In two steps a cluster's link carries S (1 + (k - 2) w), where it combines the share w for the others,
  // and in one way S (k - 1): so the one that combines least has the most to add.
  const std::vector<std::uint32_t>& weights = ranks.cluster_weights;
  const std::uint64_t all =
      weights.empty() ? clusters : std::accumulate(weights.begin(), weights.end(), 0ULL);
  const std::uint64_t least = weights.empty() ? 1 : std::ranges::min(weights);
  const std::uint64_t bytes =
      compression == Compression::kNone ? problem.bytes() : encoded_bytes(compression, problem.count);
  return bytes / all * (clusters - 2) * (all - least) < tuning.latency_bytes;
}

/// How many places one step of every exchange under way takes. What is encoded leaves in the step after it
/// has come, so that those of all turns on their way must be there, lest ranks wait for each other; three
/// more keep the link busy.
std::size_t ClusterExchange::slots_of_a_turn() const noexcept {
  const std::size_t others = clusters_ - 1;
  if (one_way_) return most_cuts_ * (compressed() ? clusters_ : others);
  // Encoded, sums are in memory as they go and as they come, and once more when they are complete.
  return most_cuts_ * (compressed() ? 3 * others + 1 : others);
}

/// Elements. Parts of shorter cuts may be longer by one.
std::size_t ClusterExchange::longest_message(std::size_t longest_cut) const noexcept {
  if (one_way_) return longest_cut;
  const Cut cut{{0, longest_cut}, {}, {}};
  std::size_t longest = 0;
  for (std::size_t cluster = 0; cluster < clusters_; ++cluster)
    longest = std::max(longest, shard(cut, cluster).count());
  return std::min(longest + 1, longest_cut);
}

Interval ClusterExchange::shard(const Cut& cut, std::size_t cluster) const noexcept {
  if (weights_.empty()) return part_of(cut.elements, cluster, clusters_);
  return weighted_part_of(cut.elements, cluster, weights_);
}

void ClusterExchange::take_step(Cut& cut, std::size_t index) {
  if (clusters_ == 1) {
    builder_.copy(output(cut.elements.begin), source_at(cut, cut.elements.begin), bytes(cut.elements));
    if (problem_.average) builder_.divide(output(cut.elements.begin), bytes(cut.elements));
  } else if (one_way_) {
    sum_all(cut);
  } else if (index == 0) {
    reduce(cut);
  } else {
    gather(cut);
  }
}

/// Encodes elements that begin the interval, with their residual where there is one.
void ClusterExchange::encode(Piece target, Piece from, Interval elements) {
  builder_.encode(target, from, bytes(elements),
                  problem_.residual ? std::optional(elements.begin) : std::nullopt);
}

/// All combine in the order of the clusters, so that they get the same bits. Encoded, each takes its own sums
/// as the others get them.
void ClusterExchange::sum_all(const Cut& cut) {
  const Interval all = cut.elements;
  const Piece sum = output(all.begin);
  std::vector<Piece> terms(clusters_, source_at(cut, all.begin));
  if (compressed()) {
    terms[cluster_] = slots_.next();
    encode(terms[cluster_], source_at(cut, all.begin), all);
  }
  for (std::size_t distance = 1; distance < clusters_; ++distance)
    builder_.send(cut.owners[after(distance)], terms[cluster_], encoded(all));
  for (std::size_t distance = clusters_ - 1; distance >= 1; --distance) {
    const std::size_t from = after(distance);
    terms[from] = slots_.next();
    builder_.receive(cut.owners[from], terms[from], encoded(all));
  }
  if (compressed()) {
    builder_.decode(sum, terms[0], bytes(all));
    for (std::size_t i = 1; i < clusters_; ++i) builder_.decode_add(sum, terms[i], sum, bytes(all));
  } else {
    Piece partial = terms[0];
    for (std::size_t i = 1; i < clusters_; ++i) {
      // The own term may be where the sum will be.
      const Piece target = i < cluster_ ? terms[i] : sum;
      builder_.combine(target, partial, terms[i], bytes(all));
      partial = target;
    }
  }
  if (problem_.average) builder_.divide(sum, bytes(all));
}

/// Gives every other cluster what it is to sum up, and sums up the own part, in a fixed order.
void ClusterExchange::reduce(const Cut& cut) {
  const Interval in = shard(cut, cluster_);
  for (std::size_t distance = 1; distance < clusters_; ++distance) {
    const std::size_t to = after(distance);
    const Interval out = shard(cut, to);
    if (out.count() == 0) continue;
    if (compressed()) {
      const Piece going = slots_.next();
      encode(going, source_at(cut, out.begin), out);
      builder_.send(cut.owners[to], going, encoded(out));
    } else {
      builder_.send(cut.owners[to], source_at(cut, out.begin), bytes(out));
    }
  }
  if (in.count() == 0) return;
  Piece sum = source_at(cut, in.begin);
  for (std::size_t distance = clusters_ - 1; distance >= 1; --distance) {
    const Piece coming = slots_.next();
    builder_.receive(cut.owners[after(distance)], coming, encoded(in));
    if (compressed())
      builder_.decode_add(output(in.begin), coming, sum, bytes(in));
    else
      builder_.combine(output(in.begin), sum, coming, bytes(in));
    sum = output(in.begin);
  }
  if (problem_.average) builder_.divide(output(in.begin), bytes(in));
}

/// Gives what is complete to every other cluster. Encoded, all take the form that goes around, its owner too.
void ClusterExchange::gather(const Cut& cut) {
  const Interval out = shard(cut, cluster_);
  if (out.count() > 0) {
    Piece going = output(out.begin);
    if (compressed()) {
      going = slots_.next();
      encode(going, output(out.begin), out);
      builder_.decode(output(out.begin), going, bytes(out));
    }
    for (std::size_t distance = 1; distance < clusters_; ++distance)
      builder_.send(cut.owners[after(distance)], going, encoded(out));
  }
  for (std::size_t distance = clusters_ - 1; distance >= 1; --distance) {
    const std::size_t from = after(distance);
    const Interval in = shard(cut, from);
    if (in.count() == 0) continue;
    const Piece coming = compressed() ? slots_.next() : output(in.begin);
    builder_.receive(cut.owners[from], coming, encoded(in));
    if (compressed()) builder_.decode(output(in.begin), coming, bytes(in));
  }
}

}  // namespace tombolo::collectives
