#include "planner/explain/excluded.h"

#include <fmt/ranges.h>

#include <map>
#include <set>

namespace tombolo::planner {

namespace {

/// The reason of a sentence without its numbers.
std::string kind_of(std::string_view sentence) {
  if (const auto colon = sentence.find(": "); colon != std::string_view::npos) sentence.remove_prefix(colon);
  std::string kind;
  for (const char one : sentence)
    if (one < '0' || one > '9') kind += one;
  return kind;
}

}  // namespace

std::string summary_of_excluded(const std::vector<std::string>& excluded) {
  struct Kind {
    std::string first;
    int others = 0;
  };
  std::map<std::string, Kind> kinds;
  std::vector<std::string> order, sentences;
  std::set<std::string> seen;
  for (const std::string& sentence : excluded) {
    if (!seen.insert(sentence).second) continue;
    const std::string kind = kind_of(sentence);
    const auto [at, fresh] = kinds.emplace(kind, Kind{sentence, 0});
    if (fresh)
      order.push_back(kind);
    else
      ++at->second.others;
  }
  for (const std::string& kind : order) {
    const Kind& one = kinds[kind];
    sentences.push_back(one.others == 0 ? one.first
                                        : fmt::format("{} (and {} like it)", one.first, one.others));
  }
  if (sentences.empty()) return "what the job fixes leaves none to try";
  return fmt::format("{}", fmt::join(sentences, "; "));
}

}  // namespace tombolo::planner
