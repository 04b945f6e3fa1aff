// Strangers, and a peer of another job, at the one acceptor of a process that has listeners of three jobs:
// bytes of any kind, handshakes with any fields, proofs by the wrong secret, in any number of streams.
// Whoever does not hold a job's secret gets no connection of it, and an honest peer comes through all the
// same.
#include <fuzzer/FuzzedDataProvider.h>
#include <sys/socket.h>

#include <algorithm>
#include <map>

#include "tests/fuzz/fuzz.h"
#include "transport/bootstrap/handshake.h"
#include "transport/bootstrap/process_helpers.h"
#include "transport/routing/router.h"
#include "transport/sockets/socket.h"
#include "transport/testing/test_support.h"

using namespace tombolo;
using namespace tombolo::transport;

namespace {

constexpr std::size_t kJobs = 3;      // the third one's streams come with TLS
constexpr std::size_t kKnown = 1;     // the job whose secret the hostile peer holds
constexpr std::size_t kStreams = 12;  // of strangers, at once

RouterOptions options_of(std::size_t job, std::shared_ptr<bootstrap::ProcessHelpers> helpers) {
  static const std::vector<Secret> secrets{Secret::from_text("first"), Secret::from_text("second"),
                                           Secret::from_text("third")};
  TlsOptions tls;
  tls.use = job == 2 ? TlsUse::kOn : TlsUse::kOff;
  RouterOptions options = test::router_options("here", {}, tls);
  options.policy.transports = {"tcp"};
  options.secret = secrets[job];
  options.meters = std::make_shared<Meters>();
  options.tcp.idle_timeout = std::chrono::seconds(1);
  options.helpers = std::move(helpers);
  return options;
}

/// The process that is attacked, and one that is honest.
struct Processes {
  std::shared_ptr<bootstrap::ProcessHelpers> here = std::make_shared<bootstrap::ProcessHelpers>();
  std::shared_ptr<bootstrap::ProcessHelpers> there = std::make_shared<bootstrap::ProcessHelpers>();
  std::vector<std::unique_ptr<Router>> routers, honest;
  std::vector<std::unique_ptr<Listener>> listeners;  // two of each job

  Processes() {
    for (std::size_t job = 0; job < kJobs; ++job) {
      routers.push_back(std::make_unique<Router>(options_of(job, here)));
      honest.push_back(std::make_unique<Router>(options_of(job, there)));
      for (int i = 0; i < 2; ++i) listeners.push_back(routers[job]->listen());
    }
  }

  /// Moves every handshake. Whoever gets a connection held its job's secret.
  void progress() {
    for (std::size_t i = 0; i < listeners.size(); ++i) {
      while (auto connection = listeners[i]->accept()) FUZZ_CHECK(i / 2 == kKnown);
    }
  }
};

/// A stream of the hostile peer.
struct Hostile {
  transport::Descriptor socket;
  std::vector<std::byte> hello;  // the last one that was sent

