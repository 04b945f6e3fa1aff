// The answering side of the measurements between two hosts. Their protocol:
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
#include "transport/bytes.h"
#include "transport/sockets/socket.h"

namespace tombolo::doctor {
namespace {

using transport::sockets::SocketAddress;

// A host that measures has one connection for each pair of NICs. More connections than this do not come from
// Tombolo.
constexpr std::size_t kMostClients = 512;

struct Client {
  Descriptor socket;
  std::vector<std::byte> head;  // the first bytes of a request, up to 5
  std::uint32_t left = 0;       // bytes of a bulk that are still to come
};

/// Serves a client. False where it has closed its connection, or sends what the protocol does not know.
bool serve(Client& client) {
  std::array<std::byte, 64 * 1024> bytes;
  const ssize_t got = recv(client.socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  if (got == 0) return false;
  const auto answer = [&](std::span<const std::byte> what) {
    return send(client.socket.get(), what.data(), what.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
           std::ssize(what);
  };
  std::span<const std::byte> rest(bytes.data(), static_cast<std::size_t>(got));
  while (!rest.empty()) {
    if (client.left > 0) {
      const std::size_t taken = std::min<std::size_t>(client.left, rest.size());
      client.left -= static_cast<std::uint32_t>(taken);
      rest = rest.subspan(taken);
      if (client.left == 0 && !answer(std::array{std::byte{1}})) return false;
      continue;
    }
    client.head.push_back(rest.front());
    rest = rest.subspan(1);
    if (client.head.front() == std::byte{'c'}) {
      client.head.clear();
      const auto now = std::chrono::system_clock::now().time_since_epoch();
      std::array<std::byte, 8> stamp;
      transport::store_little_endian(
          stamp.data(),
          static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count()));
      if (!answer(stamp)) return false;
    } else if (client.head.front() != std::byte{'b'}) {
      return false;
    } else if (client.head.size() == 5) {
      client.left = transport::load_little_endian<std::uint32_t>(client.head.data() + 1);
      client.head.clear();
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
  // A packet that is no longer than an answer is dropped, so that two responders do not answer each other for
  // ever.
  if (got <= 8) return;
  std::array<std::byte, 4> answer;
  transport::store_little_endian(answer.data(), static_cast<std::uint32_t>(got));
  sendto(socket, answer.data(), answer.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
         reinterpret_cast<const sockaddr*>(&from), length);
}

}  // namespace

struct Responder::State {
  std::vector<transport::Descriptor> listeners;
  std::vector<Descriptor> packets;
  std::list<Client> clients;
  Descriptor end{eventfd(0, EFD_CLOEXEC)};
  std::thread thread;

  void run() {
    for (;;) {
      std::vector<pollfd> handles{{end.get(), POLLIN, 0}};
      for (const auto& listener : listeners) handles.push_back({listener.get(), POLLIN, 0});
      for (const auto& socket : packets) handles.push_back({socket.get(), POLLIN, 0});
      for (const auto& client : clients) handles.push_back({client.socket.get(), POLLIN, 0});
      poll(handles.data(), handles.size(), -1);
      if (handles[0].revents != 0) return;
      std::size_t at = 1;
      std::list<Client> fresh;
      for (const auto& listener : listeners) {
        if (handles[at++].revents == 0) continue;
        Descriptor socket(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (socket && clients.size() < kMostClients) fresh.push_back({std::move(socket), {}, 0});
      }
      for (const auto& socket : packets) {
        if (handles[at++].revents != 0) answer_packet(socket.get());
      }
      for (auto client = clients.begin(); client != clients.end(); ++at) {
        client = handles[at].revents == 0 || serve(*client) ? std::next(client) : clients.erase(client);
      }
      clients.splice(clients.end(), fresh);
    }
  }
};

Responder::Responder(HostFacts& facts) : state_(std::make_unique<State>()) {
  for (auto& nic : facts.nics) {
    try {
      std::uint16_t port = 0;
      state_->listeners.push_back(transport::sockets::listen_on(nic.name, nic.address, port));
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
    } catch (const Error&) {  // its port stays 0, and other hosts leave it out
    }
  }
  state_->thread = std::thread([this] { state_->run(); });
}

Responder::~Responder() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(state_->end.get(), &one, sizeof one);
  state_->thread.join();
}

}  // namespace tombolo::doctor
