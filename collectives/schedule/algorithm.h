// A collective algorithm as a record, and the table of all of them.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "collectives/schedule/collective.h"
#include "collectives/schedule/rank_map.h"
#include "collectives/schedule/schedule.h"
#include "collectives/schedule/tuning.h"

namespace tombolo::collectives {

/// One way to carry out one collective. Records are constants of static lifetime, each declared in a header
/// of its own in algorithms/ and listed in algorithms/list.inc. docs/extending.md shows how to add one.
struct Algorithm {
  Collective collective;
  std::string_view name;  ///< "ring"; unique among the algorithms of its collective
  /// Whether the automatic choice may take it for this call. The answer must be the same on every rank.
  bool (*applicable)(const RankMap& ranks, const Problem& problem, const Tuning& tuning);
  /// What this rank does. It must be right for every map and problem: TOMBOLO_ALGORITHM may ask for it where
  /// it is not applicable.
  Schedule (*build)(const RankMap& ranks, const Problem& problem, const Tuning& tuning, bool in_place);
  /// What the help of TOMBOLO_ALGORITHM says of it. Empty where only the automatic choice takes it.
  std::string_view help = {};

  bool can_be_named() const noexcept { return !help.empty(); }
};

/// For Algorithm::applicable of one that always is.
inline bool always(const RankMap&, const Problem&, const Tuning&) noexcept {
  return true;
}

using AlgorithmTable = std::span<const Algorithm* const>;

/// Every algorithm of this build. Of one collective those first that are preferred where they are applicable;
/// the last one always is.
AlgorithmTable algorithms() noexcept;

/// Options::algorithm and TOMBOLO_ALGORITHM where nothing is asked for.
inline constexpr std::string_view kAutomatic = "auto";

/// The algorithm of that name where the collective has one that can be named so; else the first applicable.
const Algorithm& choose_algorithm(Collective collective, std::string_view name, const RankMap& ranks,
                                  const Problem& problem, const Tuning& tuning,
                                  AlgorithmTable table = algorithms());

/// What TOMBOLO_ALGORITHM takes: "auto|ring|two-level".
std::string algorithm_choices(AlgorithmTable table = algorithms());
/// Whether it is one of these.
bool is_algorithm_choice(std::string_view name, AlgorithmTable table = algorithms());
/// One clause for each algorithm that can be named: "ring: all_reduce on a flat ring; ...".
std::string algorithm_help(AlgorithmTable table = algorithms());

}  // namespace tombolo::collectives
