// A collective algorithm as a record, and the table of all of them.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "collectives/schedule/collective.h"
#include "collectives/schedule/network_costs.h"
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
  /// What this rank does. It must be right for every map and problem that is `possible`: TOMBOLO_ALGORITHM
  /// may ask for it where it is not applicable.
  Schedule (*build)(const RankMap& ranks, const Problem& problem, const Tuning& tuning, bool in_place);
  /// What the help of TOMBOLO_ALGORITHM says of it, after the name of the collective.
  std::string_view help;
  /// `applicable` in words, for explanations: "vectors of at most 16 KiB". Null for one that always is.
  std::string (*rule)(const RankMap& ranks, const Tuning& tuning) = nullptr;
  /// Whether it cuts what it sends into pieces by Tuning::segment_bytes.
  bool in_pieces = false;
  /// Where it is right, and may be worth a measurement; null: everywhere. The answer must be the same on
  /// every rank.
  bool (*possible)(const RankMap& ranks, const Problem& problem) = nullptr;

  /// How long such a call takes, by the cost model, where it is possible; null: rules alone take it or not.
  /// The answer must be the same on every rank.
  Nanoseconds (*cost)(const JobCosts& job, const Problem& problem, const Tuning& tuning) = nullptr;

  bool is_possible(const RankMap& ranks, const Problem& problem) const {
    return possible == nullptr || possible(ranks, problem);
  }
};

/// The `applicable` of an algorithm that always is.
inline bool always(const RankMap&, const Problem&, const Tuning&) noexcept {
  return true;
}

using AlgorithmTable = std::span<const Algorithm* const>;

/// Every algorithm of this build. Among those of one collective the preferred ones come first, and the last
/// one is always applicable.
AlgorithmTable algorithms() noexcept;

/// The value of Options::algorithm and TOMBOLO_ALGORITHM that leaves the choice to `applicable`.
inline constexpr std::string_view kAutomatic = "auto";

/// The algorithm of that name and collective; null where there is none.
const Algorithm* find_algorithm(Collective collective, std::string_view name,
                                AlgorithmTable table = algorithms()) noexcept;

/// The algorithm of that name where the collective has one and it is possible; else the first applicable one.
const Algorithm& choose_algorithm(Collective collective, std::string_view name, const RankMap& ranks,
                                  const Problem& problem, const Tuning& tuning,
                                  AlgorithmTable table = algorithms());

/// What TOMBOLO_ALGORITHM takes: "auto|ring|two-level", with every name of the table.
std::string algorithm_choices(AlgorithmTable table = algorithms());
/// Whether `name` is one of these choices.
bool is_algorithm_choice(std::string_view name, AlgorithmTable table = algorithms());
/// The help on all choices, one clause each: "ring: all_gather and all_reduce on a flat ring; ...".
std::string algorithm_help(AlgorithmTable table = algorithms());

}  // namespace tombolo::collectives
