// What the collective engine's all-reduces send over which edge, as its schedules say.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "collectives/schedule/choice.h"
#include "planner/cost/all_reduce.h"

namespace tombolo::planner {

/// Remembers what schedules said, since a search asks the same of many placements, and building those of all
/// members takes long. It depends on nothing but its arguments. Not thread-safe.
class EngineTraffic {
 public:
  /// The transfers of an all-reduce that takes this way. Which share of a vector goes where is taken from a
  /// shorter one where it is longer than some megabytes.
  std::vector<Transfer> of(const collectives::RankMap& map, const collectives::Problem& problem,
                           const collectives::Choice& chosen);

 private:
  /// What a schedule depends on, but for which member has which place.
  struct Key {
    const collectives::Algorithm* algorithm = nullptr;  ///< null: through the memory of one host
    std::size_t count = 0, element_bytes = 0, segment_bytes = 0, crossing_bytes = 0, latency_bytes = 0;
    bool uniform_links = false;
    std::vector<std::vector<std::size_t>> hosts;  ///< as RankMap::hosts
    auto operator<=>(const Key&) const = default;
  };

  std::map<Key, std::vector<Transfer>> known_;  // between places
  std::size_t transfers_ = 0;                   // of all
};

}  // namespace tombolo::planner
