// UCX between processes, for fabrics that this program's own RDMA and TCP do not reach, and where the user
// asks for it. This folder owns libucp: loading it, its contexts, workers and log, and the connections over
// it.
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
#include "transport/ucx/context.h"
#include "transport/ucx/options.h"

namespace tombolo::transport::ucx {

/// Whether UCX should be loaded for this host although the user did not ask for it by name: the host has a
/// real RDMA NIC.
bool worth_loading(const topology::Host& host);

class UcxBackend final : public channel::ControlChannelBackend,
                         public std::enable_shared_from_this<UcxBackend> {
 public:
  /// Does not load the library yet. `without_tcp`: between RDMA NICs UCX may not use its own tcp, because
  /// this program has its own.
  UcxBackend(const topology::Host& host, UcxOptions options, bool without_tcp, Log log);
  Carrier carrier() const noexcept override { return Carrier::kUcx; }
  std::unique_ptr<Connecting> set_up(channel::ControlChannel channel) override;

  /// Loads UCX now. Returns why it cannot be used; empty where it can.
  std::string why_not();

 private:
  std::shared_ptr<const UcxFunctions> functions();
  std::shared_ptr<Context> context_for(const std::vector<std::string>& addresses, topology::NicKind kind,
                                       bool without_tcp);
  std::string device_of(const std::string& address, topology::NicKind kind) const;

  topology::Host host_;
  UcxOptions options_;
  bool without_tcp_;
  Log log_;
  std::mutex lock_;
  std::shared_ptr<const UcxFunctions> functions_;
  std::map<std::pair<std::string, std::string>, std::shared_ptr<Context>>
      contexts_;  ///< by devices, transports
};

}  // namespace tombolo::transport::ucx
