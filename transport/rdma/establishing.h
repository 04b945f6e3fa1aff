// How two ends come to queue pairs between them: cards over the link, then a test write through every pair.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "transport/bootstrap/channel_set_up.h"
#include "transport/rdma/agreed.h"

namespace tombolo::transport::rdma {

class Establishing final : public bootstrap::ChannelSetUp<Card> {
 public:
  /// The port of the NIC with that address; throws where there is none.
  using PortAt = std::function<Port(const std::string& address)>;
  Establishing(bootstrap::ControlChannel channel, PortAt port_at, const RdmaOptions& options);

 private:
  Kind hear(const Card& card) override;
  void watch_test() override;
  bool append_test_handles(std::vector<pollfd>& handles) const override;
  std::unique_ptr<Connection> make() override;

  void offer();
  void hear_offer(const Card& card);
  void hear_answer(const Card& card);
  void make_lanes(std::vector<Port> ports, std::size_t pairs_per_lane);
  Card mine(Kind kind) const;
  void connect_all(const Card& card);
  void start_test();
  void note(const ibv_wc& completion);

  Agreed agreed_;
  PortAt port_at_;
  std::vector<Port> ports_;  // connecting end: of the lanes offered
  std::vector<LaneFacts> facts_;
  std::uint64_t token_ = 0;
  std::size_t pairs_per_lane_ = 1;
  std::vector<bool> arrived_, acknowledged_;
  mutable std::vector<ibv_wc> early_;
};

}  // namespace tombolo::transport::rdma
