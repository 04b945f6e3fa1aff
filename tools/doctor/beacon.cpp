// The answering side of the measurements between two hosts, and what they say to each other:
//   TCP: 'c'                      -> 8 bytes, nanoseconds of this host's time of day
//        'b', length (4), bytes   -> 1 byte once all have come
//   UDP: any packet               -> 4 bytes, its length
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <list>
#include <thread>
#include <vector>

#include "base/error.h"
#include "tools/doctor/pair.h"
#include "transport/bootstrap/socket.h"
#include "transport/bytes.h"

namespace tombolo::doctor {
namespace {

using transport::bootstrap::SocketAddress;

// Whoever asks has one connection for each pair of NICs; more are strangers.
constexpr std::size_t kMostGuests = 512;

struct Guest {
  Descriptor socket;
  std::vector<std::byte> head;  // of a request, up to 5 bytes
  std::uint32_t left = 0;       // of a bulk
};

/// False where the guest is gone, or says what makes no sense.
bool serve(Guest& guest) {
  std::array<std::byte, 64 * 1024> bytes;
  const ssize_t got = recv(guest.socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  if (got == 0) return false;
  const auto answer = [&](std::span<const std::byte> what) {
    return send(guest.socket.get(), what.data(), what.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
           std::ssize(what);
  };
  std::span<const std::byte> rest(bytes.data(), static_cast<std::size_t>(got));
  while (!rest.empty()) {
    if (guest.left > 0) {
      const std::size_t taken = std::min<std::size_t>(guest.left, rest.size());
      guest.left -= static_cast<std::uint32_t>(taken);
      rest = rest.subspan(taken);
      if (guest.left == 0 && !answer(std::array{std::byte{1}})) return false;
      continue;
    }
    guest.head.push_back(rest.front());
    rest = rest.subspan(1);
    if (guest.head.front() == std::byte{'c'}) {
      guest.head.clear();
      const auto now = std::chrono::system_clock::now().time_since_epoch();
      std::array<std::byte, 8> stamp;
      transport::store_little_endian(
          stamp.data(),
          static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count()));
      if (!answer(stamp)) return false;
    } else if (guest.head.front() != std::byte{'b'}) {
      return false;
    } else if (guest.head.size() == 5) {
      guest.left = transport::load_little_endian<std::uint32_t>(guest.head.data() + 1);
      guest.head.clear();
    }
  }
  return true;
}

void answer_packet(int socket) {
  std::array<std::byte, 70'000> packet;
  sockaddr_storage from{};
  socklen_t length = sizeof from;
  const ssize_t got = recvfrom(socket, packet.data(), packet.size(), MSG_DONTWAIT,
                               reinterpret_cast<sockaddr*>(&from), &length);
  // Shorter than an answer: not one of ours, and two beacons must not answer each other for ever.
  if (got <= 8) return;
  std::array<std::byte, 4> answer;
  transport::store_little_endian(answer.data(), static_cast<std::uint32_t>(got));
  sendto(socket, answer.data(), answer.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
         reinterpret_cast<const sockaddr*>(&from), length);
}

}  // namespace

struct Beacon::State {
  std::vector<Descriptor> doors, packets;
  std::list<Guest> guests;
  Descriptor end{eventfd(0, EFD_CLOEXEC)};
  std::thread thread;

  void run() {
    for (;;) {
      std::vector<pollfd> handles{{end.get(), POLLIN, 0}};
      for (const auto& door : doors) handles.push_back({door.get(), POLLIN, 0});
      for (const auto& socket : packets) handles.push_back({socket.get(), POLLIN, 0});
      for (const auto& guest : guests) handles.push_back({guest.socket.get(), POLLIN, 0});
      poll(handles.data(), handles.size(), -1);
      if (handles[0].revents != 0) return;
      std::size_t at = 1;
      std::list<Guest> fresh;
      for (const auto& door : doors) {
        if (handles[at++].revents == 0) continue;
        Descriptor socket(accept4(door.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (socket && guests.size() < kMostGuests) fresh.push_back({std::move(socket), {}, 0});
      }
      for (const auto& socket : packets) {
        if (handles[at++].revents != 0) answer_packet(socket.get());
      }
      for (auto guest = guests.begin(); guest != guests.end(); ++at) {
        guest = handles[at].revents == 0 || serve(*guest) ? std::next(guest) : guests.erase(guest);
      }
      guests.splice(guests.end(), fresh);
    }
  }
};

Beacon::Beacon(HostFacts& facts) : state_(std::make_unique<State>()) {
  for (auto& nic : facts.nics) {
    try {
      std::uint16_t port = 0;
      state_->doors.push_back(transport::bootstrap::listen_on(nic.name, nic.address, port));
      nic.tcp_port = port;
      SocketAddress address = SocketAddress::parse(nic.address, 0);
      Descriptor socket(::socket(address.family(), SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      if (!socket || bind(socket.get(), address.get(), address.length) != 0) continue;
      address.length = sizeof address.storage;
      getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address.storage), &address.length);
      nic.udp_port =
          ntohs(address.family() == AF_INET6 ? reinterpret_cast<const sockaddr_in6*>(address.get())->sin6_port
                                             : reinterpret_cast<const sockaddr_in*>(address.get())->sin_port);
      state_->packets.push_back(std::move(socket));
    } catch (const Error&) {  // its port stays 0, and others leave it out
    }
  }
  state_->thread = std::thread([this] { state_->run(); });
}

Beacon::~Beacon() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(state_->end.get(), &one, sizeof one);
  state_->thread.join();
}

}  // namespace tombolo::doctor
