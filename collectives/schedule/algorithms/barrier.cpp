#include "collectives/schedule/algorithms/barrier.h"

namespace tombolo::collectives {

Schedule barrier(const Layout& layout) {
  ScheduleBuilder builder(false, 0);
  for (int distance = 1; distance < layout.size; distance *= 2) {
    // Who sends must have heard from everybody it speaks for.
    if (distance > 1) builder.fence();
    builder.send(layout.at(layout.position + distance), builder.scratch(1), 1);
    builder.receive(layout.at(layout.position - distance), builder.scratch(1), 1);
  }
  return builder.build("dissemination");
}

}  // namespace tombolo::collectives
