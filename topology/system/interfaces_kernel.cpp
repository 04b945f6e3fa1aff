#include "topology/system/interfaces_kernel.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "base/error.h"

namespace tombolo::topology {
namespace {

bool ask(int socket, const std::string& name, unsigned long request, ifreq& answer) {
  if (name.size() >= IFNAMSIZ) return false;
  std::memcpy(answer.ifr_name, name.c_str(), name.size() + 1);
  return ::ioctl(socket, request, &answer) == 0;
}

/// Mbit/s by ETHTOOL_GLINKSETTINGS; 0 where unknown.
std::uint32_t link_speed(int socket, const std::string& name) {
  // The kernel returns the (negated) length of the answer's masks on the first call, and expects it on the
  // second.
  constexpr std::size_t kMaskWords = 3 * 127;
  alignas(ethtool_link_settings) std::array<std::byte, sizeof(ethtool_link_settings) + 4 * kMaskWords> room{};
  auto* settings = reinterpret_cast<ethtool_link_settings*>(room.data());
  settings->cmd = ETHTOOL_GLINKSETTINGS;
  ifreq request{};
  request.ifr_data = reinterpret_cast<char*>(settings);
  if (!ask(socket, name, SIOCETHTOOL, request) || settings->link_mode_masks_nwords >= 0) return 0;
  settings->link_mode_masks_nwords = static_cast<__s8>(-settings->link_mode_masks_nwords);
  settings->cmd = ETHTOOL_GLINKSETTINGS;
  if (!ask(socket, name, SIOCETHTOOL, request)) return 0;
  return settings->speed == static_cast<__u32>(SPEED_UNKNOWN) ? 0 : settings->speed;
}

std::string text_of(const sockaddr* address, const std::string& interface) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address->sa_family == AF_INET) {
    const auto* in = reinterpret_cast<const sockaddr_in*>(address);
    ::inet_ntop(AF_INET, &in->sin_addr, text.data(), text.size());
    return text.data();
  }
  const auto* in6 = reinterpret_cast<const sockaddr_in6*>(address);
  ::inet_ntop(AF_INET6, &in6->sin6_addr, text.data(), text.size());
  // A link-local address is only valid together with its interface.
  return IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr) ? std::string(text.data()) + "%" + interface : text.data();
}

/// The order of addresses: IPv4, global IPv6, link-local IPv6.
int preference(const std::string& address) {
  if (address.find(':') == std::string::npos) return 0;
  return address.find('%') == std::string::npos ? 1 : 2;
}

}  // namespace

KernelInterfaces::KernelInterfaces() {
  socket_ = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket_ < 0) socket_ = ::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket_ < 0) fail_errno(errno, "listing the network interfaces: socket(AF_INET, SOCK_DGRAM)");
  if (struct if_nameindex* all = ::if_nameindex()) {
    for (auto* entry = all; entry->if_index != 0; ++entry) {
      list_.emplace_back(entry->if_name, static_cast<int>(entry->if_index));
    }
    ::if_freenameindex(all);
  }
  std::sort(list_.begin(), list_.end());
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) == 0) {
    for (const ifaddrs* entry = all; entry != nullptr; entry = entry->ifa_next) {
      if (entry->ifa_addr == nullptr) continue;
      if (entry->ifa_addr->sa_family != AF_INET && entry->ifa_addr->sa_family != AF_INET6) continue;
      addresses_[entry->ifa_name].push_back(text_of(entry->ifa_addr, entry->ifa_name));
    }
    ::freeifaddrs(all);
  }
  for (auto& [name, addresses] : addresses_) {
    std::stable_sort(addresses.begin(), addresses.end(),
                     [](const auto& a, const auto& b) { return preference(a) < preference(b); });
  }
}

KernelInterfaces::~KernelInterfaces() {
  if (socket_ >= 0) ::close(socket_);
}

bool KernelInterfaces::has_hardware_address(const std::string& name, const std::string& address) const {
  ifreq request{};
  if (!ask(socket_, name, SIOCGIFHWADDR, request)) return false;
  // The ioctl gives at most 14 bytes; InfiniBand's address has 20, and a TUN interface has none.
  std::size_t length = 0;
  if (request.ifr_hwaddr.sa_family == ARPHRD_ETHER || request.ifr_hwaddr.sa_family == ARPHRD_LOOPBACK)
    length = 6;
  if (request.ifr_hwaddr.sa_family == ARPHRD_INFINIBAND) length = 14;
  std::string text;
  for (std::size_t i = 0; i < length; ++i) {
    text +=
        fmt::format("{}{:02x}", i > 0 ? ":" : "", static_cast<unsigned char>(request.ifr_hwaddr.sa_data[i]));
  }
  return address.starts_with(text);
}

std::vector<std::string> KernelInterfaces::addresses(const std::string& name) const {
  auto found = addresses_.find(name);
  return found != addresses_.end() ? found->second : std::vector<std::string>{};
}

std::string KernelInterfaces::driver(const std::string& name) const {
  ethtool_drvinfo info{};
  info.cmd = ETHTOOL_GDRVINFO;
  ifreq request{};
  request.ifr_data = reinterpret_cast<char*>(&info);
  if (!ask(socket_, name, SIOCETHTOOL, request)) return {};
  return std::string(info.driver, ::strnlen(info.driver, sizeof info.driver));
}

void KernelInterfaces::read_state(Interface& interface) const {
  ifreq request{};
  if (ask(socket_, interface.nic.name, SIOCGIFFLAGS, request)) {
    auto flags = static_cast<unsigned>(request.ifr_flags);
    interface.enabled = (flags & IFF_UP) != 0;
    interface.nic.state = interface.enabled && (flags & IFF_RUNNING) != 0 ? NicState::kUp : NicState::kDown;
  }
  if (ask(socket_, interface.nic.name, SIOCGIFMTU, request)) interface.nic.mtu = request.ifr_mtu;
}

void KernelInterfaces::read_all(Interface& interface) const {
  Nic& nic = interface.nic;
  read_state(interface);
  ifreq request{};
  if (ask(socket_, nic.name, SIOCGIFFLAGS, request)) {
    auto flags = static_cast<unsigned>(request.ifr_flags);
    if ((flags & IFF_LOOPBACK) != 0) {
      nic.role = NicRole::kLoopback;
      interface.what = "loopback";
    } else if ((flags & IFF_POINTOPOINT) != 0) {
      nic.role = NicRole::kTunnel;
      interface.what = "tunnel";
    }
  }
  nic.driver = driver(nic.name);
  nic.rate_bits_per_second = std::uint64_t{link_speed(socket_, nic.name)} * 1'000'000;
}

}  // namespace tombolo::topology
