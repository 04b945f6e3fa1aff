#include "net_plugin/explain.h"

#include <gtest/gtest.h>

#include "base/format.h"

namespace tombolo::net_plugin {
namespace {

topology::Nic explained_nic(const std::string& name, topology::NicKind kind, double gigabits) {
  topology::Nic made;
  made.name = name;
  made.kind = kind;
  made.rate_bits_per_second = static_cast<std::uint64_t>(gigabits * 1e9);
  made.addresses = {"10.0.0.1"};
  return made;
}

TEST(Explain, SaysWhichDevicesThereAreAndWhy) {
  topology::Nic ib0 = explained_nic("ib0", topology::NicKind::kInfiniBand, 200);
  ib0.rdma_device = "mlx5_0";
  ib0.rdma_port = 1;
  ib0.numa_node = 1;
  ib0.reason = "InfiniBand, 200 Gbit/s";
  topology::Nic roce0 = explained_nic("roce0", topology::NicKind::kRoce, 100);
  topology::Nic docker = explained_nic("docker0", topology::NicKind::kTcp, 0);
  docker.usable = false;
  docker.reason = "a bridge for containers";
  topology::Host host;
  host.name = "a0";
  host.nics = {ib0, roce0, explained_nic("eth0", topology::NicKind::kTcp, 10), docker};
  auto devices = make_devices(host, DeviceMode::kAuto);
  devices[0].pci_path = "/sys/devices/pci0000:17/0000:18:00.0";
  devices[0].rail = 2;
  devices[0].latency_microseconds = 1.5F;

  Explanation of;
  of.version = "9.9";
  of.name = "IB";
  of.library = "/opt/lib/plugin.so";
  of.abi = 11;
  of.host = "a0";
  of.source = "detection";
  for (const NetDevice& device : devices) of.devices.push_back(&device);
  of.nics = host.nics;
  of.rdma_problems = {{"roce0", "libibverbs.so.1 is not installed"}};
  of.variables = {{"NCCL_IB_TC", "106", "taken for TOMBOLO_RDMA_TC"}};
  of.beside = {"tuner: off"};
  EXPECT_EQ(
      fmt::format("{}", fmt::join(explain(of), "\n")),
      "Tombolo 9.9 as IB, net ABI v11, host memory, on host a0: 2 devices. Every connection chooses its "
      "own transport\n"
      "library /opt/lib/plugin.so; NICs are from detection\n"
      "device 0 ib0: ib0 infiniband 200 Gbit/s; told NCCL 200000 Mbit/s, 1.5 us, mlx5_0 port 1, NUMA node "
      "1, PCI 0000:18:00.0, rail 2\n"
      "device 0 carries host memory over RDMA between NICs of its kind, else TCP; detected as: "
      "InfiniBand, 200 Gbit/s\n"
      "device 0 has standing by, for peers that its own cannot reach: roce0 roce 100 Gbit/s, eth0 tcp 10 "
      "Gbit/s\n"
      "device 1 roce0: roce0 roce 100 Gbit/s; told NCCL 100000 Mbit/s, not on the PCI bus\n"
      "device 1 carries host memory over TCP, because RDMA cannot be had: libibverbs.so.1 is not "
      "installed\n"
      "device 1 has standing by, for peers that its own cannot reach: ib0 infiniband 200 Gbit/s, eth0 tcp "
      "10 Gbit/s\n"
      "NIC docker0 (tcp) is not used: a bridge for containers\n"
      "NCCL_IB_TC='106': taken for TOMBOLO_RDMA_TC\n"
      "tuner: off");
}

TEST(Explain, TheLibraryKnowsWhereItIs) {
  EXPECT_NE(library_path().find("test_net_plugin"), std::string::npos) << library_path();
}

}  // namespace
}  // namespace tombolo::net_plugin
