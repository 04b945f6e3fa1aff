#include "transport/ucx/backend.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "base/error.h"
#include "transport/ucx/connection_set_up.h"
#include "transport/ucx/ucx_log.h"

namespace tombolo::transport::ucx {
namespace {

/// The kernel's name of the interface that has the address; empty where none has.
std::string interface_of(const std::string& address) {
  if (address.starts_with("127.") || address == "::1") return "lo";
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owned(list, ::freeifaddrs);
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr) continue;
    std::array<char, INET6_ADDRSTRLEN> text{};
    const void* at = nullptr;
    if (one->ifa_addr->sa_family == AF_INET) {
      at = &reinterpret_cast<const sockaddr_in*>(one->ifa_addr)->sin_addr;
    } else if (one->ifa_addr->sa_family == AF_INET6) {
      at = &reinterpret_cast<const sockaddr_in6*>(one->ifa_addr)->sin6_addr;
    }
    if (at != nullptr && ::inet_ntop(one->ifa_addr->sa_family, at, text.data(), text.size()) != nullptr &&
        address == text.data()) {
      return one->ifa_name;
    }
  }
  return {};
}

}  // namespace

bool worth_loading(const topology::Host& host) {
  return std::ranges::any_of(host.nics, [](const topology::Nic& nic) {
    return nic.usable && !nic.emulated && topology::is_rdma(nic.kind) && !nic.rdma_device.empty();
  });
}

UcxBackend::UcxBackend(const topology::Host& host, UcxOptions options, bool without_tcp, Log log)
    : host_(host), options_(std::move(options)), without_tcp_(without_tcp), log_(std::move(log)) {}

std::shared_ptr<const UcxFunctions> UcxBackend::functions() {
  if (functions_) return functions_;
  std::string problem;
  functions_ = UcxFunctions::load(&problem);
  if (!functions_) fail(Cause::kUnsupported, "{}", problem);
  take_log_of(functions_->ucs, log_);
  return functions_;
}

std::string UcxBackend::why_not() {
  std::lock_guard guard(lock_);
  try {
    functions();
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

std::string UcxBackend::device_of(const std::string& address, topology::NicKind kind) const {
  const auto nic = std::ranges::find_if(host_.nics, [&](const topology::Nic& one) {
    return std::ranges::find(one.addresses, address) != one.addresses.end();
  });
  if (nic != host_.nics.end() && topology::is_rdma(kind) && !nic->emulated && !nic->rdma_device.empty())
    return fmt::format("{}:{}", nic->rdma_device, nic->rdma_port);
  return interface_of(address);
}

std::shared_ptr<Context> UcxBackend::context_for(const std::vector<std::string>& addresses,
                                                 topology::NicKind kind, bool without_tcp) {
  std::string devices, transports = options_.transports;
  // UCX's own variables take precedence.
  if (std::getenv("UCX_NET_DEVICES") == nullptr) {
    for (const std::string& address : addresses) {
      const std::string device = device_of(address, kind);
      if (device.empty()) fail(Cause::kUnsupported, "no interface here has the address {}", address);
      if (devices.find(device) == std::string::npos) devices += (devices.empty() ? "" : ",") + device;
    }
  }
  if (transports.empty() && std::getenv("UCX_TLS") == nullptr && without_tcp && topology::is_rdma(kind))
    transports = "^tcp";
  std::lock_guard guard(lock_);
  auto& context = contexts_[{devices, transports}];
  if (!context) context = std::make_shared<Context>(functions(), devices, transports);
  return context;
}

std::unique_ptr<Connecting> UcxBackend::set_up(channel::ControlChannel channel) {
  return std::make_unique<ConnectionSetUp>(
      std::move(channel),
      [self = shared_from_this()](const std::vector<std::string>& addresses, topology::NicKind kind,
                                  bool without_tcp) {
        return self->context_for(addresses, kind, without_tcp);
      },
      without_tcp_);
}

}  // namespace tombolo::transport::ucx
