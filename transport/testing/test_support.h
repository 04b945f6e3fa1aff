// For this room's tests: pairs of connected connections of every backend, and waits with deadlines.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <ostream>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/sanitizer.h"
#include "transport/bootstrap/process_helpers.h"
#include "transport/memory/pair.h"
#include "transport/routing/router.h"
#include "transport/ucx/ucx_functions.h"

namespace tombolo::transport::test {

using Pair = std::pair<std::unique_ptr<Connection>, std::unique_ptr<Connection>>;

inline Deadline soon() {
  return Deadline::after(std::chrono::seconds(60));
}

/// What several routers log, each line with the name of its host in front. Threads: any.
class LogBook {
 public:
  Log of(const std::string& host) {
    return Log(LogLevel::kInfo, [this, host](LogLevel, std::string_view text) {
      const std::lock_guard guard(lock_);  // the transport's own thread logs too
      text_ += fmt::format("{}: {}\n", host, text);
    });
  }
  std::string text() {
    const std::lock_guard guard(lock_);
    return text_;
  }
  std::size_t count(std::string_view part) {
    const std::string all = text();
    std::size_t count = 0;
    for (std::size_t at = all.find(part); at != std::string::npos; at = all.find(part, at + 1)) ++count;
    return count;
  }

 private:
  std::mutex lock_;
  std::string text_;
};

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

/// Each router pretends to be a process of its own.
inline RouterOptions router_options(const std::string& host, TcpOptions tcp = {}, TlsOptions tls = {}) {
  RouterOptions options;
  options.host = loopback_host(host);
  options.secret = Secret::from_text("the tests' secret");
  options.tcp = tcp;
  options.tls = tls;
  options.helpers = std::make_shared<bootstrap::ProcessHelpers>();
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

struct TestedBackend {
  std::string name;
  bool memory = false;
  TcpOptions tcp;
  enum class Shm { kNo, kFetch, kRing, kRead } shm = Shm::kNo;
  std::size_t rdma_nics = 0;  ///< pairs of those that TOMBOLO_TEST_RDMA names; 0: another backend
  RdmaOptions rdma = {};
  std::string ucx = {};  ///< UCX's transports; empty: another backend
  TlsUse tls = TlsUse::kOff;
  bool traced = false;
  /// The options of the router of either host, for a backend that the other fields do not describe.
  RouterOptions (*options)(const std::string& host) = nullptr;
  bool gpu_memory = false;  ///< takes GPU memory by its address
};

/// Why this machine has no UCX; empty where it has.
inline std::string why_no_ucx() {
  if (kThreadSanitizer) return "UCX is built without ThreadSanitizer, which then knows nothing of its locks";
  std::string problem;
  return ucx::UcxFunctions::load(&problem) ? std::string() : problem;
}

/// Why this machine cannot test the backend; empty where it can.
inline std::string why_not(const TestedBackend& backend) {
  return backend.ucx.empty() ? std::string() : why_no_ucx();
}

/// For two hosts: only by UCX, over those of its transports.
inline RouterOptions ucx_router_options(const std::string& host, const std::string& transports) {
  RouterOptions options = router_options(host);
  options.policy.transports = {"ucx"};
  options.ucx.transports = transports;
  return options;
}

/// Prints a name instead of the bytes of the object, padding included.
inline void PrintTo(const TestedBackend& backend, std::ostream* stream) {
  *stream << backend.name;
}

/// What a machine with RDMA has for these tests, two "hosts" in one namespace whose NICs reach each other in
/// pairs: TOMBOLO_TEST_RDMA="v0 rxe0 10.0.0.1, w0 rxe2 10.0.1.1 | v1 rxe1 10.0.0.2, w1 rxe3 10.0.1.2". Empty
/// without it.
inline std::vector<topology::Host> rdma_hosts() {
  std::vector<topology::Host> hosts;
  const char* text = std::getenv("TOMBOLO_TEST_RDMA");
  if (text == nullptr) return hosts;
  std::istringstream sides(text);
  for (std::string side; std::getline(sides, side, '|');) {
    topology::Host host;
    host.name = hosts.empty() ? "left" : "right";
    std::istringstream nics(side);
    for (std::string words; std::getline(nics, words, ',');) {
      topology::Nic nic;
      std::string address;
      std::istringstream(words) >> nic.name >> nic.rdma_device >> address;
      nic.rdma_port = 1;
      nic.kind = topology::NicKind::kRoce;
      nic.addresses = {address};
      nic.rate_bits_per_second = 10'000'000'000;
      host.nics.push_back(nic);
    }
    hosts.push_back(host);
  }
  return hosts;
}

/// For the two hosts: only by RDMA.
inline std::vector<RouterOptions> rdma_router_options(std::size_t nics = 1, const RdmaOptions& rdma = {}) {
  std::vector<RouterOptions> both;
  for (const topology::Host& host : rdma_hosts()) {
    RouterOptions options = router_options(host.name);
    options.host = host;
    options.host.nics.resize(nics);
    options.policy.transports = {"rdma"};
    options.rdma = rdma;
    both.push_back(options);
  }
  return both;
}

/// Two ends of a connection from one router to another.
inline Pair connect_routers(RouterOptions from, RouterOptions to, std::uint64_t label = 0) {
  Router left(std::move(from)), right(std::move(to));
  auto listener = right.listen();
  ConnectOptions options;
  options.label = label;
  return connect_pair(left, *listener, options);
}

inline Pair make_connected(const TestedBackend& backend, std::uint64_t label = 0) {
  // A backend that cannot be tested is skipped, but the test still needs a pair.
  if (backend.memory || !why_not(backend).empty()) return memory::make_pair(label);
  if (backend.rdma_nics > 0) {
    auto both = rdma_router_options(backend.rdma_nics, backend.rdma);
    return connect_routers(both.at(0), both.at(1), label);
  }
  if (!backend.ucx.empty())
    return connect_routers(ucx_router_options("left", backend.ucx), ucx_router_options("right", backend.ucx),
                           label);
  if (backend.options != nullptr)
    return connect_routers(backend.options("left"), backend.options("right"), label);
  // On two hosts shared memory is no way.
  auto options_of = [&](const std::string& host) {
    RouterOptions options =
        router_options(backend.shm == TestedBackend::Shm::kNo ? host : "both", backend.tcp, {backend.tls});
    options.shm_fetch = backend.shm == TestedBackend::Shm::kRing   ? shm::Fetch::kNever
                        : backend.shm == TestedBackend::Shm::kRead ? shm::Fetch::kAlways
                                                                   : shm::Fetch::kWhereCheaper;
    return options;
  };
  return connect_routers(options_of("left"), options_of("right"), label);
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

/// Takes one number from `random` and generates the others from it by Steele, Lea and Flood's SplitMix64,
/// because the unoptimised generator takes most of a sanitized test's time.
inline std::vector<std::byte> random_data(std::mt19937_64& random, std::size_t size) {
  std::vector<std::byte> data(size);
  std::byte* to = data.data();
  std::uint64_t state = random();
  for (std::size_t i = 0; i < size; i += 8) {
    state += 0x9e3779b97f4a7c15U;
    std::uint64_t word = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9U;
    word = (word ^ (word >> 27)) * 0x94d049bb133111ebU;
    word ^= word >> 31;
    std::memcpy(to + i, &word, size - i < 8 ? size - i : 8);
  }
  return data;
}

}  // namespace tombolo::transport::test
