#include "collectives/schedule/algorithms/two_level/member_exchange.h"

#include <algorithm>
#include <ranges>

#include "collectives/schedule/algorithms/rounds.h"

namespace tombolo::collectives {
namespace {

/// The part of a group that a rank of a host sums up: the columns share theirs with the spare ranks that come
/// as many places later, or twice as many, and so on.
Interval summed_on_host(const ClusterGrid& grid, std::size_t row, Interval elements, std::size_t place) {
  const std::size_t columns = grid.columns(), column = place % columns;
  const std::size_t team = (grid.ranks_of(row) - column + columns - 1) / columns;
  return part_of(grid.group(elements, column), place / columns, team);
}

}  // namespace

MemberExchange::Around MemberExchange::around(Interval elements, std::size_t first, std::size_t count,
                                              std::size_t sharers) noexcept {
  const std::size_t end = std::min(first + count, sharers);
  Around all{{{first, end}, {0, first + count - end}}, {}};
  for (std::size_t i = 0; i < 2; ++i) {
    const Interval parts = all.parts[i];
    if (parts.count() == 0) continue;
    all.elements[i] = {part_of(elements, parts.begin, sharers).begin,
                       part_of(elements, parts.end - 1, sharers).end};
  }
  return all;
}

Piece MemberExchange::reduce(const Sharers& all, Interval elements, Piece source, ScratchRing& slots) {
  return all.ranks.size() <= kMostPairwise ? reduce_pairwise(all, elements, source, slots)
                                           : reduce_in_rounds(all, elements, source, slots);
}

void MemberExchange::gather(const Sharers& all, Interval elements) {
  if (all.ranks.size() <= kMostPairwise)
    gather_pairwise(all, elements);
  else
    gather_in_rounds(all, elements);
}

Piece MemberExchange::reduce_pairwise(const Sharers& all, Interval elements, Piece source,
                                      ScratchRing& slots) {
  const std::size_t n = all.ranks.size();
  const Interval own = part_of(elements, all.own, n);
  // Starting after this one, so that not all send to the same one first.
  for (std::size_t distance = 1; distance < n; ++distance) {
    const std::size_t to = all.after(distance);
    const Interval theirs = part_of(elements, to, n);
    builder_.send(all.ranks[to], at(source, theirs.begin), bytes(theirs));
  }
  for (std::size_t distance = n - 1; distance >= 1; --distance) {
    const Piece arrived = slots.next();
    builder_.receive(all.ranks[all.after(distance)], arrived, bytes(own));
    builder_.combine(output(own.begin), at(source, own.begin), arrived, bytes(own));
    source = {Buffer::kOutput, 0};
  }
  return source;
}

void MemberExchange::gather_pairwise(const Sharers& all, Interval elements) {
  const std::size_t n = all.ranks.size();
  const Interval own = part_of(elements, all.own, n);
  for (std::size_t distance = 1; distance < n; ++distance)
    builder_.send(all.ranks[all.after(distance)], output(own.begin), bytes(own));
  for (std::size_t distance = n - 1; distance >= 1; --distance) {
    const std::size_t from = all.after(distance);
    const Interval theirs = part_of(elements, from, n);
    builder_.receive(all.ranks[from], output(theirs.begin), bytes(theirs));
  }
}

void MemberExchange::send_parts(int peer, const Around& parts, Piece source) {
  for (const Interval interval : parts.elements)
    builder_.send(peer, at(source, interval.begin), bytes(interval));
}

Piece MemberExchange::reduce_in_rounds(const Sharers& all, Interval elements, Piece source,
                                       ScratchRing& slots) {
  const std::size_t n = all.ranks.size();
  for (const CircleRound round : circle_rounds(n)) {
    send_parts(all.ranks[all.after(round.skip)], around(elements, all.after(round.skip), round.blocks(), n),
               source);
    const int from = all.ranks[all.before(round.skip)];
    const Around coming = around(elements, all.own, round.blocks(), n);
    for (std::size_t i = 0; i < 2; ++i) {
      const Interval interval = coming.elements[i];
      const Piece arrived = slots.next(coming.parts[i].count());
      builder_.receive(from, arrived, bytes(interval));
      builder_.combine(output(interval.begin), at(source, interval.begin), arrived, bytes(interval));
    }
    // Of an odd number one part that stays got nothing; then all of them are in one place.
    for (const Interval interval :
         around(elements, all.after(round.blocks()), round.skip - round.blocks(), n).elements)
      builder_.copy(output(interval.begin), at(source, interval.begin), bytes(interval));
    source = {Buffer::kOutput, 0};
  }
  return source;
}

void MemberExchange::gather_in_rounds(const Sharers& all, Interval elements) {
  const std::size_t n = all.ranks.size();
  const std::vector<CircleRound> rounds = circle_rounds(n);
  for (auto round = rounds.rbegin(); round != rounds.rend(); ++round) {
    send_parts(all.ranks[all.before(round->skip)], around(elements, all.own, round->blocks(), n),
               {Buffer::kOutput, 0});
    const int from = all.ranks[all.after(round->skip)];
    for (const Interval interval : around(elements, all.after(round->skip), round->blocks(), n).elements)
      builder_.receive(from, output(interval.begin), bytes(interval));
  }
}

Piece MemberExchange::reduce_on_host(const ClusterGrid& grid, std::size_t member, Interval elements,
                                     Piece source, ScratchRing& slots) {
  const std::size_t row = grid.row_of(member), n = grid.ranks_of(row), place = grid.place_of(member);
  if (n == 1) return source;
  const auto part = [&](std::size_t other) { return summed_on_host(grid, row, elements, other); };
  const Interval own = part(place);
  for (std::size_t distance = 1; distance < n; ++distance) {
    const std::size_t to = (place + distance) % n;
    builder_.send(grid.rank_at(row, to), at(source, part(to).begin), bytes(part(to)));
  }
  for (std::size_t distance = n - 1; distance >= 1; --distance) {
    const Piece arrived = slots.next();
    builder_.receive(grid.rank_at(row, (place + distance) % n), arrived, bytes(own));
    builder_.combine(output(own.begin), at(source, own.begin), arrived, bytes(own));
    source = {Buffer::kOutput, 0};
  }
  if (grid.is_spare(member)) {
    builder_.send(grid.rank_at(row, place % grid.columns()), output(own.begin), bytes(own));
    return source;
  }
  for (std::size_t spare = place + grid.columns(); spare < n; spare += grid.columns())
    builder_.receive(grid.rank_at(row, spare), output(part(spare).begin), bytes(part(spare)));
  return source;
}

void MemberExchange::gather_on_host(const ClusterGrid& grid, std::size_t member, Interval elements) {
  const std::size_t row = grid.row_of(member), n = grid.ranks_of(row), place = grid.place_of(member);
  if (!grid.is_spare(member)) {
    const Interval own = grid.group(elements, place);
    for (std::size_t distance = 1; distance < n; ++distance)
      builder_.send(grid.rank_at(row, (place + distance) % n), output(own.begin), bytes(own));
  }
  for (std::size_t distance = n - 1; distance >= 1; --distance) {
    const std::size_t from = (place + distance) % n;
    if (from >= grid.columns()) continue;
    const Interval theirs = grid.group(elements, from);
    builder_.receive(grid.rank_at(row, from), output(theirs.begin), bytes(theirs));
  }
}

}  // namespace tombolo::collectives
