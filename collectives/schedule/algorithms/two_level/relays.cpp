#include "collectives/schedule/algorithms/two_level/relays.h"

namespace tombolo::collectives {

std::vector<int> Relays::served_by(std::size_t member) const {
  const std::size_t clusters = ranks_.clusters.size();
  std::vector<int> served;
  for (std::size_t distance = 1; distance < clusters; ++distance) {
    const std::vector<int>& theirs = ranks_.clusters[(cluster() + distance) % clusters];
    for (std::size_t i = member; i < theirs.size(); i += members().size()) served.push_back(theirs[i]);
  }
  return served;
}

std::vector<Relays::Other> Relays::heard() const {
  const std::size_t clusters = ranks_.clusters.size();
  std::vector<Other> heard;
  for (std::size_t distance = 1; distance < clusters; ++distance) {
    const std::size_t other = (cluster() + clusters - distance) % clusters;
    const std::vector<int>& theirs = ranks_.clusters[other];
    heard.push_back({other, theirs[index() % theirs.size()]});
  }
  return heard;
}

}  // namespace tombolo::collectives
