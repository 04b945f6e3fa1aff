#include "collectives/schedule/algorithms/reduce.h"

#include <algorithm>

#include "collectives/schedule/algorithms/broadcast.h"

namespace tombolo::collectives {

Schedule reduce(const Layout& layout, const Problem& problem, const Tuning& tuning, bool in_place) {
  ScheduleBuilder builder(in_place, 0);
  const std::vector<int> chain = chain_from(layout, problem.root);
  const auto n = chain.size();
  const auto p = static_cast<std::size_t>(std::find(chain.begin(), chain.end(), layout.rank) - chain.begin());
  const std::size_t element = problem.element_bytes, bytes = problem.count * element;
  const Piece input{Buffer::kInput, 0}, output{Buffer::kOutput, 0};
  if (n == 1) {
    builder.copy(output, input, bytes);
    return builder.build("chain");
  }
  if (bytes <= tuning.small_bytes) {
    std::size_t bit = 1;
    while (bit <= p) bit *= 2;
    const std::size_t parent = p - bit / 2;
    Piece partial = input;
    for (; p + bit < n; bit *= 2) {
      const Piece arrived = builder.scratch(bytes);
      builder.receive(chain[p + bit], arrived, bytes);
      builder.combine(p == 0 ? output : arrived, partial, arrived, bytes);
      partial = p == 0 ? output : arrived;
    }
    if (p > 0) builder.send(chain[parent], partial, bytes);
    if (p == 0 && problem.average) builder.divide(output, bytes);
    return builder.build("tree");
  }
  const std::size_t pieces = pieces_of(problem.count, element, tuning.segment_bytes);
  ScratchRing slots(builder, part_of({0, problem.count}, 0, pieces).count() * element,
                    std::min<std::size_t>(8, pieces));
  for (std::size_t piece = 0; piece < pieces; ++piece) {
    const Interval part = part_of({0, problem.count}, piece, pieces);
    const std::size_t at = part.begin * element, size = part.count() * element;
    Piece partial = input + at;
    if (p + 1 < n) {
      const Piece arrived = slots.next();
      builder.receive(chain[p + 1], arrived, size);
      const Piece target = p == 0 ? output + at : arrived;
      builder.combine(target, partial, arrived, size);
      partial = target;
    }
    if (p > 0) builder.send(chain[p - 1], partial, size);
    if (p == 0 && problem.average) builder.divide(output + at, size);
  }
  return builder.build("chain");
}

}  // namespace tombolo::collectives
