// Connections of the net plugin over NICs of unlike rates, on emulated hosts: each NIC carries what it
// attains. With --measure FAST/SLOW MESSAGES SIZE it measures instead what each NIC attains alone, and both
// as one device (docs/results/unlike_nics.md).
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/units.h"
#include "net_plugin/comms/context.h"
#include "tests/netns/on_host.h"
#include "transport/observe/meters.h"

namespace tombolo::net_plugin {
namespace {

using std::chrono::seconds;

constexpr std::size_t kOutstanding = 8;

/// What makes one device of the two NICs.
enum class Made { kAuto, kFused };

/// A host's node as the plugin makes it; with kFused its NICs are devices of their own on a PCI bus, and NCCL
/// has made one of them.
Node node_of(Made made, int& device) {
  Node node = make_node({});
  device = 0;
  if (made == Made::kAuto || node.devices->at(0).host.nics.size() < 2) return node;
  topology::Host host = node.devices->at(0).host;
  auto devices = make_devices(host, DeviceMode::kPerNic);
  for (NetDevice& one : devices) one.pci_path = "/sys/devices/pci0000:00/" + one.name;
  node.devices = std::make_unique<DeviceList>(std::move(devices));
  const int both[] = {0, 1};
  device = node.devices->fuse(both, 4);
  return node;
}

/// Posts all messages, some at a time, and tests them until all are done. Returns the seconds from the first
/// that is done to the last; -1 where one fails or is late.
double carry(Comm& comm, Comm::Direction direction, std::size_t messages, std::size_t size) {
  std::vector<std::byte> data(size * kOutstanding, std::byte{0});
  std::deque<Request*> under_way;
  std::size_t posted = 0, done = 0;
  TimePoint first{}, last{};
  for (const auto deadline = Deadline::after(seconds(100)); done < messages;) {
    if (deadline.passed()) return -1;
    if (posted < messages && under_way.size() < kOutstanding) {
      const auto place = std::span(data).subspan(posted % kOutstanding * size, size);
      if (direction == Comm::Direction::kSend) std::ranges::fill(place, static_cast<std::byte>(posted + 1));
      const Buffer buffer{place, 0, nullptr};
      Request* request = nullptr;
      if (comm.post(direction, std::span(&buffer, 1), request) != abi::ncclSuccess) return -1;
      if (request != nullptr) {
        under_way.push_back(request);
        ++posted;
      }
    }
    if (under_way.empty()) continue;
    bool finished = false;
    int got = 0;
    if (comm.test(*under_way.front(), finished, &got) != abi::ncclSuccess) return -1;
    if (!finished) continue;
    under_way.pop_front();
    const auto place = std::span(data).subspan(done % kOutstanding * size, size);
    ++done;
    last = Clock::steady().now();
    if (done == 1) first = last;
    if (got != static_cast<int>(size)) return -1;
    if (std::ranges::any_of(place, [&](std::byte one) { return one != static_cast<std::byte>(done); }))
      return -1;
  }
  return to_seconds(last - first);
}

/// Bytes that this process's streams sent by NIC.
std::array<std::uint64_t, 2> sent_by_nic() {
  std::array<std::uint64_t, 2> sent{};
  for (const auto& [key, totals] : transport::Meters::of_process()->read().totals)
    sent[key.local_nic == "eth0" ? 0 : 1] += totals.stream_sent_bytes;
  return sent;
}

struct Task {
  std::string rates;  ///< of eth0 and eth1: "40mbit/10mbit"
  Made made = Made::kAuto;
  std::string nics = {};  ///< TOMBOLO_NET_NICS
  std::size_t messages = 48, size = 256 << 10;
};
struct Outcome {
  double seconds = -1;  ///< of the receiving end, from the first message to the last; -1: it failed
  std::array<std::uint64_t, 2> by_nic{};
};

/// What goes through a pipe whole.
template <typename Value>
bool give(int pipe, const Value& value) {
  return ::write(pipe, &value, sizeof value) == static_cast<ssize_t>(sizeof value);
}
template <typename Value>
bool take(int pipe, Value& value) {
  return ::read(pipe, &value, sizeof value) == static_cast<ssize_t>(sizeof value);
}

int run_guarded(const std::function<int()>& body) {
  try {
    return body();
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}

/// Messages from one emulated host to another.
Outcome carry_over(const Task& run) {
  const auto emulation = emulation::Emulation::start(
      emulation::Spec::from_text("two-paths:rates=" + run.rates), {emulation::Mode::kNamespaces, {}});
  const std::string file = emulation->directory() + "/cluster.json";
  emulation->cluster().save(file);
  ::setenv("TOMBOLO_CLUSTER", file.c_str(), 1);
  if (!run.nics.empty()) ::setenv("TOMBOLO_NET_NICS", run.nics.c_str(), 1);
  int handles[2], counts[2], times[2];
  for (int* pipe : {handles, counts, times})
    if (::pipe(pipe) != 0) return {};
  const pid_t receiving = ::fork();
  if (receiving == 0) {
    ::_exit(tests::on_host(*emulation, 1, [&] {
      return run_guarded([&] {
        ::setenv("TOMBOLO_HOST", "b0", 1);
        int device = 0;
        const auto node = std::make_shared<Node>(node_of(run.made, device));
        Context context(node, {});
        auto listener = context.listen(device);
        if (!give(handles[1], listener->handle())) return 2;
        std::unique_ptr<Comm> comm;
        for (const auto deadline = Deadline::after(seconds(60)); !comm && !deadline.passed();)
          comm = listener->accept();
        const double took = comm ? carry(*comm, Comm::Direction::kReceive, run.messages, run.size) : -1;
        return took >= 0 && give(times[1], took) ? 0 : 3;
      });
    }));
  }
  const int sent = tests::on_host(*emulation, 0, [&] {
    return run_guarded([&] {
      ::setenv("TOMBOLO_HOST", "a0", 1);
      int device = 0;
      const auto node = std::make_shared<Node>(node_of(run.made, device));
      Context context(node, {});
      HandleBytes handle{};
      if (!take(handles[0], handle)) return 2;
      std::unique_ptr<Comm> comm;
      for (const auto deadline = Deadline::after(seconds(60)); !comm && !deadline.passed();)
        comm = context.connect(device, handle);
      if (!comm || carry(*comm, Comm::Direction::kSend, run.messages, run.size) < 0) return 3;
      return give(counts[1], sent_by_nic()) ? 0 : 4;
    });
  });
  int status = 0;
  ::waitpid(receiving, &status, 0);
  ::unsetenv("TOMBOLO_CLUSTER");
  ::unsetenv("TOMBOLO_NET_NICS");
  for (int* pipe : {handles, counts, times}) ::close(pipe[1]);
  Outcome outcome;
  const bool good = sent == 0 && tools::exit_code_of(status) == 0 && take(counts[0], outcome.by_nic) &&
                    take(times[0], outcome.seconds);
  if (!good) outcome.seconds = -1;
  for (int* pipe : {handles, counts, times}) ::close(pipe[0]);
  return outcome;
}

class UnlikeNics : public testing::TestWithParam<Made> {};

TEST_P(UnlikeNics, CarryByWhatEachAttains) {
  const Task run{"40mbit/10mbit", GetParam()};
  const Outcome outcome = carry_over(run);
  ASSERT_GE(outcome.seconds, 0) << "an end failed, and said why";
  const auto& by_nic = outcome.by_nic;
  const auto all = by_nic[0] + by_nic[1];
  EXPECT_GE(all, run.messages * run.size);
  // The lines let 80 and 20 of a hundred bytes pass.
  EXPECT_GT(by_nic[0] * 100, all * 60) << by_nic[0] << " and " << by_nic[1];
  EXPECT_GT(by_nic[1] * 100, all * 5) << by_nic[0] << " and " << by_nic[1];
}

INSTANTIATE_TEST_SUITE_P(Devices, UnlikeNics, testing::Values(Made::kAuto, Made::kFused),
                         [](const auto& test) { return test.param == Made::kAuto ? "Auto" : "Fused"; });

/// Prints the medians of five runs, in turns.
int measure(const std::string& rates, std::size_t messages, std::size_t size) {
  constexpr int kRounds = 5;
  struct Way {
    const char* name;
    Task run;
    std::vector<double> rates;
  };
  std::vector<Way> ways{{"eth0", {rates, Made::kAuto, "=eth0", messages, size}, {}},
                        {"eth1", {rates, Made::kAuto, "=eth1", messages, size}, {}},
                        {"both as one device", {rates, Made::kFused, "", messages, size}, {}}};
  for (int round = 0; round < kRounds; ++round) {
    for (Way& way : ways) {
      const Outcome outcome = carry_over(way.run);
      if (outcome.seconds <= 0) return 1;
      way.rates.push_back(static_cast<double>((messages - 1) * size) / outcome.seconds);
    }
  }
  std::vector<double> medians;
  for (Way& way : ways) {
    std::ranges::sort(way.rates);
    medians.push_back(way.rates[kRounds / 2]);
    fmt::print("| {} | {} | {} to {} |\n", way.name, format_bit_rate(medians.back()),
               format_bit_rate(way.rates.front()), format_bit_rate(way.rates.back()));
  }
  fmt::print("both attain {:.1f} % of the sum\n", 100 * medians[2] / (medians[0] + medians[1]));
  return 0;
}

}  // namespace
}  // namespace tombolo::net_plugin

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (std::string refused = tombolo::emulation::why_no_namespaces(); !refused.empty()) {
    fmt::print("skipped: {}\n", refused);
    return 77;
  }
  if (argc == 5 && std::string_view(argv[1]) == "--measure")
    return tombolo::net_plugin::measure(argv[2], std::stoul(argv[3]), tombolo::parse_size(argv[4], "SIZE"));
  return RUN_ALL_TESTS();
}
