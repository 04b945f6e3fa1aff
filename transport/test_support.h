// For this room's tests: pairs of connected connections of every backend, and waits with deadlines.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <ostream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "transport/memory/pair.h"
#include "transport/router.h"

namespace tombolo::transport::test {

using Pair = std::pair<std::unique_ptr<Connection>, std::unique_ptr<Connection>>;

inline Deadline soon() {
  return Deadline::after(std::chrono::seconds(60));
}

/// A host on loopback addresses.
inline topology::Host loopback_host(const std::string& name, const std::string& nic = "eth0",
                                    const std::string& address = "127.0.0.1") {
  topology::Nic one;
  one.name = nic;
  one.addresses = {address};
  one.rate_bits_per_second = 10'000'000'000;
  topology::Host host;
  host.name = name;
  host.nics = {one};
  return host;
}

inline RouterOptions router_options(const std::string& host, TcpOptions tcp = {}) {
  RouterOptions options;
  options.host = loopback_host(host);
  options.secret = Secret::from_text("the tests' secret");
  options.tcp = tcp;
  return options;
}

/// Waits for events on what `parts` name, at most for 20 ms.
template <typename... Parts>
void wait_on(const Parts&... parts) {
  std::vector<pollfd> handles;
  (parts.append_wait_handles(handles), ...);
  ::poll(handles.data(), handles.size(), 20);
}

/// Connects and accepts in one thread.
inline Pair connect_pair(Router& from, Listener& listener, ConnectOptions options = {}) {
  auto connecting = from.connect(Endpoint::decode(listener.endpoint().encode()), options);
  Pair pair;
  for (auto deadline = soon(); !pair.first || !pair.second;) {
    if (!pair.first) pair.first = connecting->poll();
    if (!pair.second) pair.second = listener.accept();
    if (deadline.passed()) {
      ADD_FAILURE() << "not connected";
      break;
    }
    if (!pair.first || !pair.second) wait_on(*connecting, listener);
  }
  return pair;
}

struct Backend {
  std::string name;
  bool memory = false;
  TcpOptions tcp;
};

/// Instead of the bytes of the object, padding included.
inline void PrintTo(const Backend& backend, std::ostream* stream) {
  *stream << backend.name;
}

inline Pair make_connected(const Backend& backend, std::uint64_t label = 0) {
  if (backend.memory) return memory::make_pair(label);
  Router left(router_options("left", backend.tcp)), right(router_options("right", backend.tcp));
  auto listener = right.listen();
  ConnectOptions options;
  options.label = label;
  return connect_pair(left, *listener, options);
}

/// Tests until done or failed.
inline Outcome finish(Connection& connection, Request* request, std::size_t& bytes,
                      Connection* other = nullptr) {
  for (auto deadline = soon(); !deadline.passed();) {
    Outcome outcome = connection.test(request, bytes);
    if (outcome != Outcome::kPending) return outcome;
    if (other != nullptr) other->progress();
  }
  ADD_FAILURE() << "no end within the deadline";
  return Outcome::kPending;
}

inline std::vector<std::byte> random_data(std::mt19937_64& random, std::size_t size) {
  std::vector<std::byte> data(size);
  for (std::size_t i = 0; i < size; i += 8) {
    std::uint64_t word = random();
    for (std::size_t j = i; j < std::min(size, i + 8); ++j)
      data[j] = static_cast<std::byte>(word >> (8 * (j - i)));
  }
  return data;
}

}  // namespace tombolo::transport::test
