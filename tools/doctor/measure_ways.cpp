// The asking side of the measurements between two hosts.
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <fstream>
#include <future>
#include <vector>

#include "base/error.h"
#include "tools/doctor/pair.h"
#include "transport/bytes.h"
#include "transport/sockets/socket.h"

namespace tombolo::doctor {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using transport::sockets::SocketAddress;

// Connecting takes 0.3 s between opposite sides of the earth, and a lost SYN adds a second.
constexpr Duration kConnectPatience = seconds(4);
constexpr Duration kAnswerPatience = seconds(3);
constexpr int kRoundTrips = 20;
// The size of the bulk: some hundred segments, so that loss shows; it takes a second at 10 Mbit/s.
constexpr std::size_t kBulkBytes = std::size_t{1} << 20;
constexpr int kPacketTries = 3;
constexpr Duration kPacketPatience = milliseconds(300);
constexpr int kHeadersV4 = 28, kHeadersV6 = 48;  // IP and UDP

bool wait_for(int socket, short events, const Deadline& deadline) {
  pollfd handle{socket, events, 0};
  while (!deadline.passed()) {
    const int ready = poll(&handle, 1, deadline.poll_milliseconds());
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
  return false;
}

bool send_all(int socket, std::span<const std::byte> bytes, const Deadline& deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    } else if ((errno != EAGAIN && errno != EINTR) || !wait_for(socket, POLLOUT, deadline)) {
      return false;
    }
  }
  return true;
}

bool receive_all(int socket, std::span<std::byte> bytes, const Deadline& deadline) {
  while (!bytes.empty()) {
    const ssize_t got = recv(socket, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got == 0) return false;
    if (got > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(got));
    } else if ((errno != EAGAIN && errno != EINTR) || !wait_for(socket, POLLIN, deadline)) {
      return false;
    }
  }
  return true;
}

Way::Reach reach_of(int error) {
  switch (error) {
    case ECONNREFUSED:
      return Way::Reach::kRefused;
    case EHOSTUNREACH:
    case ENETUNREACH:
    case EHOSTDOWN:
    case ENETDOWN:
      return Way::Reach::kUnreachable;
    case ETIMEDOUT:
      return Way::Reach::kNoAnswer;
    default:
      return Way::Reach::kOther;
  }
}

transport::Descriptor connect_way(const HostFacts::NicFacts& mine, const HostFacts::NicFacts& theirs,
                                  Way& way) {
  int error = 0;
  transport::Descriptor socket;
  try {
    socket = transport::sockets::start_connect(
        mine.name, mine.address,
        SocketAddress::parse(theirs.address, static_cast<std::uint16_t>(theirs.tcp_port)));
    if (!wait_for(socket.get(), POLLOUT, Deadline::after(kConnectPatience))) {
      error = ETIMEDOUT;
    } else {
      error = transport::sockets::pending_error(socket.get());
    }
  } catch (const Error& failure) {
    // The kernel may find an error at once, when connecting starts.
    way.error = failure.what();
    way.reach =
        way.error.find("nreachable") != std::string::npos || way.error.find("No route") != std::string::npos
            ? Way::Reach::kUnreachable
            : Way::Reach::kOther;
    return {};
  }
  if (error != 0) {
    way.error = errno_text(error);
    way.reach = reach_of(error);
    return {};
  }
  way.reach = Way::Reach::kConnected;
  return socket;
}

double seconds_of_day() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// The fastest round trip bounds the clock difference best, because the other end read its clock within that
/// time.
void measure_clock(int socket, Way& way) {
  way.round_trip = 0;
  for (int i = 0; i < kRoundTrips; ++i) {
    const Deadline deadline = Deadline::after(kAnswerPatience);
    std::array<std::byte, 8> stamp;
    const TimePoint begin = Clock::steady().now();
    const double from = seconds_of_day();
    if (!send_all(socket, std::array{std::byte{'c'}}, deadline) || !receive_all(socket, stamp, deadline))
      return;
    const double took = to_seconds(Clock::steady().now() - begin);
    if (way.round_trip > 0 && took >= way.round_trip) continue;
    way.round_trip = took;
    way.clock_ahead = static_cast<double>(transport::load_little_endian<std::uint64_t>(stamp.data())) * 1e-9 -
                      (from + took / 2);
    way.clock_error = took / 2;
  }
}

