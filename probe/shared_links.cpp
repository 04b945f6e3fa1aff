#include "probe/shared_links.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace tombolo::probe {
namespace {

// Of two pairs on one link each attains half: far enough from all for a busy machine's noise.
constexpr double kClearlyLess = 0.75;
// Pairs that are loaded at once do not end at once, so that their sum comes out a little high.
constexpr double kSameSpeed = 1.2;

}  // namespace

std::optional<topology::SharedLink> find_shared_link(const LoadSample& sample) {
  TOMBOLO_CHECK(sample.together.size() == sample.nominal.size(), "{} pairs, {} rates", sample.together.size(),
                sample.nominal.size());
  if (sample.together.size() < 2 || sample.alone <= 0) return std::nullopt;
  double expected = 0;
  for (const double nominal : sample.nominal) {
    expected += nominal > 0 ? std::min(nominal, sample.alone) : sample.alone;
  }
  const double sum = std::accumulate(sample.together.begin(), sample.together.end(), 0.0);
  if (sum <= 0 || sum >= kClearlyLess * expected) return std::nullopt;
  topology::SharedLink link;
  link.name = fmt::format("{} to {}{}{}", sample.from_cluster, sample.to_cluster,
                          sample.fabric.empty() ? "" : " by ", sample.fabric);
  link.from = sample.from;
  link.to = sample.to;
  link.bytes_per_second = sum > kSameSpeed * sample.alone ? sum : sample.alone;
  return link;
}

}  // namespace tombolo::probe
