#include "collectives/schedule/algorithm.h"

#include <algorithm>
#include <vector>

#include "base/error.h"

namespace tombolo::collectives {
namespace {

/// The names of the algorithms that can be asked for, each once and sorted, because the table's order is one
/// of preference.
std::vector<std::string_view> names_of(AlgorithmTable table) {
  std::vector<std::string_view> names;
  for (const Algorithm* one : table) {
    if (one->can_be_named()) names.push_back(one->name);
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace

const Algorithm* find_algorithm(Collective collective, std::string_view name, AlgorithmTable table) noexcept {
  const auto found = std::ranges::find_if(
      table, [&](const Algorithm* one) { return one->collective == collective && one->name == name; });
  return found == table.end() ? nullptr : *found;
}

const Algorithm& choose_algorithm(Collective collective, std::string_view name, const RankMap& ranks,
                                  const Problem& problem, const Tuning& tuning, AlgorithmTable table) {
  const Algorithm* named = find_algorithm(collective, name, table);
  if (named != nullptr && named->can_be_named()) return *named;
  const auto applicable = std::find_if(table.begin(), table.end(), [&](const Algorithm* one) {
    return one->collective == collective && one->applicable(ranks, problem, tuning);
  });
  TOMBOLO_CHECK(applicable != table.end(), "no algorithm for {} of {} bytes among {} ranks",
                collective_name(collective), problem.bytes(), ranks.size);
  return **applicable;
}

std::string algorithm_choices(AlgorithmTable table) {
  std::string choices(kAutomatic);
  for (const std::string_view name : names_of(table)) choices.append("|").append(name);
  return choices;
}

bool is_algorithm_choice(std::string_view name, AlgorithmTable table) {
  const auto names = names_of(table);
  return name == kAutomatic || std::find(names.begin(), names.end(), name) != names.end();
}

std::string algorithm_help(AlgorithmTable table) {
  std::string text;
  for (const std::string_view name : names_of(table)) {
    for (const Algorithm* one : table) {
      if (one->name != name || !one->can_be_named()) continue;
      if (!text.empty()) text += "; ";
      text.append(name).append(": ").append(collective_name(one->collective)).append(" ").append(one->help);
    }
  }
  return text;
}

}  // namespace tombolo::collectives