void measure_bulk(int socket, Way& way) {
  std::vector<std::byte> request(5 + kBulkBytes);
  request[0] = std::byte{'b'};
  transport::store_little_endian(&request[1], static_cast<std::uint32_t>(kBulkBytes));
  tcp_info info{};
  socklen_t size = sizeof info;
  // A transfer whose bytes are still being acknowledged is slow, but not stuck.
  std::uint64_t acknowledged = 0;
  bool moving = true, done = false;
  std::span<const std::byte> rest(request);
  std::array<std::byte, 1> answer;
  const Deadline last = Deadline::after(4 * kAnswerPatience);
  while (moving && !done && !last.passed()) {
    const Deadline deadline = Deadline::after(kAnswerPatience);
    while (!rest.empty() && !deadline.passed()) {
      const ssize_t sent = send(socket, rest.data(), rest.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent > 0) {
        rest = rest.subspan(static_cast<std::size_t>(sent));
      } else if ((errno != EAGAIN && errno != EINTR) || !wait_for(socket, POLLOUT, deadline)) {
        break;  // also where the peer has closed: a broken socket is always ready
      }
    }
    done = rest.empty() && receive_all(socket, answer, deadline);
    if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) break;
    moving = info.tcpi_bytes_acked > acknowledged + 1000;
    acknowledged = info.tcpi_bytes_acked;
  }
  way.bulk_arrived = done || moving;
  way.bulk_acknowledged = acknowledged;
  way.retransmitted = info.tcpi_total_retrans;
  way.segments = info.tcpi_segs_out;
  way.path_mtu = static_cast<int>(info.tcpi_pmtu);
}

/// Whether a packet of `bytes`, headers included, is answered. It must not be fragmented.
bool packet_arrives(int socket, int bytes, int headers) {
  std::vector<std::byte> packet(static_cast<std::size_t>(bytes - headers));
  for (int i = 0; i < kPacketTries; ++i) {
    if (send(socket, packet.data(), packet.size(), MSG_NOSIGNAL) < 0 && errno == EMSGSIZE) return false;
    const Deadline deadline = Deadline::after(kPacketPatience);
    while (wait_for(socket, POLLIN, deadline)) {
      std::array<std::byte, 4> answer;
      const ssize_t got = recv(socket, answer.data(), answer.size(), MSG_DONTWAIT);
      if (got == 4 && transport::load_little_endian<std::uint32_t>(answer.data()) == packet.size())
        return true;
      if (got < 0 && errno != EAGAIN && errno != EINTR) break;  // an ICMP error, such as a filter's
    }
  }
  return false;
}

