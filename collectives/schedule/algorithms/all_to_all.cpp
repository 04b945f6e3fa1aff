#include "collectives/schedule/algorithms/all_to_all.h"

namespace tombolo::collectives {

Schedule all_to_all(const Layout& layout, const Problem& problem, const Tuning& tuning) {
  ScheduleBuilder builder(false, 0);
  const int n = layout.size;
  const std::size_t element = problem.element_bytes, block = problem.count * element;
  const auto of = [&](Buffer buffer, int rank) {
    return Piece{buffer, 0} + block * static_cast<std::size_t>(rank);
  };
  builder.copy(of(Buffer::kOutput, layout.rank), of(Buffer::kInput, layout.rank), block);
  const std::size_t pieces = pieces_of(problem.count, element, tuning.segment_bytes);
  for (std::size_t piece = 0; piece < pieces; ++piece) {
    const Interval part = part_of({0, problem.count}, piece, pieces);
    const std::size_t at = part.begin * element, bytes = part.count() * element;
    for (int distance = 1; distance < n; ++distance) {
      const int to = layout.at(layout.position + distance), from = layout.at(layout.position - distance);
      builder.send(to, of(Buffer::kInput, to) + at, bytes);
      builder.receive(from, of(Buffer::kOutput, from) + at, bytes);
    }
  }
  return builder.build("direct");
}

}  // namespace tombolo::collectives
