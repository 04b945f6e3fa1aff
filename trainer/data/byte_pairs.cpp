#include "trainer/data/byte_pairs.h"

#include <queue>
#include <tuple>
#include <utility>

namespace tombolo::trainer {
namespace {

std::uint64_t key_of(std::int32_t left, std::int32_t right) noexcept {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
         static_cast<std::uint32_t>(right);
}

constexpr std::uint32_t kNone = ~std::uint32_t{0};

/// A token of the piece, in a doubly linked list that shrinks with every merge.
struct Node {
  std::int32_t token;  ///< negative: merged into the one before it
  std::uint32_t before, after;
};

/// A merge that is possible, or was when it was noted.
struct Candidate {
  std::int32_t rank;
  std::uint32_t at;  ///< index of the left node
  std::int32_t left, right;
  std::int32_t result;
  bool operator<(const Candidate& other) const noexcept {
    return std::tie(other.rank, other.at) < std::tie(rank, at);  // the top of a heap is its greatest
  }
};

}  // namespace

BytePairs::BytePairs(const std::vector<Merge>& merges) {
  pairs_.reserve(merges.size());
  for (const Merge& merge : merges) {
    const auto [found, added] =
        pairs_.try_emplace(key_of(merge.left, merge.right), Result{merge.rank, merge.result});
    if (!added && merge.rank < found->second.rank) found->second = {merge.rank, merge.result};
  }
}

const BytePairs::Result* BytePairs::find(std::int32_t left, std::int32_t right) const {
  const auto found = pairs_.find(key_of(left, right));
  return found == pairs_.end() ? nullptr : &found->second;
}

void BytePairs::merge(std::vector<std::int32_t>& tokens) const {
  const auto count = static_cast<std::uint32_t>(tokens.size());
  if (count < 2) return;
  std::vector<Node> nodes(count);
  for (std::uint32_t at = 0; at < count; ++at)
    nodes[at] = {tokens[at], at == 0 ? kNone : at - 1, at + 1 == count ? kNone : at + 1};
  std::vector<Candidate> noted;
  noted.reserve(count);
  std::priority_queue<Candidate> candidates({}, std::move(noted));
  const auto note = [&](std::uint32_t at) {
    if (at == kNone || nodes[at].after == kNone) return;
    const std::int32_t left = nodes[at].token, right = nodes[nodes[at].after].token;
    if (const Result* result = find(left, right))
      candidates.push({result->rank, at, left, right, result->token});
  };
  for (std::uint32_t at = 0; at < count; ++at) note(at);
  while (!candidates.empty()) {
    const Candidate next = candidates.top();
    candidates.pop();
    Node& left = nodes[next.at];
    // A merge nearby may have changed either token since.
    if (left.token != next.left || left.after == kNone || nodes[left.after].token != next.right) continue;
    Node& right = nodes[left.after];
    left.token = next.result;
    left.after = right.after;
    right.token = -1;
    if (left.after != kNone) nodes[left.after].before = next.at;
    note(left.before);
    note(next.at);
  }
  tokens.clear();
  for (std::uint32_t at = 0; at != kNone; at = nodes[at].after) tokens.push_back(nodes[at].token);
}

}  // namespace tombolo::trainer
