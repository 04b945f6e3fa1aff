// RDMA between processes: queue pairs over InfiniBand and RoCE NICs. This folder owns verbs: devices, GIDs,
// registered memory, and the connections over them.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "topology/files/cluster_file.h"
#include "transport/channel/control_channel.h"
#include "transport/rdma/nic_pair.h"
#include "transport/rdma/options.h"

namespace tombolo::transport::rdma {

class RdmaBackend final : public channel::ControlChannelBackend,
                          public std::enable_shared_from_this<RdmaBackend> {
 public:
  /// Opens the devices of the host's RDMA NICs; those that cannot be used are remembered with the reason. A
  /// NIC whose port is down is not among them: it can be used once its port is active.
  /// `idle_timeout` as in TcpOptions.
  RdmaBackend(const topology::Host& host, const RdmaOptions& options, Duration idle_timeout, Log log);
  Carrier carrier() const noexcept override { return Carrier::kRdma; }
  bool ready(const std::string& nic) const noexcept override;
  Resumes resumes() const noexcept override { return Resumes::kAlways; }
  std::unique_ptr<Connecting> set_up(channel::ControlChannel channel) override;

  /// Why RDMA cannot go over the NIC; empty where it can.
  std::string why_not(const std::string& nic) const;
  bool any() const noexcept { return !nics_.empty(); }

  /// The port of the NIC that has the address, in its present state. Throws where it cannot be used.
  Port port_at(const std::string& address) const;

 private:
  struct Usable {
    topology::Nic nic;
    std::shared_ptr<Device> device;
  };
  Port make_port(const Usable& usable, const std::string& address) const;

  RdmaOptions options_;
  Log log_;
  std::vector<Usable> nics_;
  std::map<std::string, std::string> problems_;  // by NIC
};

}  // namespace tombolo::transport::rdma
