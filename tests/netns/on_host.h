// Runs code on the hosts of an emulation, from a test that is outside of it.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "tools/emulation/emulation.h"
#include "tools/process/subprocess.h"

namespace tombolo::tests {

/// Runs `action` in a process on the emulated host; its result must fit an exit code.
inline int on_host(const emulation::Emulation& emulation, std::size_t host,
                   const std::function<int()>& action) {
  pid_t child = ::fork();
  if (child == 0) {
    int refused = emulation.enter(host);
    ::_exit(refused != 0 ? 200 : action());
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return tools::exit_code_of(status);
}

/// A socket that was made on the host. It belongs to the network of the host, but is used by the calling
/// process.
inline Descriptor socket_on(const emulation::Emulation& emulation, std::size_t host, int type) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ends) != 0) fail_errno(errno, "socketpair");
  Descriptor near(ends[0]), far(ends[1]);
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  char byte = 0;
  iovec part{&byte, 1};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  int code = on_host(emulation, host, [&] {
    int made = ::socket(AF_INET, type, 0);
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof made);
    std::memcpy(CMSG_DATA(header), &made, sizeof made);
    return made >= 0 && ::sendmsg(far.get(), &message, 0) == 1 ? 0 : 1;
  });
  if (code != 0 || ::recvmsg(near.get(), &message, MSG_CMSG_CLOEXEC) != 1) {
    fail(Cause::kSystem, "no socket on host {} (code {})", host, code);
  }
  int got = -1;
  std::memcpy(&got, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof got);
  return Descriptor(got);
}

inline sockaddr_in at(const std::string& address, int port) {
  sockaddr_in result{};
  result.sin_family = AF_INET;
  result.sin_port = htons(static_cast<std::uint16_t>(port));
  ::inet_pton(AF_INET, address.c_str(), &result.sin_addr);
  return result;
}

/// Binds to the address, with a port of the kernel's choice; returns both.
inline sockaddr_in bind_to(const Descriptor& socket, const std::string& address) {
  sockaddr_in here = at(address, 0);
  socklen_t length = sizeof here;
  if (::bind(socket.get(), reinterpret_cast<sockaddr*>(&here), sizeof here) != 0 ||
      ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&here), &length) != 0) {
    fail_errno(errno, "binding to " + address);
  }
  return here;
}

/// A connected TCP pair from one host to another on a fabric, without delay of small messages.
inline std::pair<Descriptor, Descriptor> tcp_between(const emulation::Emulation& emulation, std::size_t from,
                                                     std::size_t to, const std::string& fabric) {
  Descriptor near = socket_on(emulation, from, SOCK_STREAM),
             listening = socket_on(emulation, to, SOCK_STREAM);
  sockaddr_in there = bind_to(listening, emulation.address(emulation.spec().hosts[to].name, fabric));
  timeval limit{20, 0};
  ::setsockopt(near.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  if (::listen(listening.get(), 1) != 0 ||
      ::connect(near.get(), reinterpret_cast<sockaddr*>(&there), sizeof there) != 0) {
    fail_errno(errno, "connecting two hosts");
  }
  Descriptor far(::accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
  int one = 1;
  for (const Descriptor* end : {&near, &far}) {
    ::setsockopt(end->get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    for (int option : {SO_SNDTIMEO, SO_RCVTIMEO})
      ::setsockopt(end->get(), SOL_SOCKET, option, &limit, sizeof limit);
  }
  return {std::move(near), std::move(far)};
}

/// Sends `bytes` of a pattern from one end to the other, where a thread compares them. Returns bits per
/// second, negative where something was wrong.
inline double carry(const Descriptor& from, const Descriptor& to, std::size_t bytes, unsigned seed) {
  auto block_of = [&](std::size_t block) {
    std::array<std::uint64_t, 8192> words;
    std::mt19937_64 random(seed * 1'000'003ULL + block);
    const std::uint64_t first = random();
    for (std::size_t i = 0; i < words.size(); ++i) words[i] = first * (2 * i + 1);
    return words;
  };
  const std::size_t blocks = (bytes + sizeof block_of(0) - 1) / sizeof block_of(0);
  bool good = true;
  const TimePoint begin = Clock::steady().now();
  std::thread reader([&] {
    std::array<std::uint64_t, 8192> got;
    for (std::size_t block = 0; block < blocks && good; ++block) {
      good = ::recv(to.get(), got.data(), sizeof got, MSG_WAITALL) == sizeof got && got == block_of(block);
    }
  });
  for (std::size_t block = 0; block < blocks && good; ++block) {
    auto words = block_of(block);
    auto* at = reinterpret_cast<const char*>(words.data());
    for (std::size_t left = sizeof words; left > 0 && good;) {
      ssize_t put = ::send(from.get(), at, left, MSG_NOSIGNAL);
      if (put <= 0) break;
      at += put;
      left -= static_cast<std::size_t>(put);
    }
  }
  reader.join();
  return good ? static_cast<double>(blocks * sizeof block_of(0)) * 8 /
                    to_seconds(Clock::steady().now() - begin)
              : -1;
}

}  // namespace tombolo::tests
