// Holds emitted arguments against the names that releases of the frameworks take (names/, by
// scripts/framework_names.py).
#pragma once

#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace tombolo::planner::testing {

/// The names in names/FRAMEWORK.txt.
inline std::set<std::string> names_of(const std::string& framework) {
  std::ifstream file(TOMBOLO_SOURCE_DIR "/planner/testing/names/" + framework + ".txt");
  std::set<std::string> names;
  for (std::string line; std::getline(file, line);)
    if (!line.empty() && line.front() != '#') names.insert(line);
  return names;
}

/// The options among the words of a text, without their values: what begins with a dash, and KEY of
/// KEY=VALUE. Comments of sh are left out.
inline std::vector<std::string> options_in(const std::string& text) {
  std::vector<std::string> options;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('#') && !line.starts_with("#SBATCH")) continue;
    std::istringstream words(line);
    for (std::string word; words >> word;) {
      const auto equals = word.find('=');
      const bool dashed = word.size() > 1 && word.front() == '-' && (word[1] < '0' || word[1] > '9');
      if (dashed || equals != std::string::npos) options.push_back(word.substr(0, equals));
    }
  }
  return options;
}

/// The options in `text` that the framework's release does not have, with a blank before each.
inline std::string unknown_options(const std::string& text, const std::string& framework) {
  const std::set<std::string> names = names_of(framework);
  std::string unknown;
  for (const std::string& option : options_in(text))
    if (!names.contains(option)) unknown += ' ' + option;
  return unknown;
}

/// The part of `text` between `begin` and `end`, the rest where there is no `end`; empty where there is no
/// `begin`.
inline std::string part_of(const std::string& text, const std::string& begin, const std::string& end) {
  const auto from = text.find(begin);
  if (from == std::string::npos) return {};
  const auto at = from + begin.size();
  return text.substr(at, text.find(end, at) - at);
}

}  // namespace tombolo::planner::testing
