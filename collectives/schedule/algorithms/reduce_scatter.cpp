#include "collectives/schedule/algorithms/reduce_scatter.h"

#include <algorithm>

namespace tombolo::collectives {
namespace {

Schedule direct(const Layout& layout, ScheduleBuilder& builder, const Problem& problem) {
  const int n = layout.size, p = layout.position;
  const std::size_t bytes = problem.count * problem.element_bytes;
  const auto input = [&](int rank) {
    return Piece{Buffer::kInput, 0} + bytes * static_cast<std::size_t>(rank);
  };
  const Piece output{Buffer::kOutput, 0};
  for (int distance = 1; distance < n; ++distance) {
    builder.send(layout.at(p + distance), input(layout.at(p + distance)), bytes);
  }
  Piece partial = input(layout.rank);
  for (int distance = n - 1; distance >= 1; --distance) {
    const Piece arrived = builder.scratch(bytes);
    builder.receive(layout.at(p + distance), arrived, bytes);
    builder.combine(output, partial, arrived, bytes);
    partial = output;
  }
  if (problem.average) builder.divide(output, bytes);
  return builder.build("direct");
}

}  // namespace

Schedule reduce_scatter(const Layout& layout, const Problem& problem, const Tuning& tuning, bool in_place) {
  const int n = layout.size, p = layout.position;
  const std::size_t element = problem.element_bytes, block = problem.count * element;
  ScheduleBuilder builder(in_place, -static_cast<std::ptrdiff_t>(block) * layout.rank);
  const auto input = [&](int rank) {
    return Piece{Buffer::kInput, 0} + block * static_cast<std::size_t>(rank);
  };
  if (n == 1) {
    builder.copy({Buffer::kOutput, 0}, {Buffer::kInput, 0}, block);
    return builder.build("ring");
  }
  if (block * static_cast<std::size_t>(n) <= tuning.small_bytes) return direct(layout, builder, problem);

  const std::size_t pieces = pieces_of(problem.count, element, tuning.segment_bytes);
  const int next = layout.at(p + 1), previous = layout.at(p - 1);
  // Partial sums of other ranks' parts pass through scratch. Groups of 16 pieces go around together, so that
  // scratch stays small; a step's pieces are sent while the next step's arrive, so two places per piece are
  // in use.
  const std::size_t group = std::min<std::size_t>(16, pieces);
  ScratchRing slots(builder, part_of({0, problem.count}, 0, pieces).count() * element, 2 * group);
  std::vector<Piece> partial(pieces);
  for (std::size_t first = 0; first < pieces; first += group) {
    for (int step = 0; step < n - 1; ++step) {
      const int going = layout.at(p - step - 1), coming = layout.at(p - step - 2);
      for (std::size_t piece = first; piece < std::min(first + group, pieces); ++piece) {
        const Interval part = part_of({0, problem.count}, piece, pieces);
        const std::size_t at = part.begin * element, bytes = part.count() * element;
        builder.send(next, step == 0 ? input(going) + at : partial[piece], bytes);
        const Piece arrived = slots.next();
        builder.receive(previous, arrived, bytes);
        const bool last = step == n - 2;
        partial[piece] = last ? Piece{Buffer::kOutput, 0} + at : arrived;
        builder.combine(partial[piece], arrived, input(coming) + at, bytes);
        if (last && problem.average) builder.divide(partial[piece], bytes);
      }
    }
  }
  return builder.build("ring");
}

}  // namespace tombolo::collectives
