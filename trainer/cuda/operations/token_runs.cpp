#include "trainer/cuda/operations/token_runs.h"

#include <algorithm>

#include "base/error.h"

namespace tombolo::trainer::cuda {

TokenRuns::TokenRuns(int vocabulary) : next_(static_cast<std::size_t>(vocabulary)) {}

void TokenRuns::check(std::span<const std::int32_t> tokens, const char* what) const {
  for (std::size_t place = 0; place < tokens.size(); ++place)
    if (tokens[place] < 0 || static_cast<std::size_t>(tokens[place]) >= next_.size())
      fail(Cause::kInvalidUsage, "{} {} at place {} is outside the vocabulary of {}", what, tokens[place],
           place, next_.size());
}

void TokenRuns::sort(std::span<const std::int32_t> tokens, std::span<std::int32_t> order,
                     std::span<std::int32_t> runs) {
  std::ranges::fill(next_, 0);
  for (const std::int32_t token : tokens) ++next_[static_cast<std::size_t>(token)];
  std::int32_t begin = 0;
  std::size_t run = 0;
  for (std::int32_t& next : next_) {
    const std::int32_t count = next;
    if (count > 0) runs[run++] = begin;
    next = begin;
    begin += count;
  }
  std::fill(runs.begin() + static_cast<std::ptrdiff_t>(run), runs.end(), begin);
  for (std::size_t place = 0; place < tokens.size(); ++place)
    order[static_cast<std::size_t>(next_[static_cast<std::size_t>(tokens[place])]++)] =
        static_cast<std::int32_t>(place);
}

}  // namespace tombolo::trainer::cuda
