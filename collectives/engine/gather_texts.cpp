#include "collectives/engine/gather_texts.h"

#include <algorithm>
#include <cstdint>

#include "base/error.h"

namespace tombolo::collectives {
namespace {

constexpr std::uint64_t kMostForEveryRank = 1U << 20;
constexpr std::uint64_t kMostForRankZero = 1U << 28;  // of each rank: a timeline takes most

std::vector<std::string> on_every_rank(Communicator& communicator, const std::string& own,
                                       const std::vector<std::uint64_t>& lengths) {
  const std::uint64_t longest = *std::max_element(lengths.begin(), lengths.end());
  TOMBOLO_CHECK(longest <= kMostForEveryRank, "longest={}", longest);
  std::vector<char> padded(longest), all(longest * lengths.size());
  std::copy(own.begin(), own.end(), padded.begin());
  if (longest > 0) communicator.all_gather(padded.data(), all.data(), longest, DataType::kUint8);
  std::vector<std::string> texts;
  for (std::size_t rank = 0; rank < lengths.size(); ++rank) {
    texts.emplace_back(all.data() + rank * longest, lengths[rank]);
  }
  return texts;
}

std::vector<std::string> on_rank_zero(Communicator& communicator, const std::string& own,
                                      const std::vector<std::uint64_t>& lengths) {
  if (communicator.rank() != 0) {
    if (own.size() > kMostForRankZero) {
      fail(Cause::kInvalidUsage, "a text of {} bytes is too long to gather (at most {})", own.size(),
           kMostForRankZero);
    }
    communicator.send(own.data(), own.size(), 0);
    return {};
  }
  std::vector<std::string> texts{own};
  for (std::size_t rank = 1; rank < lengths.size(); ++rank) {
    if (lengths[rank] > kMostForRankZero)
      fail(Cause::kRemote, "rank {} has a text of {} bytes; at most {}", rank, lengths[rank],
           kMostForRankZero);
    texts.emplace_back(lengths[rank], '\0');
    communicator.receive(texts.back().data(), texts.back().size(), static_cast<int>(rank));
  }
  return texts;
}

}  // namespace

std::vector<std::string> gather_texts(Communicator& communicator, const std::string& own, GatherTo to) {
  const std::uint64_t length = own.size();
  if (to == GatherTo::kEveryRank && length > kMostForEveryRank) {
    fail(Cause::kInvalidUsage, "a text of {} bytes is too long to gather on every rank (at most {})", length,
         kMostForEveryRank);
  }
  std::vector<std::uint64_t> lengths(static_cast<std::size_t>(communicator.size()));
  communicator.all_gather(&length, lengths.data(), 1, DataType::kUint64);
  return to == GatherTo::kEveryRank ? on_every_rank(communicator, own, lengths)
                                    : on_rank_zero(communicator, own, lengths);
}

}  // namespace tombolo::collectives
