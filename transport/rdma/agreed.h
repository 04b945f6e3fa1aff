// What the two ends of a connection have agreed on, and the work requests that both set-up and connection
// post.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "transport/rdma/area.h"
#include "transport/rdma/nic_pair.h"
#include "transport/rdma/options.h"
#include "transport/rdma/set_up_message.h"

namespace tombolo::transport::rdma {

struct Agreed {
  AreasPointer areas;
  std::vector<std::unique_ptr<NicPair>> nic_pairs;  ///< after the areas: destroyed before them
  std::vector<QueuePair*> queue_pairs;  ///< the control pair, then payload pairs NIC pair by NIC pair in turn
  std::vector<NicPairFacts> peer_nic_pairs;
  std::uint64_t peer_area = 0;
  std::size_t eager_bytes = 0;
  RdmaOptions options;                           ///< resolved: timeout is set
  std::vector<std::string> peer_addresses = {};  ///< connecting end: of the peer's NICs, by NIC pair
};

/// Immediate data that no payload has, because its count of parts is zero.
inline constexpr std::uint32_t kTestMark = 0xffff;

/// All return an errno; 0 for success.
int post_slot_receive(Agreed& agreed, std::uint32_t slot) noexcept;
int post_empty_receive(Agreed& agreed, std::size_t queue_pair) noexcept;
/// Writes the token from the closed area into the other end's open area, with immediate data.
int post_test(Agreed& agreed, std::size_t queue_pair) noexcept;

}  // namespace tombolo::transport::rdma
