#include "planner/cost/collective.h"

namespace tombolo::planner {

double collective_seconds(Collective collective, double bytes, const CollectiveLink& link) noexcept {
  if (link.ranks < 2) return 0;
  const double rounds = collective == Collective::kAllReduce ? 2 : 1;
  return rounds * (link.ranks - 1) * (bytes / link.ranks * link.seconds_per_byte + link.hop_seconds);
}

}  // namespace tombolo::planner
