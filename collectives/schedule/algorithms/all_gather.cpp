#include "collectives/schedule/algorithms/all_gather.h"

namespace tombolo::collectives {

Schedule all_gather(const Layout& layout, const Problem& problem, const Tuning& tuning, bool in_place) {
  const int n = layout.size, p = layout.position;
  const std::size_t element = problem.element_bytes, block = problem.count * element;
  ScheduleBuilder builder(in_place, static_cast<std::ptrdiff_t>(block) * layout.rank);
  const auto output = [&](int rank) {
    return Piece{Buffer::kOutput, 0} + block * static_cast<std::size_t>(rank);
  };
  const Piece own{Buffer::kInput, 0};
  builder.copy(output(layout.rank), own, block);
  if (block * static_cast<std::size_t>(n) <= tuning.small_bytes) {
    for (int distance = 1; distance < n; ++distance) {
      builder.send(layout.at(p + distance), own, block);
      builder.receive(layout.at(p - distance), output(layout.at(p - distance)), block);
    }
    return builder.build("direct");
  }
  const std::size_t pieces = pieces_of(problem.count, element, tuning.segment_bytes);
  for (int step = 0; step < n - 1; ++step) {
    const Piece going = step == 0 ? own : output(layout.at(p - step));
    const Piece coming = output(layout.at(p - step - 1));
    for (std::size_t piece = 0; piece < pieces; ++piece) {
      const Interval part = part_of({0, problem.count}, piece, pieces);
      builder.send(layout.at(p + 1), going + part.begin * element, part.count() * element);
      builder.receive(layout.at(p - 1), coming + part.begin * element, part.count() * element);
    }
  }
  return builder.build("ring");
}

}  // namespace tombolo::collectives
