// Which way a call goes, and why: the one function that decides it, in a running communicator and in what is
// explained of one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/schedule/algorithm.h"
#include "collectives/schedule/tuning_table.h"

namespace tombolo::collectives {

/// What decided.
enum class Reason : std::uint8_t {
  kNamed,       ///< TOMBOLO_ALGORITHM
  kTable,       ///< a row of the tuning table
  kHostMemory,  ///< all ranks are on one host, and the call only copies or is a small reduction
  kModel,       ///< the cost model says that it takes much less time than what the rules would take
  kRule,        ///< the first algorithm of the table whose rule holds
};

/// What the choice depends on beside the call. All of it is the same on every rank, but for places in `ranks`
/// that no rule looks at. It refers to what it names.
struct Situation {
  const RankMap& ranks;
  const Tuning& tuning;
  std::string_view named = kAutomatic;  ///< TOMBOLO_ALGORITHM
  bool host_memory = false;             ///< whether all ranks see memory of one host
  const TuningTable* table = nullptr;   ///< of a job of this shape; null: none
  const JobCosts* costs = nullptr;      ///< null: by rules alone
  AlgorithmTable algorithms = collectives::algorithms();
};

struct Choice {
  const Algorithm* algorithm = nullptr;  ///< null: through the host's memory
  Tuning tuning;                         ///< by which its schedule is built
  Reason reason = Reason::kRule;
  const TuningRow* row = nullptr;  ///< with kTable

  bool through_host_memory() const noexcept { return algorithm == nullptr; }
  std::string_view name() const noexcept { return algorithm == nullptr ? kHostWay : algorithm->name; }
};

/// Pure. Every rank of a call gets the same answer.
Choice choose(Collective collective, const Problem& problem, const Situation& situation);

/// Bytes of the call's longest buffer, as nccl-tests' tables count them: the whole vector, or the parts of
/// all ranks. Of parts that differ, and that not every rank knows, those of this rank count for each.
std::size_t size_of_call(Collective collective, const Problem& problem, int ranks) noexcept;

/// A way that the call could go.
struct PossibleWay {
  std::string_view name;
  bool applies = false;             ///< by its own rule
  bool in_pieces = false;           ///< cuts what it sends by Tuning::segment_bytes
  std::string rule;                 ///< in words: "vectors of at most 16 KiB"
  std::optional<Nanoseconds> cost;  ///< by the model, in pieces as the situation's tuning says
};

/// All ways that are right for such a call, in the order of preference.
std::vector<PossibleWay> possible_ways(Collective collective, const Problem& problem,
                                       const Situation& situation);

/// Why it was chosen, as a sentence without its end.
std::string explain(const Choice& choice, Collective collective, const Problem& problem,
                    const Situation& situation);

}  // namespace tombolo::collectives
