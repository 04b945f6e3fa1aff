#include "tools/emulation/network_script.h"

#include <algorithm>
#include <tuple>

#include "base/format.h"

namespace tombolo::emulation {
namespace {

// Below this rate packets are limited to 16 KiB, so that the bucket can be small. What a bucket holds passes
// at once after a pause: at 100 Mbit/s, 256 KiB are 21 ms of traffic, and 64 KiB are 5 ms. With a still
// smaller bucket, timers that fire late on busy cores reduce the rate: with 20 KiB the demo's steps took
// longer than the probed rates allow. Above this rate the cost of smaller packets would be noticeable.
constexpr double kSlowRate = 5e8;
constexpr unsigned kSlowPacket = 16 * 1024;
constexpr unsigned kSlowBurst = 64 * 1024;
// veth passes packets of up to 64 KiB whole, and the bucket must be larger than one packet.
constexpr unsigned kFastBurst = 256 * 1024;
// How many packets may wait until the relay gets the processor. The limit that is meant to act is the relay's
// own queue.
constexpr int kRelayQueue = 5000;

std::string shape(const std::string& interface, double bits_per_second) {
  // The queue holds 50 ms; packets that do not fit are dropped, as by a switch.
  return fmt::format("qdisc replace dev {} root tbf rate {:.0f}bit burst {} latency 50ms\n", interface,
                     bits_per_second, burst_bytes(bits_per_second));
}

std::string limit_packets(const std::string& interface, double bits_per_second) {
  if (bits_per_second > kSlowRate) return {};
  return fmt::format("link set dev {} gso_max_size {}\n", interface, kSlowPacket);
}

}  // namespace

unsigned burst_bytes(double bits_per_second) noexcept {
  // The burst is at least a millisecond of traffic, so that a timer that fires late does not reduce the rate.
  const auto millisecond = static_cast<unsigned>(std::min(bits_per_second / 8 * 1e-3, 1e9));
  return std::max(bits_per_second <= kSlowRate ? kSlowBurst : kFastBurst, millisecond);
}

std::pair<std::string, std::string> link_interfaces(std::size_t link) {
  return {fmt::format("l{}a", link), fmt::format("l{}b", link)};
}

NetworkScript make_network_script(const Spec& spec, const std::vector<std::string>& namespace_paths) {
  NetworkScript script;
  std::vector<std::string> segments = spec.segments();
  auto bridge = [&](const std::string& segment) {
    return fmt::format("br{}", std::find(segments.begin(), segments.end(), segment) - segments.begin());
  };
  script.hub_ip += "link set dev lo up\n";
  for (const std::string& segment : segments) {
    script.hub_ip +=
        fmt::format("link add name {0} type bridge\nlink set dev {0} addrgenmode none up\n", bridge(segment));
  }
  for (std::size_t h = 0; h < spec.hosts.size(); ++h) {
    const HostSpec& host = spec.hosts[h];
    std::string ip = "link set dev lo up\n";
    std::string tc;
    for (std::size_t n = 0; n < host.nics.size(); ++n) {
      const NicSpec& nic = host.nics[n];
      if (!nic.behind.empty()) {
        // Its frames pass the token bucket of the NIC whose port it shares, and have a MAC address of their
        // own.
        ip += fmt::format("link add link {0} name {1} type macvlan mode bridge\naddr add {2}/24 dev {1}\n",
                          nic.behind, nic.name, spec.address(h, n, false));
        ip += fmt::format("link set dev {} up\n", nic.name);
        continue;
      }
      std::string port = fmt::format("h{}n{}", h, n);
      script.hub_ip += fmt::format("link add name {} type veth peer name {} netns {}\n", port, nic.name,
                                   namespace_paths.at(h));
      script.hub_ip +=
          fmt::format("link set dev {} addrgenmode none master {} up\n", port, bridge(nic.segment));
      ip += fmt::format("link set dev {} addrgenmode none\n", nic.name);
      ip += fmt::format("addr add {}/24 dev {}\n", spec.address(h, n, false), nic.name);
      // Packets are also limited where not the NIC but a link behind it is shaped.
      if (!nic.shaped) ip += limit_packets(nic.name, nic.bits_per_second);
      if (nic.shaped) {
        script.hub_ip += limit_packets(port, nic.bits_per_second);
        script.hub_tc += shape(port, nic.bits_per_second);
        ip += limit_packets(nic.name, nic.bits_per_second);
        tc += shape(nic.name, nic.bits_per_second);
      }
      ip += fmt::format("link set dev {} up\n", nic.name);
    }
    script.host_ip.push_back(std::move(ip));
    script.host_tc.push_back(std::move(tc));
  }
  for (std::size_t l = 0; l < spec.links.size(); ++l) {
    const LinkSpec& link = spec.links[l];
    const auto [first, second] = link_interfaces(l);
    if (link.relayed()) {
      for (const auto& [end, segment] : {std::pair{first, link.first}, std::pair{second, link.second}}) {
        script.hub_ip += fmt::format("link set dev {} addrgenmode none txqueuelen {} master {} up\n", end,
                                     kRelayQueue, bridge(segment));
      }
      continue;
    }
    script.hub_ip += fmt::format("link add name {} type veth peer name {}\n", first, second);
    // What leaves an end's switch is shaped at that end.
    for (const auto& [end, segment, rate] : {std::tuple{first, link.first, link.bits_per_second},
                                             std::tuple{second, link.second, link.back()}}) {
      script.hub_ip += fmt::format("link set dev {} addrgenmode none master {} up\n", end, bridge(segment));
      script.hub_ip += limit_packets(end, rate);
      script.hub_tc += shape(end, rate);
    }
  }
  return script;
}

}  // namespace tombolo::emulation
