#include "collectives/schedule/algorithms/two_level/cluster_exchange.h"

#include <optional>

namespace tombolo::collectives {

ClusterExchange::ClusterExchange(ScheduleBuilder& builder, const Problem& problem, Compression compression,
                                 int cluster, std::size_t clusters, std::size_t most_cuts,
                                 std::size_t longest_cut, std::size_t turns)
    : builder_(builder),
      problem_(problem),
      compression_(compression),
      cluster_(static_cast<std::size_t>(cluster)),
      clusters_(clusters),
      most_cuts_(most_cuts),
      slots_(builder, clusters > 1 ? encoded({0, longest_cut}) : 0, (turns + 3) * slots_of_a_turn()) {}

/// How many places one step of every exchange under way takes. What is encoded leaves in the step after it
/// has come, so that those of all turns on their way must be there, lest ranks wait for each other; three
/// more keep the link busy.
std::size_t ClusterExchange::slots_of_a_turn() const noexcept {
  if (clusters_ <= 2) return most_cuts_ * (compressed() ? 2 : 1);
  const std::size_t steps = clusters_ - 1;
  // Encoded, sums are in memory as they go and as they come, and once more when they are complete.
  return most_cuts_ * (compressed() ? 3 * steps + 1 : steps);
}

void ClusterExchange::take_step(Cut& cut, std::size_t index) {
  if (clusters_ == 1) {
    builder_.copy(output(cut.elements.begin), source_at(cut, cut.elements.begin), bytes(cut.elements));
    if (problem_.average) builder_.divide(output(cut.elements.begin), bytes(cut.elements));
  } else if (clusters_ == 2) {
    swap(cut);
  } else if (index < clusters_ - 1) {
    reduce(cut, index);
  } else {
    gather(cut, index - (clusters_ - 1));
  }
}

/// Encodes elements that begin the interval, with their residual where there is one.
void ClusterExchange::encode(Piece target, Piece from, Interval elements) {
  builder_.encode(target, from, bytes(elements),
                  problem_.residual ? std::optional(elements.begin) : std::nullopt);
}

/// Both sides combine in the order of the clusters, so that both get the same bits. Encoded, each takes its
/// own sums as the other one gets them.
void ClusterExchange::swap(Cut& cut) {
  const Interval all = cut.elements;
  const int other = cut.owners[1 - cluster_];
  const Piece own = source_at(cut, all.begin), sum = output(all.begin);
  if (compressed()) {
    const Piece going = slots_.next(), coming = slots_.next();
    encode(going, own, all);
    builder_.send(other, going, encoded(all));
    builder_.receive(other, coming, encoded(all));
    builder_.decode(sum, cluster_ == 0 ? going : coming, bytes(all));
    builder_.decode_add(sum, cluster_ == 0 ? coming : going, sum, bytes(all));
  } else {
    const Piece arrived = slots_.next();
    builder_.send(other, own, bytes(all));
    builder_.receive(other, arrived, bytes(all));
    if (cluster_ == 0)
      builder_.combine(sum, own, arrived, bytes(all));
    else
      builder_.combine(sum, arrived, own, bytes(all));
  }
  if (problem_.average) builder_.divide(sum, bytes(all));
}

/// A step of the ring in which sums grow. Encoded, they are encoded anew at each hop; each owner encodes each
/// element once.
void ClusterExchange::reduce(Cut& cut, std::size_t step) {
  const int next = cut.owners[(cluster_ + 1) % clusters_];
  const int previous = cut.owners[(cluster_ + clusters_ - 1) % clusters_];
  const Interval out = shard(cut, cluster_ + clusters_ - step),
                 in = shard(cut, cluster_ + clusters_ - step - 1);
  const Piece from = step == 0 ? source_at(cut, out.begin) : output(out.begin);
  if (compressed()) {
    const Piece going = slots_.next(), coming = slots_.next();
    encode(going, from, out);
    builder_.send(next, going, encoded(out));
    builder_.receive(previous, coming, encoded(in));
    builder_.decode_add(output(in.begin), coming, source_at(cut, in.begin), bytes(in));
  } else {
    builder_.send(next, from, bytes(out));
    const Piece arrived = slots_.next();
    builder_.receive(previous, arrived, bytes(in));
    builder_.combine(output(in.begin), arrived, source_at(cut, in.begin), bytes(in));
  }
  if (problem_.average && step == clusters_ - 2) builder_.divide(output(in.begin), bytes(in));
}

/// A step of the ring in which complete sums go around. Encoded, all take the form that goes around, its
/// owner too.
void ClusterExchange::gather(Cut& cut, std::size_t step) {
  const int next = cut.owners[(cluster_ + 1) % clusters_];
  const int previous = cut.owners[(cluster_ + clusters_ - 1) % clusters_];
  const Interval out = shard(cut, cluster_ + clusters_ + 1 - step),
                 in = shard(cut, cluster_ + clusters_ - step);
  if (!compressed()) {
    builder_.send(next, output(out.begin), bytes(out));
    builder_.receive(previous, output(in.begin), bytes(in));
    return;
  }
  if (step == 0) {
    cut.going = slots_.next();
    encode(cut.going, output(out.begin), out);
    builder_.decode(output(out.begin), cut.going, bytes(out));
  }
  const Piece coming = slots_.next();
  builder_.send(next, cut.going, encoded(out));
  builder_.receive(previous, coming, encoded(in));
  builder_.decode(output(in.begin), coming, bytes(in));
  cut.going = coming;
}

}  // namespace tombolo::collectives
