// How two ends set up queue pairs between them: they exchange set-up messages over the control channel, then
// each end tests every queue pair by a write.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "transport/channel/channel_set_up.h"
#include "transport/rdma/agreed.h"

namespace tombolo::transport::rdma {

class ConnectionSetUp final : public channel::ChannelSetUp<SetUpMessage> {
 public:
  /// The port of the NIC with that address; throws where there is none.
  using PortAt = std::function<Port(const std::string& address)>;
  ConnectionSetUp(channel::ControlChannel channel, PortAt port_at, const RdmaOptions& options);

 private:
  Kind hear(const SetUpMessage& message) override;
  void watch_test() override;
  bool append_test_handles(std::vector<pollfd>& handles) const override;
  std::unique_ptr<Connection> make() override;

  void offer();
  void hear_offer(const SetUpMessage& message);
  void hear_answer(const SetUpMessage& message);
  void make_nic_pairs(std::vector<Port> ports, std::size_t queue_pairs_per_nic_pair);
  SetUpMessage mine(Kind kind) const;
  void connect_all(const SetUpMessage& message);
  void start_test();
  void note(const ibv_wc& completion);

  Agreed agreed_;
  PortAt port_at_;
  // Connecting end: of the NIC pairs offered.
  std::vector<Port> ports_;
  std::vector<std::string> peer_addresses_;
  std::vector<NicPairFacts> facts_;
  std::uint64_t token_ = 0;
  std::size_t queue_pairs_per_nic_pair_ = 1;
  std::vector<bool> arrived_, acknowledged_;
  mutable std::vector<ibv_wc> early_;
};

}  // namespace tombolo::transport::rdma
