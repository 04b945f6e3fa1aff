#include "collectives/schedule/algorithm.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/error.h"

namespace tombolo::collectives {
namespace {

/// The names of the algorithms, each once and sorted, because the table's order is one of preference.
std::vector<std::string_view> names_of(AlgorithmTable table) {
  std::vector<std::string_view> names;
  for (const Algorithm* one : table) names.push_back(one->name);
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
  if (named != nullptr && named->is_possible(ranks, problem)) return *named;
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
    // Collectives that take it in the same way share a clause.
    std::vector<std::pair<std::string_view, std::vector<std::string_view>>> ways;
    for (const Algorithm* one : table) {
      if (one->name != name) continue;
      auto way = std::ranges::find(ways, one->help, &decltype(ways)::value_type::first);
      if (way == ways.end()) way = ways.insert(way, {one->help, {}});
      way->second.push_back(collective_name(one->collective));
    }
    text += fmt::format("{}{}: ", text.empty() ? "" : "; ", name);
    for (std::size_t i = 0; i < ways.size(); ++i)
      text += fmt::format("{}{} {}", i == 0 ? "" : ", ", fmt::join(ways[i].second, " and "), ways[i].first);
  }
  return text;
}

}  // namespace tombolo::collectives
