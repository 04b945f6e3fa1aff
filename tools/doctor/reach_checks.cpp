// Checks of the cluster file, and of the path to another machine.
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>

#include "base/error.h"
#include "tools/doctor/checks.h"
#include "tools/process/subprocess.h"

namespace tombolo::doctor {
namespace {

std::string numeric(const sockaddr* address, socklen_t length) {
  std::array<char, NI_MAXHOST> text{};
  int status = ::getnameinfo(address, length, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST);
  return status == 0 ? std::string(text.data()) : std::string("?");
}

const topology::Nic* nic_of(const Facts& facts, const std::string& address) {
  for (const auto& nic : facts.machine.nics) {
    if (std::find(nic.addresses.begin(), nic.addresses.end(), address) != nic.addresses.end()) return &nic;
  }
  return nullptr;
}

}  // namespace

std::vector<Check> check_cluster_file(const std::string& path, const Facts& facts,
                                      const std::string& host_name) {
  topology::ClusterFile cluster;
  try {
    cluster = topology::ClusterFile::load(path);
  } catch (const Error& error) {
    return {{"cluster file", Status::kFailed, error.what(), "docs/cluster-file.md describes the format"}};
  }
  std::vector<Check> checks{{"cluster file",
                             Status::kOk,
                             fmt::format("{}: {} hosts, {} links{}", path, cluster.hosts.size(),
                                         cluster.links.size(), cluster.emulated ? ", emulated" : ""),
                             {}}};
  const topology::Host* host = cluster.find_host(host_name);
  if (host == nullptr && cluster.emulated) {
    checks.push_back({"this host", Status::kOk, "not in the file, whose hosts are emulated", {}});
    return checks;
  }
  if (host == nullptr) {
    std::string known;
    for (const auto& each : cluster.hosts) known += (known.empty() ? "" : ", ") + each.name;
    checks.push_back({"this host", Status::kFailed, fmt::format("'{}' is not among {}", host_name, known),
                      "set TOMBOLO_HOST to this machine's name in the file"});
    return checks;
  }
  for (const auto& nic : host->nics) {
    if (cluster.emulated) break;  // its NICs need not be this machine's
    bool here = std::any_of(facts.machine.nics.begin(), facts.machine.nics.end(),
                            [&](const auto& each) { return each.name == nic.name; });
    checks.push_back({"NIC " + nic.name, here ? Status::kOk : Status::kFailed,
                      here ? "is on this machine" : "is in the file, but not on this machine",
                      here ? "" : "correct the name; tombolo topo shows those that are here"});
  }
  std::size_t measured = static_cast<std::size_t>(std::count_if(
      cluster.links.begin(), cluster.links.end(), [](const auto& link) { return link.measured; }));
  checks.push_back(
      {"measured links", measured > 0 || cluster.hosts.size() < 2 ? Status::kOk : Status::kWarning,
       fmt::format("{} of {}", measured, cluster.links.size()),
       measured > 0 || cluster.hosts.size() < 2 ? ""
                                                : "run tombolo probe --out on all hosts: a plan needs them"});
  return checks;
}

std::vector<Check> check_peer(const std::string& host, const Facts& facts) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  int status = ::getaddrinfo(host.c_str(), "9", &hints, &found);
  if (status != 0) {
    return {{"peer " + host, Status::kFailed, ::gai_strerror(status), "check the name, /etc/hosts and DNS"}};
  }
  std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(found, &::freeaddrinfo);
  std::string peer = numeric(list->ai_addr, list->ai_addrlen);
  // Connecting a datagram socket sends nothing, but makes the kernel choose the route.
  Descriptor socket(::socket(list->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket || ::connect(socket.get(), list->ai_addr, list->ai_addrlen) != 0) {
    return {{"peer " + host, Status::kFailed, fmt::format("no route to {}: {}", peer, errno_text(errno)),
             "check addresses and routes: ip route get " + peer}};
  }
  sockaddr_storage local{};
  socklen_t length = sizeof local;
  ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&local), &length);
  std::string from = numeric(reinterpret_cast<sockaddr*>(&local), length);
  int mtu = 0;
  socklen_t size = sizeof mtu;
  bool v6 = list->ai_family == AF_INET6;
  ::getsockopt(socket.get(), v6 ? static_cast<int>(IPPROTO_IPV6) : static_cast<int>(IPPROTO_IP),
               v6 ? IPV6_MTU : IP_MTU, &mtu, &size);
  const topology::Nic* nic = nic_of(facts, from);
  std::string seen =
      fmt::format("{} from {} ({}), packets of {} bytes", peer, from, nic != nullptr ? nic->name : "?", mtu);
  if (nic != nullptr && !nic->usable) {
    return {{"peer " + host, Status::kWarning, seen,
             fmt::format("the kernel would take {}, which Tombolo leaves out: {}", nic->name, nic->reason)}};
  }
  return {{"peer " + host, Status::kOk, seen, {}}};
}

}  // namespace tombolo::doctor
