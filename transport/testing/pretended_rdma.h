// For tests: connections of the rdma transport over pretended_verbs.h, directly or by a router.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "transport/observe/meters.h"
#include "transport/rdma/connection_set_up.h"
#include "transport/testing/control_channels.h"
#include "transport/testing/pretended_verbs.h"

namespace tombolo::transport::test {

inline std::shared_ptr<rdma::Device> pretended_device(std::size_t number) {
  return std::make_shared<rdma::Device>(PretendedVerbs::instance().functions(), PretendedVerbs::name(number),
                                        Log());
}

inline rdma::Port pretended_port(std::shared_ptr<rdma::Device> device, const std::string& nic) {
  rdma::Port port;
  const ibv_port_attr facts = device->query_port(1);
  port.device = std::move(device);
  port.facts.nic = nic;
  port.facts.roce_v2 = true;
  port.facts.mtu = static_cast<std::uint8_t>(facts.active_mtu);
  port.facts.longest = facts.max_msg_sz;
  return port;
}

/// The devices of one host, each opened once, and the ports at addresses "nic0", "nic1", ...
class PretendedHost {
 public:
  PretendedHost(std::size_t first, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) devices_.push_back(pretended_device(first + i));
  }
  const std::shared_ptr<rdma::Device>& device(std::size_t number) const { return devices_.at(number); }
  /// For ConnectionSetUp.
  rdma::Port at(const std::string& address) const {
    for (std::size_t i = 0; i < devices_.size(); ++i)
      if (address == "nic" + std::to_string(i)) return pretended_port(devices_[i], address);
    fail(Cause::kUnsupported, "no usable RDMA NIC here has the address {}", address);
  }
  static std::vector<std::pair<Offer, Offer>> nic_pairs(std::size_t count) {
    std::vector<std::pair<Offer, Offer>> pairs(count);
    for (std::size_t i = 0; i < count; ++i)
      pairs[i].first.address = pairs[i].second.address = "nic" + std::to_string(i);
    return pairs;
  }

 private:
  std::vector<std::shared_ptr<rdma::Device>> devices_;
};

inline RdmaOptions pretended_options(int queue_pairs = 1, std::size_t eager = 4096) {
  RdmaOptions options;
  options.queue_pairs = queue_pairs;
  options.eager_bytes = eager;
  options.timeout = 14;
  return options;
}

/// Two hosts of up to two devices each, and connections between them.
class PretendedFabric {
 public:
  explicit PretendedFabric(std::size_t nics = 1)
      : left(std::make_shared<PretendedHost>(0, nics)),
        right(std::make_shared<PretendedHost>(2, nics)),
        nics_(nics) {}

  std::unique_ptr<rdma::ConnectionSetUp> set_up(Descriptor socket, bool connecting,
                                                const RdmaOptions& options,
                                                const Clock& clock = Clock::steady()) const {
    channel::ControlChannel channel = control_channel(std::move(socket), connecting, clock, log);
    channel.route.transport = "rdma";
    channel.meters = meters;
    if (connecting) channel.nic_pairs = PretendedHost::nic_pairs(nics_);
    return std::make_unique<rdma::ConnectionSetUp>(
        std::move(channel),
        [host = connecting ? left : right](const std::string& address) { return host->at(address); },
        options);
  }
  Pair connect(const RdmaOptions& from, const RdmaOptions& to, const Clock& clock = Clock::steady()) const {
    auto sockets = local_pair();
    const auto near = set_up(std::move(sockets.first), true, from, clock);
    const auto far = set_up(std::move(sockets.second), false, to, clock);
    Pair made;
    for (const auto deadline = soon(); !(made.first && made.second);) {
      if (!made.first) made.first = near->poll();
      if (!made.second) made.second = far->poll();
      if (deadline.passed()) {
        ADD_FAILURE() << "not connected";
        break;
      }
    }
    return made;
  }
  Pair connect(const RdmaOptions& both = pretended_options()) const { return connect(both, both); }

  std::shared_ptr<PretendedHost> left, right;
  std::shared_ptr<Meters> meters = std::make_shared<Meters>();  ///< of both ends
  Log log;                                                      ///< of both ends

 private:
  std::size_t nics_;
};

/// As RdmaBackend, with a carrier of its own: that one's rules ask for real NICs.
class PretendedRdmaBackend final : public channel::ControlChannelBackend {
 public:
  static constexpr auto kCarrier = static_cast<Carrier>(6);

  PretendedRdmaBackend(const std::string& host, std::size_t nics, const RdmaOptions& options)
      : host_(std::make_shared<PretendedHost>(host == "left" ? 0 : 2, nics)),
        nics_(nics),
        options_(options) {}
  Carrier carrier() const noexcept override { return kCarrier; }
  Resumes resumes() const noexcept override { return Resumes::kAlways; }
  std::unique_ptr<Connecting> set_up(channel::ControlChannel channel) override {
    if (channel.connecting) channel.nic_pairs = PretendedHost::nic_pairs(nics_);
    return std::make_unique<rdma::ConnectionSetUp>(
        std::move(channel), [host = host_](const std::string& address) { return host->at(address); },
        options_);
  }

 private:
  std::shared_ptr<PretendedHost> host_;
  std::size_t nics_;
  RdmaOptions options_;
};

/// Of the router's options for RDMA only the traffic class counts.
inline BackendMaker pretended_rdma(std::size_t nics = 1, int queue_pairs = 1, std::size_t eager = 4096) {
  return [=](const RouterOptions& given) {
    RdmaOptions options = pretended_options(queue_pairs, eager);
    options.traffic_class = given.rdma.traffic_class;
    return std::make_shared<PretendedRdmaBackend>(given.host.name, nics, options);
  };
}

/// For TestedBackend::options.
template <std::size_t kNics, int kQueuePairs, std::size_t kEager>
RouterOptions pretended_rdma_options(const std::string& host) {
  RouterOptions options = router_options(host);
  options.extra_backends = {pretended_rdma(kNics, kQueuePairs, kEager)};
  return options;
}

}  // namespace tombolo::transport::test
