// What many comms of the NCCL plugin in one process cost: threads, descriptors, memory, the time to set them
// up, and the time to close them, the second time towards a host that acknowledges nothing any more.
#include <malloc.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/format.h"
#include "net_plugin/comms/context.h"
#include "transport/testing/forwarding_kernel.h"

namespace {

using namespace tombolo;

/// Pretends that nothing that is sent is acknowledged any more, as where the peer's host has died.
class SilentPeers final : public transport::test::ForwardingKernel {
 public:
  int unacknowledged(int socket, int* bytes) noexcept override {
    const int result = ForwardingKernel::unacknowledged(socket, bytes);
    if (silent && result == 0) *bytes = 1;
    return result;
  }
  int getsockopt(int socket, int level, int name, void* value, socklen_t* length) noexcept override {
    const int result = ForwardingKernel::getsockopt(socket, level, name, value, length);
    // The first byte of TCP_INFO is the state: the end of the stream was sent, and is not acknowledged.
    if (silent && level == IPPROTO_TCP && name == TCP_INFO)
      *static_cast<unsigned char*>(value) = TCP_FIN_WAIT1;
    return result;
  }
  std::atomic<bool> silent{false};
};

std::size_t entries_of(const char* folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

std::int64_t resident_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (word == "VmRSS:" && status >> word) return std::stol(word);
  return 0;
}

std::shared_ptr<net_plugin::Node> loopback_node() {
  topology::Nic nic;
  nic.name = "lo";
  nic.addresses = {"127.0.0.1"};
  nic.rate_bits_per_second = 10'000'000'000;
  topology::Host host;
  host.name = "here";
  host.nics = {nic};
  auto node = std::make_shared<net_plugin::Node>();
  node->devices = std::make_unique<net_plugin::DeviceList>(
      net_plugin::make_devices(host, net_plugin::DeviceMode::kMerged));
  node->router.policy.transports = {"tcp"};
  node->deadline = std::chrono::seconds(60);
  return node;
}

struct Pair {
  std::unique_ptr<net_plugin::Comm> send, receive;
};

Pair connect(net_plugin::Context& context) {
  const auto listener = context.listen(0);
  const net_plugin::HandleBytes handle = listener->handle();
  Pair pair;
  for (const auto deadline = Deadline::after(std::chrono::seconds(60)); !pair.send || !pair.receive;) {
    if (deadline.passed()) fail(Cause::kTimeout, "no connection with itself");
    if (!pair.send) pair.send = context.connect(0, handle);
    if (!pair.receive) pair.receive = listener->accept();
  }
  return pair;
}

/// Carries one message with each tag, so that each has its lane.
void use(Pair& pair, int tags) {
  std::vector<std::byte> data(8), received(8);
  for (int tag = 0; tag < tags; ++tag) {
    const net_plugin::Buffer from{data, tag, nullptr}, to{received, tag, nullptr};
    net_plugin::Request *send = nullptr, *receive = nullptr;
    bool sent = false, arrived = false;
    for (const auto deadline = Deadline::after(std::chrono::seconds(60)); !sent || !arrived;) {
      if (deadline.passed()) fail(Cause::kTimeout, "no message with tag {}", tag);
      if (receive == nullptr) pair.receive->post(net_plugin::Comm::Direction::kReceive, {&to, 1}, receive);
      if (send == nullptr) pair.send->post(net_plugin::Comm::Direction::kSend, {&from, 1}, send);
      if (send != nullptr && !sent) pair.send->test(*send, sent, nullptr);
      if (receive != nullptr && !arrived) pair.receive->test(*receive, arrived, nullptr);
    }
  }
}

void measure(std::size_t comms, int tags, SilentPeers& kernel, bool silent) {
  net_plugin::Context context(loopback_node(), Log::to_stderr(LogLevel::kWarning));
  const std::size_t threads = entries_of("/proc/self/task"), descriptors = entries_of("/proc/self/fd");
  const std::int64_t memory = resident_kib();  // less later, where memory was given back
  const Clock& clock = Clock::steady();
  TimePoint before = clock.now();
  std::vector<Pair> pairs;
  for (std::size_t i = 0; i < comms / 2; ++i) pairs.push_back(connect(context));
  for (Pair& pair : pairs) use(pair, tags);
  fmt::print("{} comms: {} threads, {} descriptors, {} KiB more than without; set up in {:.3f} s\n",
             2 * pairs.size(), entries_of("/proc/self/task") - threads,
             entries_of("/proc/self/fd") - descriptors, resident_kib() - memory,
             std::chrono::duration<double>(clock.now() - before).count());
  std::fflush(stdout);
  kernel.silent = silent;
  before = clock.now();
  pairs.clear();
  fmt::print("closed {} in {:.3f} s\n", silent ? "towards silence" : "towards each other",
             std::chrono::duration<double>(clock.now() - before).count());
  kernel.silent = false;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("What many comms of the NCCL plugin in one process cost, over TCP on loopback.");
  std::size_t comms = 512;
  app.add_option("--comms", comms, "sending and receiving ones together")->capture_default_str();
  int tags = 0;
  app.add_option("--tags", tags, "one message with each of so many tags on each pair of comms")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  CLI11_PARSE(app, argc, argv);
  SilentPeers kernel;
  const transport::KernelInPlace in_place(kernel);
  try {
    measure(comms, tags, kernel, false);
    malloc_trim(0);
    measure(comms, tags, kernel, true);
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
