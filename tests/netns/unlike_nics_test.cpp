// Connections of the net plugin over NICs of unlike rates, on emulated hosts: each NIC carries what it
// attains.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <deque>

#include "base/error.h"
#include "net_plugin/context.h"
#include "tests/netns/on_host.h"
#include "transport/observe/meters.h"

namespace tombolo::net_plugin {
namespace {

using std::chrono::seconds;

constexpr std::size_t kMessages = 48, kMessage = 256 << 10, kOutstanding = 8;

/// What makes one device of the two NICs.
enum class Made { kAuto, kFused };

/// A host's node as the plugin makes it; with kFused its NICs are devices of their own on a PCI bus, and NCCL
/// has made one of them.
Node node_of(Made made, int& device) {
  Node node = make_node({});
  device = 0;
  if (made == Made::kAuto) return node;
  topology::Host host = node.devices->at(0).host;
  auto devices = make_devices(host, DeviceMode::kPerNic);
  for (NetDevice& one : devices) one.pci_path = "/sys/devices/pci0000:00/" + one.name;
  node.devices = std::make_unique<DeviceList>(std::move(devices));
  const int both[] = {0, 1};
  device = node.devices->fuse(both, 4);
  return node;
}

/// Posts all messages, some at a time, and tests them until all are done; false where one fails or is late.
bool carry(Comm& comm, Comm::Direction direction) {
  std::vector<std::byte> data(kMessage * kOutstanding, std::byte{0});
  std::deque<Request*> under_way;
  std::size_t posted = 0, done = 0;
  for (const auto deadline = Deadline::after(seconds(100)); done < kMessages;) {
    if (deadline.passed()) return false;
    if (posted < kMessages && under_way.size() < kOutstanding) {
      const auto place = std::span(data).subspan(posted % kOutstanding * kMessage, kMessage);
      if (direction == Comm::Direction::kSend) std::ranges::fill(place, static_cast<std::byte>(posted + 1));
      const Buffer buffer{place, 0, nullptr};
      Request* request = nullptr;
      if (comm.post(direction, std::span(&buffer, 1), request) != abi::ncclSuccess) return false;
      if (request != nullptr) {
        under_way.push_back(request);
        ++posted;
      }
    }
    if (under_way.empty()) continue;
    bool finished = false;
    int size = 0;
    if (comm.test(*under_way.front(), finished, &size) != abi::ncclSuccess) return false;
    if (!finished) continue;
    under_way.pop_front();
    const auto place = std::span(data).subspan(done % kOutstanding * kMessage, kMessage);
    ++done;
    if (size != static_cast<int>(kMessage)) return false;
    if (std::ranges::any_of(place, [&](std::byte one) { return one != static_cast<std::byte>(done); }))
      return false;
  }
  return true;
}

/// Bytes that this process's streams sent by NIC.
std::array<std::uint64_t, 2> sent_by_nic() {
  std::array<std::uint64_t, 2> sent{};
  for (const auto& [key, totals] : transport::Meters::of_process()->read().totals)
    sent[key.local_nic == "eth0" ? 0 : 1] += totals.stream_sent_bytes;
  return sent;
}

class UnlikeNics : public testing::TestWithParam<Made> {};

TEST_P(UnlikeNics, CarryByWhatEachAttains) {
  const auto emulation = emulation::Emulation::start(
      emulation::Spec::from_text("two-paths:rates=40mbit/10mbit"), {emulation::Mode::kNamespaces, {}});
  const std::string file = emulation->directory() + "/cluster.json";
  emulation->cluster().save(file);
  ::setenv("TOMBOLO_CLUSTER", file.c_str(), 1);
  int handles[2], counts[2];
  ASSERT_EQ(::pipe(handles), 0);
  ASSERT_EQ(::pipe(counts), 0);
  const auto guarded = [](const std::function<int()>& body) {
    try {
      return body();
    } catch (const std::exception& error) {
      fmt::print(stderr, "{}\n", error.what());
      return 1;
    }
  };
  const pid_t receiving = ::fork();
  if (receiving == 0) {
    ::_exit(tests::on_host(*emulation, 1, [&] {
      return guarded([&] {
        ::setenv("TOMBOLO_HOST", "b0", 1);
        int device = 0;
        const auto node = std::make_shared<Node>(node_of(GetParam(), device));
        Context context(node, {});
        auto listener = context.listen(device);
        const HandleBytes handle = listener->handle();
        if (::write(handles[1], handle.data(), handle.size()) != static_cast<ssize_t>(handle.size()))
          return 2;
        std::unique_ptr<Comm> comm;
        for (const auto deadline = Deadline::after(seconds(60)); !comm && !deadline.passed();)
          comm = listener->accept();
        return comm && carry(*comm, Comm::Direction::kReceive) ? 0 : 3;
      });
    }));
  }
  const int sent = tests::on_host(*emulation, 0, [&] {
    return guarded([&] {
      ::setenv("TOMBOLO_HOST", "a0", 1);
      int device = 0;
      const auto node = std::make_shared<Node>(node_of(GetParam(), device));
      Context context(node, {});
      HandleBytes handle{};
      if (::read(handles[0], handle.data(), handle.size()) != static_cast<ssize_t>(handle.size())) return 2;
      std::unique_ptr<Comm> comm;
      for (const auto deadline = Deadline::after(seconds(60)); !comm && !deadline.passed();)
        comm = context.connect(device, handle);
      if (!comm || !carry(*comm, Comm::Direction::kSend)) return 3;
      const auto by_nic = sent_by_nic();
      return ::write(counts[1], by_nic.data(), sizeof by_nic) == sizeof by_nic ? 0 : 4;
    });
  });
  int status = 0;
  ::waitpid(receiving, &status, 0);
  ::unsetenv("TOMBOLO_CLUSTER");
  EXPECT_EQ(sent, 0);
  EXPECT_EQ(tools::exit_code_of(status), 0);
  ::close(handles[1]);
  ::close(counts[1]);
  std::array<std::uint64_t, 2> by_nic{};
  ASSERT_EQ(::read(counts[0], by_nic.data(), sizeof by_nic), static_cast<ssize_t>(sizeof by_nic));
  ::close(handles[0]);
  ::close(counts[0]);
  const auto all = by_nic[0] + by_nic[1];
  EXPECT_GE(all, kMessages * kMessage);
  // The lines let 80 and 20 of a hundred bytes pass.
  EXPECT_GT(by_nic[0] * 100, all * 60) << by_nic[0] << " and " << by_nic[1];
  EXPECT_GT(by_nic[1] * 100, all * 5) << by_nic[0] << " and " << by_nic[1];
}

INSTANTIATE_TEST_SUITE_P(Devices, UnlikeNics, testing::Values(Made::kAuto, Made::kFused),
                         [](const auto& test) { return test.param == Made::kAuto ? "Auto" : "Fused"; });

}  // namespace
}  // namespace tombolo::net_plugin

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (std::string refused = tombolo::emulation::why_no_namespaces(); !refused.empty()) {
    fmt::print("skipped: {}\n", refused);
    return 77;
  }
  return RUN_ALL_TESTS();
}