  explicit Hostile(std::uint16_t port) : socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const auto address = sockets::SocketAddress::parse("127.0.0.1", port);
    FUZZ_CHECK(::connect(socket.get(), address.get(), address.length) == 0);
    // Closing with a reset leaves no socket in TIME_WAIT.
    const linger now{1, 0};
    setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
  }
  void say(std::span<const std::byte> bytes) const {
    [[maybe_unused]] const auto sent =
        send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
};

bootstrap::Hello hello_by(FuzzedDataProvider& input, const Processes& processes) {
  const Endpoint& to = processes.listeners[input.ConsumeIntegralInRange<std::size_t>(0, 5)]->endpoint();
  bootstrap::Hello hello;
  hello.connection.fill(static_cast<std::byte>(input.ConsumeIntegralInRange<int>(0, 2)));
  hello.process = input.ConsumeBool() ? to.process : input.ConsumeIntegral<std::uint64_t>();
  hello.listener = input.ConsumeBool() ? to.listener : input.ConsumeIntegralInRange<std::uint32_t>(0, 40);
  hello.stream = input.ConsumeIntegralInRange<std::uint16_t>(0, 3);
  hello.streams = input.ConsumeIntegralInRange<std::uint16_t>(1, 3);
  hello.purpose = input.PickValueInArray(
      {bootstrap::Purpose::kJoin, bootstrap::Purpose::kRejoin, bootstrap::Purpose::kAsk});
  hello.carrier = input.PickValueInArray({Carrier::kTcp, Carrier::kTcp, Carrier::kShm, Carrier::kRdma});
  hello.epoch = input.ConsumeBool() ? input.ConsumeIntegralInRange<std::uint32_t>(0, 3)
                                    : input.ConsumeIntegral<std::uint32_t>();
  hello.patience_ms = input.ConsumeBool() ? 1000 : input.ConsumeIntegral<std::uint32_t>();
  hello.host = "hostile";
  hello.nic = "eth9";
  return hello;
}

/// Answers a challenge, if one has come, by the secret that the peer holds.
void prove(const Hostile& stream) {
  std::vector<std::byte> challenge(bootstrap::Challenge::kBytes);
  if (recv(stream.socket.get(), challenge.data(), challenge.size(), MSG_DONTWAIT) !=
      static_cast<ssize_t>(challenge.size()))
    return;
  static const Secret secret = options_of(kKnown, nullptr).secret;
  stream.say(bootstrap::Proof{bootstrap::proof_mac(secret, stream.hello, challenge)}.encode());
}

void act(FuzzedDataProvider& input, const Processes& processes, std::vector<Hostile>& streams) {
  const int what = input.ConsumeIntegralInRange(0, 5);
  if (what == 0 || streams.empty()) {
    if (streams.size() == kStreams) streams.erase(streams.begin());
    streams.emplace_back(processes.listeners[0]->endpoint().offers[0].port);
    return;
  }
  Hostile& stream = streams[input.ConsumeIntegralInRange<std::size_t>(0, streams.size() - 1)];
  switch (what) {
    case 1: {
      const auto bytes = input.ConsumeBytes<std::uint8_t>(input.ConsumeIntegralInRange<std::size_t>(0, 300));
      stream.say(std::as_bytes(std::span(bytes)));
      return;
    }
    case 2:
    case 3:
      stream.hello = hello_by(input, processes).encode();
      if (input.ConsumeBool())
        stream.hello[input.ConsumeIntegralInRange<std::size_t>(0, stream.hello.size() - 1)] ^= std::byte{1};
      stream.say(std::span(stream.hello)
                     .first(input.ConsumeBool()
                                ? stream.hello.size()
                                : input.ConsumeIntegralInRange<std::size_t>(0, stream.hello.size())));
      return;
    case 4:
      prove(stream);
      return;
    default:
      shutdown(stream.socket.get(), input.ConsumeBool() ? SHUT_WR : SHUT_RDWR);
  }
}

/// An honest peer of a job connects.
void connect(Processes& processes, std::size_t job) {
  const auto& listener = processes.listeners[2 * job];
  auto connecting = processes.honest[job]->connect(listener->endpoint(), {});
  std::unique_ptr<Connection> there, here;
  for (const auto deadline = Deadline::after(std::chrono::seconds(15)); !there || !here;) {
    FUZZ_CHECK(!deadline.passed());
    if (!there) there = connecting->poll();
    while (auto connection = listener->accept()) {
      // The hostile peer may have one of its own job waiting.
      if (connection->route().peer_host == "here") here = std::move(connection);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Processes processes;
  FuzzedDataProvider input(data, size);
  const bool with_honest = input.ConsumeIntegralInRange(0, 7) == 0;
  const auto job = input.ConsumeIntegralInRange<std::size_t>(0, kJobs - 1);
  std::vector<Hostile> streams;
  for (int step = 0; input.remaining_bytes() > 0 && step < 200; ++step) {
    act(input, processes, streams);
    if (input.ConsumeBool()) processes.progress();
  }
  processes.progress();
  if (with_honest) connect(processes, job);
  streams.clear();
  processes.progress();
  return 0;
}
