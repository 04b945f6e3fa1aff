#include "transport/rdma/backend.h"

#include <algorithm>

#include "base/error.h"
#include "base/units.h"
#include "transport/rdma/connection_set_up.h"
#include "transport/rdma/gid.h"
#include "transport/rdma/timeouts.h"

namespace tombolo::transport::rdma {
namespace {

// A dead path is given up within this time, or within the idle timeout where that is shorter.
constexpr Duration kLongestSilence = std::chrono::seconds(40);
// Where another way is there, a dead one is left after half a second (seven tries of 67 ms) on NICs that keep
// to the time, and after two on those that take the four times as long that the specification allows.
constexpr int kResumableTimeout = 14;

bool may_carry(const topology::Nic& nic) {
  return !nic.emulated && !nic.rdma_device.empty() &&
         (nic.kind == topology::NicKind::kInfiniBand || nic.kind == topology::NicKind::kRoce);
}

}  // namespace

RdmaBackend::RdmaBackend(const topology::Host& host, const RdmaOptions& options, Duration idle_timeout,
                         Log log)
    : options_(options), log_(std::move(log)) {
  if (options_.timeout == 0) {
    options_.timeout = exponent_within(std::min(idle_timeout, kLongestSilence), options_.retries);
    options_.resumable_timeout = std::min(options_.timeout, kResumableTimeout);
  }
  for (const topology::Nic& nic : host.nics) {
    if (nic.kind == topology::NicKind::kIwarp && !nic.emulated)
      problems_[nic.name] = "no rdma over iWARP in this build";
    if (!may_carry(nic)) continue;
    try {
      Usable usable{nic, Devices::of_process().open(nic.rdma_device, log_)};
      // A port that is down in this moment has no GID of its network interface either. Its connections begin
      // elsewhere until it is back.
      if (usable.device->query_port(nic.rdma_port).state == IBV_PORT_ACTIVE)
        make_port(usable, nic.addresses.empty() ? std::string() : nic.addresses.front());
      else
        log_.info("rdma over NIC {} once port {} of RDMA device {} is active, which it is not now", nic.name,
                  nic.rdma_port, nic.rdma_device);
      nics_.push_back(std::move(usable));
    } catch (const Error& error) {
      problems_[nic.name] = error.what();
      log_.info("no rdma over NIC {}: {}", nic.name, error.what());
    }
  }
  if (any()) {
    log_.trace(
        "rdma: a silent peer is noticed within {} at most (acknowledgement timeout 2^{} * 4.096 us, {} "
        "retries)",
        format_seconds(to_seconds(worst_silence(options_.timeout, options_.retries))), options_.timeout,
        options_.retries);
  }
}

std::string RdmaBackend::why_not(const std::string& nic) const {
  if (std::ranges::any_of(nics_, [&](const Usable& usable) { return usable.nic.name == nic; })) return {};
  const auto found = problems_.find(nic);
  return found != problems_.end() ? found->second : "it has no RDMA device";
}

bool RdmaBackend::ready(const std::string& nic) const noexcept {
  const auto usable = std::ranges::find(nics_, nic, [](const Usable& one) { return one.nic.name; });
  if (usable == nics_.end()) return true;
  try {
    return !usable->device->lost() &&
           usable->device->query_port(usable->nic.rdma_port).state == IBV_PORT_ACTIVE;
  } catch (const Error&) {
    return false;
  }
}

Port RdmaBackend::port_at(const std::string& address) const {
  for (const Usable& usable : nics_) {
    if (std::ranges::find(usable.nic.addresses, address) != usable.nic.addresses.end())
      return make_port(usable, address);
  }
  fail(Cause::kUnsupported, "no usable RDMA NIC here has the address {}", address);
}

Port RdmaBackend::make_port(const Usable& usable, const std::string& address) const {
  const topology::Nic& nic = usable.nic;
  if (usable.device->lost()) fail(Cause::kSystem, "RDMA device {} reported a fatal error", nic.rdma_device);
  const ibv_port_attr facts = usable.device->query_port(nic.rdma_port);
  if (facts.state != IBV_PORT_ACTIVE)
    fail(Cause::kUnsupported, "port {} of RDMA device {} is not active", nic.rdma_port, nic.rdma_device);
  Port port;
  port.device = usable.device;
  port.number = nic.rdma_port;
  port.facts.nic = nic.name;
  port.facts.kind =
      facts.link_layer == IBV_LINK_LAYER_ETHERNET ? topology::NicKind::kRoce : topology::NicKind::kInfiniBand;
  port.facts.lid = facts.lid;
  port.facts.mtu = static_cast<std::uint8_t>(facts.active_mtu);
  port.facts.longest = facts.max_msg_sz;
  const std::vector<topology::Gid> gids = usable.device->gids(nic.rdma_port);
  const topology::Gid& gid = choose_gid(gids, port.facts.kind, address, options_.gid_index);
  port.gid_index = gid.index;
  port.facts.roce_v2 = gid.type == "RoCE v2";
  ibv_gid value{};
  if (const int error = usable.device->verbs().query_gid(
          usable.device->context(), static_cast<std::uint8_t>(port.number), gid.index, &value);
      error != 0) {
    fail(Cause::kSystem, "GID {} of port {} of RDMA device {} cannot be read", gid.index, port.number,
         nic.rdma_device);
  }
  std::ranges::copy(std::as_bytes(std::span(value.raw)), port.facts.gid.begin());
  return port;
}

std::unique_ptr<Connecting> RdmaBackend::set_up(channel::ControlChannel channel) {
  return std::make_unique<ConnectionSetUp>(
      std::move(channel),
      [self = shared_from_this()](const std::string& address) { return self->port_at(address); }, options_);
}

}  // namespace tombolo::transport::rdma
