#include "planner/explain/linked_parts.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "base/error.h"

namespace tombolo::planner {

namespace {

constexpr std::size_t kMostNames = 6, kMostParts = 4;

/// Lists the first few, and says how many more there are.
template <typename Items>
std::string some(const Items& items, std::size_t most, std::string_view between) {
  const auto shown = std::min(most, items.size());
  std::string text = fmt::format(
      "{}", fmt::join(items.begin(), items.begin() + static_cast<std::ptrdiff_t>(shown), between));
  if (shown < items.size()) text += fmt::format("{}{} more", between, items.size() - shown);
  return text;
}

}  // namespace

std::vector<std::vector<std::string>> linked_parts(const SearchContext& context) {
  std::set<int> left;
  for (const LauncherSlot& slot : context.launcher_slots) left.insert(slot.host);
  std::vector<std::vector<std::string>> parts;
  while (!left.empty()) {
    std::set<int> part = {*left.begin()};
    std::vector<int> to_visit = {*left.begin()};
    left.erase(left.begin());
    while (!to_visit.empty()) {
      const int host = to_visit.back();
      to_visit.pop_back();
      for (auto other = left.begin(); other != left.end();) {
        if (!context.view.linked(host, *other) || !context.view.linked(*other, host)) {
          ++other;
          continue;
        }
        part.insert(*other);
        to_visit.push_back(*other);
        other = left.erase(other);
      }
    }
    std::vector<std::string>& names = parts.emplace_back();
    for (const int host : part) names.push_back(context.view.host(host).name);
  }
  return parts;
}

void fail_nothing_linked(const SearchContext& context, const std::string& why) {
  const auto parts = linked_parts(context);
  if (parts.size() < 2) fail(Cause::kInvalidUsage, "{}", why);
  std::vector<std::string> texts;
  for (const auto& part : parts) texts.push_back(some(part, kMostNames, ", "));
  fail(Cause::kInvalidUsage,
       "{}. The hosts fall into {} parts that no links join in both directions: {}; one of them alone can be "
       "planned "
       "for (--order with its hosts)",
       why, parts.size(), some(texts, kMostParts, " | "));
}

}  // namespace tombolo::planner
