// Why no layout was possible, in few words.
#pragma once

#include <string>
#include <vector>

namespace tombolo::planner {

/// Of sentences such as "pipeline 3 x data 2: 8 layers do not divide into 3 stages": of those that differ in
/// numbers only the first, with how many there are. Where there are none, that no layout was left to try.
/// Never empty.
std::string summary_of_excluded(const std::vector<std::string>& excluded);

}  // namespace tombolo::planner
