#include "collectives/schedule/choice.h"

#include "base/format.h"
#include "base/units.h"

namespace tombolo::collectives {
namespace {

/// What only copies is never too large. All ranks know the parts of a reduce-scatter.
bool is_small_enough_for_host_memory(Collective collective, const Problem& problem,
                                     const Situation& situation) noexcept {
  return !is_reduction(collective) || problem.bytes_of_longest() <= situation.tuning.host_bytes;
}

/// The one that TOMBOLO_ALGORITHM asks for; null where the collective has none of that name, or it is not
/// possible.
const Algorithm* named_algorithm(Collective collective, const Problem& problem, const Situation& situation) {
  if (situation.named == kAutomatic) return nullptr;
  const Algorithm* named = find_algorithm(collective, situation.named, situation.algorithms);
  return named != nullptr && named->is_possible(situation.ranks, problem) ? named : nullptr;
}

/// Whether every rank knows the bytes of all parts.
bool all_know_parts(Collective collective, const Problem& problem) noexcept {
  return !problem.uneven || collective == Collective::kAllGather || collective == Collective::kReduceScatter;
}

/// The row that may decide. Values that travel encoded were not measured; and of parts that differ, not every
/// rank knows the bytes of all where there is one algorithm only.
const TuningRow* row_for(Collective collective, const Problem& problem, const Situation& situation) noexcept {
  if (situation.table == nullptr || problem.compression != Compression::kNone) return nullptr;
  if (!all_know_parts(collective, problem)) return nullptr;
  const TuningRow* row =
      situation.table->find(collective, size_of_call(collective, problem, situation.ranks.size));
  const bool cannot =
      row != nullptr && row->way.algorithm == nullptr &&
      !(situation.host_memory && is_small_enough_for_host_memory(collective, problem, situation));
  return cannot ? nullptr : row;
}

std::string rule_of(const Algorithm& algorithm, const Situation& situation) {
  if (algorithm.rule != nullptr) return algorithm.rule(situation.ranks, situation.tuning);
  return algorithm.applicable == always ? "any call" : "where its own rule holds";
}

std::string explain_row(const TuningRow& row, std::size_t bytes) {
  std::string text =
      fmt::format("the tuning table has {} for {} to {} bytes", row.way.name(), row.from_bytes, row.to_bytes);
  const std::vector<TimedWay> near = measured_near(row, bytes);
  if (near.empty()) return text;
  text += fmt::format(", measured {} for {}", format_seconds(near[0].seconds), format_size(near[0].bytes));
  if (near.size() < 2) return text;
  const TunedWay& next = near[1].way;
  return text + fmt::format("; the best other way, {}{}, took {}", next.name(),
                            next.segment_bytes == 0 ? "" : " in pieces of " + format_size(next.segment_bytes),
                            format_seconds(near[1].seconds));
}

/// What a call takes by the model.
struct Estimate {
  const Algorithm* algorithm = nullptr;
  Tuning tuning;
  Nanoseconds cost = 0;
};

/// Values that travel encoded are not in the model.
std::optional<Nanoseconds> cost_of(const Algorithm& algorithm, const Problem& problem, const Tuning& tuning,
                                   const Situation& situation) {
  if (situation.costs == nullptr || algorithm.cost == nullptr || problem.compression != Compression::kNone ||
      !all_know_parts(algorithm.collective, problem))
    return std::nullopt;
  return algorithm.cost(*situation.costs, problem, tuning);
}

/// Other sizes of pieces than the usual one; another one that the user has named stays.
constexpr std::size_t kOtherSegments[] = {std::size_t{128} << 10, std::size_t{2} << 20};

/// Longer vectors go in pieces: what cuts none keeps whole ones in memory.
constexpr std::size_t kMostInOne = std::size_t{2} << 20;

/// The one that takes least; nothing where the model knows none.
std::optional<Estimate> least_of(Collective collective, const Problem& problem, const Situation& situation) {
  std::optional<Estimate> least;
  const auto weigh = [&](const Algorithm& one, std::size_t segment) {
    Tuning tuning = situation.tuning;
    tuning.segment_bytes = segment;
    const auto cost = cost_of(one, problem, tuning, situation);
    if (cost && (!least || *cost < least->cost)) least = {&one, tuning, *cost};
  };
  for (const Algorithm* one : situation.algorithms) {
    if (one->collective != collective || !one->is_possible(situation.ranks, problem)) continue;
    if (!one->in_pieces && size_of_call(collective, problem, situation.ranks.size) > kMostInOne) continue;
    weigh(*one, situation.tuning.segment_bytes);
    if (!one->in_pieces || situation.tuning.segment_bytes != Tuning{}.segment_bytes) continue;
    for (const std::size_t segment : kOtherSegments) weigh(*one, segment);
  }
  return least;
}

/// What the rules take, unless the model has something that takes less than four fifths of the time: it knows
/// nothing of a difference that is smaller.
Choice by_rule_or_model(Collective collective, const Problem& problem, const Situation& situation) {
  const Algorithm& by_rule = choose_algorithm(collective, kAutomatic, situation.ranks, problem,
                                              situation.tuning, situation.algorithms);
  const auto rule_cost = cost_of(by_rule, problem, situation.tuning, situation);
  if (rule_cost) {
    const auto least = least_of(collective, problem, situation);
    if (least && least->cost < *rule_cost / 5 * 4) return {least->algorithm, least->tuning, Reason::kModel};
  }
  return {&by_rule, situation.tuning, Reason::kRule};
}

std::string explain_model(const Choice& choice, Collective collective, const Problem& problem,
                          const Situation& situation) {
  const Choice rule = [&] {
    Situation without = situation;
    without.costs = nullptr;
    return choose(collective, problem, without);
  }();
  const auto in_words = [&](const Choice& one) {
    const bool in_pieces =
        one.algorithm->in_pieces && one.tuning.segment_bytes != situation.tuning.segment_bytes;
    const Nanoseconds cost = cost_of(*one.algorithm, problem, one.tuning, situation).value_or(0);
    return fmt::format("{}{} {}", one.name(),
                       in_pieces ? " in pieces of " + format_size(one.tuning.segment_bytes) : "",
                       format_seconds(static_cast<double>(cost) * 1e-9));
  };
  return fmt::format("by the cost model {}; {}, which the rules would take", in_words(choice),
                     in_words(rule));
}

}  // namespace

Choice choose(Collective collective, const Problem& problem, const Situation& situation) {
  if (const Algorithm* named = named_algorithm(collective, problem, situation))
    return {named, situation.tuning, Reason::kNamed};
  if (const TuningRow* row = row_for(collective, problem, situation)) {
    Choice choice{row->way.algorithm, situation.tuning, Reason::kTable, row};
    if (row->way.segment_bytes > 0) choice.tuning.segment_bytes = row->way.segment_bytes;
    return choice;
  }
  if (situation.host_memory && is_small_enough_for_host_memory(collective, problem, situation))
    return {nullptr, situation.tuning, Reason::kHostMemory};
  return by_rule_or_model(collective, problem, situation);
}

std::size_t size_of_call(Collective collective, const Problem& problem, int ranks) noexcept {
  switch (collective) {
    case Collective::kReduceScatter:
    case Collective::kAllGather:
      return problem.bytes_of_all(ranks);
    case Collective::kGather:
    case Collective::kScatter:
    case Collective::kAllToAll:
      return problem.bytes() * static_cast<std::size_t>(ranks);
    case Collective::kAllReduce:
    case Collective::kBroadcast:
    case Collective::kReduce:
    case Collective::kBarrier:
      break;
  }
  return problem.bytes();
}

std::vector<PossibleWay> possible_ways(Collective collective, const Problem& problem,
                                       const Situation& situation) {
  std::vector<PossibleWay> all;
  if (situation.host_memory) {
    all.push_back({kHostWay, is_small_enough_for_host_memory(collective, problem, situation), false,
                   is_reduction(collective)
                       ? fmt::format("at most {} of each rank (TOMBOLO_HOST_LIMIT), all ranks on one host",
                                     format_size(situation.tuning.host_bytes))
                       : std::string("any size, all ranks on one host"),
                   std::nullopt});
  }
  for (const Algorithm* one : situation.algorithms) {
    if (one->collective != collective || !one->is_possible(situation.ranks, problem)) continue;
    all.push_back({one->name, one->applicable(situation.ranks, problem, situation.tuning), one->in_pieces,
                   rule_of(*one, situation), cost_of(*one, problem, situation.tuning, situation)});
  }
  return all;
}

std::string explain(const Choice& choice, Collective collective, const Problem& problem,
                    const Situation& situation) {
  switch (choice.reason) {
    case Reason::kNamed:
      return fmt::format("TOMBOLO_ALGORITHM names {}", choice.name());
    case Reason::kTable:
      return explain_row(*choice.row, size_of_call(collective, problem, situation.ranks.size));
    case Reason::kHostMemory:
      if (!is_reduction(collective)) return "all ranks are on one host, and nothing is reduced";
      return fmt::format(
          "all ranks are on one host, and {} of a rank are no more than {} (TOMBOLO_HOST_LIMIT)",
          format_size(problem.bytes_of_longest()), format_size(situation.tuning.host_bytes));
    case Reason::kModel:
      return explain_model(choice, collective, problem, situation);
    case Reason::kRule:
      break;
  }
  std::string passed_over;
  for (const PossibleWay& one : possible_ways(collective, problem, situation)) {
    if (one.name == choice.name()) break;
    passed_over += fmt::format("{}{} takes {}", passed_over.empty() ? "" : ", ", one.name, one.rule);
  }
  const std::string own = rule_of(*choice.algorithm, situation);
  if (passed_over.empty()) return fmt::format("{} comes first and takes {}", choice.name(), own);
  return fmt::format("{}; {} takes {}", passed_over, choice.name(), own);
}

}  // namespace tombolo::collectives
