// What the two ends of a connection have agreed on, and how its messages are told apart.
#pragma once

#include <cstdint>
#include <memory>

#include "transport/ucx/worker.h"

namespace tombolo::transport::ucx {

struct Agreed {
  std::unique_ptr<Worker> worker;
  std::uint64_t token = 0, peer_token = 0;  ///< of this end and of the peer
};

enum class TagKind : std::uint64_t { kMessage = 0, kCredit = 1, kTest = 2 };

/// Every message has a tag of its own, which only one receive matches: it is made from the kind, the number,
/// and the token that the receiving end drew. A stranger that reaches a worker's port cannot guess it.
inline std::uint64_t tag_of(std::uint64_t token, TagKind kind, std::uint64_t number) noexcept {
  return token ^ (static_cast<std::uint64_t>(kind) << 62 | number);
}

}  // namespace tombolo::transport::ucx
