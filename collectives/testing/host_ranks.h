// For tests of collectives of one host: groups of two ranks in one thread, what ranks give, and a kernel that
// refuses to read their buffers.
#pragma once

#include <sys/uio.h>

#include <cerrno>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "collectives/host/host_collective.h"
#include "collectives/testing/elements.h"
#include "transport/testing/forwarding_kernel.h"

namespace tombolo::collectives::test {

/// Byte `at` of what a rank gives in a call.
inline std::byte given_byte(int rank, std::size_t call, std::size_t at) {
  return static_cast<std::byte>((at * 2654435761U ^ (at >> 11)) + static_cast<std::size_t>(rank) * 89 +
                                call * 37);
}

inline std::byte sum_of_given_bytes(int ranks, std::size_t call, std::size_t at) {
  unsigned sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += std::to_integer<unsigned>(given_byte(rank, call, at));
  return static_cast<std::byte>(sum);
}

/// Byte `at` of the output of `rank`, one of two, which gets something.
inline std::byte given_to_one_of_two(const HostCall& request, std::size_t call, int rank, std::size_t at) {
  const std::size_t bytes = request.problem.bytes();
  const int from = static_cast<int>(at / bytes);
  switch (request.collective) {
    case Collective::kAllReduce:
    case Collective::kReduce:
      return sum_of_given_bytes(2, call, at);
    case Collective::kBroadcast:
      return given_byte(request.problem.root, call, at);
    case Collective::kAllGather:
    case Collective::kGather:
      return given_byte(from, call, at % bytes);
    case Collective::kScatter:
      return given_byte(request.problem.root, call, static_cast<std::size_t>(rank) * bytes + at);
    default:
      return given_byte(from, call, static_cast<std::size_t>(rank) * bytes + at % bytes);
  }
}

/// Groups of so many ranks, of which `create(rank)` makes each one's.
template <typename Create>
std::vector<std::unique_ptr<HostGroup>> formed(int ranks, Create create) {
  std::vector<std::unique_ptr<HostGroup>> groups;
  std::vector<HostCard> cards;
  for (int rank = 0; rank < ranks; ++rank) {
    groups.push_back(create(rank));
    cards.push_back(groups.back()->card());
  }
  for (int rank = 0; rank < ranks; ++rank) groups[static_cast<std::size_t>(rank)]->join(cards, rank);
  return groups;
}

template <typename Create>
std::vector<std::unique_ptr<HostGroup>> formed_pair(Create create) {
  return formed(2, create);
}

/// The collectives of the groups that are formed; fewer than there are groups where one is not.
inline std::vector<HostCollective> collectives_of(const std::vector<std::unique_ptr<HostGroup>>& groups,
                                                  const Clock& clock = Clock::steady()) {
  std::vector<HostCollective> all;
  for (const auto& group : groups)
    if (group->look() == HostGroup::Standing::kFormed) all.emplace_back(*group, clock);
  return all;
}

/// Refuses to read other processes' memory.
class RefusingKernel final : public transport::test::ForwardingKernel {
 public:
  bool forbids = false;
  const Bytes* unreadable = nullptr;
  std::span<const std::byte> unreadable_bytes;
  int unreadable_error = EFAULT;
  std::size_t reads = 0;  // of buffers

  ssize_t process_vm_readv(pid_t process, const iovec* mine, unsigned long count, const iovec* theirs,
                           unsigned long their_count, unsigned long flags) noexcept override {
    const auto* from = static_cast<const std::byte*>(theirs[0].iov_base);
    const bool within = unreadable != nullptr && theirs[0].iov_len > 0 && from >= unreadable->data() &&
                        from < unreadable->data() + unreadable->size();
    const bool reaches = theirs[0].iov_len > 0 && from < unreadable_bytes.data() + unreadable_bytes.size() &&
                         from + theirs[0].iov_len > unreadable_bytes.data();
    reads += theirs[0].iov_len > 0 ? 1 : 0;
    if (forbids || within || reaches) {
      errno = forbids ? EPERM : unreadable_error;
      return -1;
    }
    return ForwardingKernel::process_vm_readv(process, mine, count, theirs, their_count, flags);
  }
};

}  // namespace tombolo::collectives::test