void measure_packets(const HostFacts::NicFacts& mine, const HostFacts::NicFacts& theirs, Way& way) {
  const SocketAddress from = SocketAddress::parse(mine.address, 0);
  const SocketAddress to = SocketAddress::parse(theirs.address, static_cast<std::uint16_t>(theirs.udp_port));
  const bool v6 = to.family() == AF_INET6;
  const int headers = v6 ? kHeadersV6 : kHeadersV4;
  Descriptor socket(::socket(to.family(), SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket || mine.mtu <= 0 || theirs.udp_port == 0) return;
  const int probe = v6 ? IPV6_PMTUDISC_PROBE : IP_PMTUDISC_PROBE;
  setsockopt(socket.get(), v6 ? static_cast<int>(IPPROTO_IPV6) : static_cast<int>(IPPROTO_IP),
             v6 ? IPV6_MTU_DISCOVER : IP_MTU_DISCOVER, &probe, sizeof probe);
  if (bind(socket.get(), from.get(), from.length) != 0 || connect(socket.get(), to.get(), to.length) != 0)
    return;
  // If not even a small packet is answered, a filter drops UDP, and nothing can be concluded about sizes.
  if (!packet_arrives(socket.get(), headers + 64, headers)) return;
  std::vector<int> sizes{std::min(mine.mtu, 65'000), 9000, 1500, 1450, 1400, 1280, 576};
  for (const int bytes : sizes) {
    if (bytes > mine.mtu) continue;
    if (packet_arrives(socket.get(), bytes, headers)) {
      way.packet_arrived = bytes;
      return;
    }
    way.packet_lost = bytes;
  }
}

Way measure_way(const HostFacts::NicFacts& mine, const HostFacts::NicFacts& theirs) {
  Way way;
  way.nic = mine.name;
  way.peer_nic = theirs.name;
  way.peer_address = theirs.address;
  way.peer_port = theirs.tcp_port;
  const transport::Descriptor socket = connect_way(mine, theirs, way);
  if (!socket) return way;
  const int on = 1;
  setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  measure_clock(socket.get(), way);
  measure_bulk(socket.get(), way);
  measure_packets(mine, theirs, way);
  return way;
}

std::string line_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

}  // namespace

HostFacts own_host_facts(int rank, const topology::Host& host, const topology::Machine& machine,
                         const std::filesystem::path& root) {
  HostFacts facts;
  facts.rank = rank;
  facts.host = host.name;
  facts.version = TOMBOLO_VERSION;
  struct stat status {};
  stat("/proc/self/ns/net", &status);
  facts.machine = fmt::format("{} {}", line_of(root / "proc/sys/kernel/random/boot_id"), status.st_ino);
  for (const topology::Nic& nic : host.nics) {
    const auto address = std::ranges::find_if(nic.addresses, [](const std::string& one) {
      return !one.starts_with("fe80:") && !one.starts_with("169.254.");
    });
    if (!nic.usable || address == nic.addresses.end()) continue;
    HostFacts::NicFacts one;
    one.name = nic.name;
    one.kind = topology::nic_kind_name(nic.kind);
    one.fabric = nic.fabric;
    one.address = *address;
    one.emulated = nic.emulated;
    // The kernel's MTU is preferred to the cluster file's, which need not state one.
    const auto here = std::ranges::find(machine.nics, nic.name, &topology::Nic::name);
    one.mtu = here != machine.nics.end() ? here->mtu : nic.mtu;
    one.rate_bits_per_second = nic.rate_bits_per_second;
    for (const topology::Gid& gid : nic.gids) {
      if (std::ranges::find(one.gid_types, gid.type) == one.gid_types.end())
        one.gid_types.push_back(gid.type);
    }
    facts.nics.push_back(std::move(one));
  }
  for (const char* name : kPairSettings) {
    std::string path = name;
    std::ranges::replace(path, '.', '/');
    if (std::string line = line_of(root / "proc/sys" / path); !line.empty()) facts.settings[name] = line;
  }
  return facts;
}

std::vector<Way> measure_ways(const HostFacts& mine, const HostFacts& theirs) {
  std::vector<std::future<Way>> measuring;
  for (const auto& from : mine.nics) {
    for (const auto& to : theirs.nics) {
      const bool v6 = from.address.find(':') != std::string::npos;
      if (from.fabric != to.fabric || to.tcp_port == 0 || v6 != (to.address.find(':') != std::string::npos))
        continue;
      measuring.push_back(std::async(std::launch::async, [&from, &to] { return measure_way(from, to); }));
    }
  }
  std::vector<Way> ways;
  for (auto& one : measuring) ways.push_back(one.get());
  return ways;
}

}  // namespace tombolo::doctor
