#include <nlohmann/json.hpp>

#include "topology/testing/recorded_machine.h"

namespace tombolo::topology {
namespace {

/// The entry of the list whose field has that text.
Json entry_with(const Json& list, const char* field, std::string_view text) {
  for (const Json& entry : list)
    if (entry.value(field, "") == text) return entry;
  ADD_FAILURE() << "no " << field << " " << text << " in " << list.dump(1);
  return {};
}

TEST(MachineJson, StatesTheFactsOfARecordedHost) {
  const Json json = to_json(RecordedMachine("infiniband-hdr").machine);
  EXPECT_EQ(json["host"], "ib-host");
  EXPECT_EQ(json["cores"], 64);
  const Json infiniband = entry_with(json["nics"], "name", "ib0");
  EXPECT_EQ(infiniband["kind"], "infiniband");
  EXPECT_EQ(infiniband["rate_gbps"], 200.0);
  EXPECT_EQ(infiniband["rdma_device"], "mlx5_0");
  EXPECT_EQ(infiniband["numa_node"], 1);
  EXPECT_EQ(infiniband["gids"].size(), 1U);
  const Json card = entry_with(json["pci"], "address", "0000:19:00.0");
  EXPECT_EQ(card["pci_path"], infiniband["pci_path"]);
}

TEST(MachineJson, StatesOfEveryNicWhatAClusterFileLeavesOut) {
  const Json json = to_json(RecordedMachine("infiniband-hdr").machine);
  for (const Json& nic : json["nics"]) {
    EXPECT_FALSE(nic["reason"].get<std::string>().empty()) << nic["name"];
    EXPECT_TRUE(nic["usable"].is_boolean()) << nic["name"];
  }
  const Json used = entry_with(json["nics"], "name", "ib0");
  EXPECT_EQ(used["role"], "physical");
  EXPECT_EQ(used["state"], "up");
  EXPECT_EQ(used["usable"], true);
  EXPECT_EQ(entry_with(json["nics"], "name", "ib0.8001")["usable"], false);
}

TEST(MachineJson, HasARowAndAColumnOfDistancesForEachDevice) {
  const Json json = to_json(RecordedMachine("gpu-server").machine);
  const Json &devices = json["distances"]["devices"], &cells = json["distances"]["cells"];
  ASSERT_EQ(devices.size(), 9U);
  ASSERT_EQ(cells.size(), devices.size());
  const auto at = [&](const char* label) {
    return static_cast<std::size_t>(std::find(devices.begin(), devices.end(), label) - devices.begin());
  };
  EXPECT_EQ(cells[at("GPU0")][at("ib0")], "PIX");
  EXPECT_EQ(cells[at("ib3")][at("GPU0")], "SYS");
}

TEST(MachineJson, StatesWhatIsKnownOfAGpuAndItsNvlinks) {
  Machine machine;
  machine.gpus.resize(2);
  for (Gpu& gpu : machine.gpus) gpu.kind = DeviceKind::kGpu;
  machine.gpus[0].name = "NVIDIA H200";
  machine.gpus[0].compute_capability = 90;
  machine.gpus[0].nvlinks = {{"0000:1c:00.0", false, 4}, {"", true, 12}};
  const Json gpus = to_json(machine)["gpus"];
  ASSERT_EQ(gpus.size(), 2U);
  EXPECT_EQ(gpus[0]["compute_capability"], 90);
  EXPECT_EQ(gpus[0]["nvlinks"], Json::parse(R"([{"count": 4, "to": "gpu", "pci_address": "0000:1c:00.0"},
                                                {"count": 12, "to": "switch"}])"));
  EXPECT_FALSE(gpus[1].contains("compute_capability"));
  EXPECT_FALSE(gpus[1].contains("nvlinks"));
}

TEST(MachineJson, OfAMachineThatTellsNothingHasEmptyListsAndNoZeros) {
  const Json json = to_json(Machine());
  for (const char* list : {"nodes", "nics", "gpus", "pci"}) {
    EXPECT_TRUE(json[list].is_array()) << list;
    EXPECT_TRUE(json[list].empty()) << list;
  }
  EXPECT_EQ(json["processor"], Json::object());
  EXPECT_EQ(json["distances"], Json::parse(R"({"devices": [], "cells": []})"));
}

TEST(MachineJson, LeavesOutWhatAPciFunctionOrAProcessorDoesNotTell) {
  Machine machine;
  machine.pci.resize(2);
  machine.pci[0].address = "0000:18:00.0";
  machine.pci[0].path = "/sys/devices/pci0000:17/0000:18:00.0";
  machine.pci[0].max_link_width = 16;
  machine.pci[0].numa_node = 0;
  machine.processor.arch = "x86_64";
  machine.processor.family = 6;
  machine.nodes.resize(2);
  machine.nodes[1].id = 1;
  machine.nodes[1].cpu_mask = "ff";
  const Json json = to_json(machine);
  EXPECT_EQ(json["pci"][0], Json::parse(R"({"address": "0000:18:00.0", "max_link_width": 16, "numa_node": 0,
                                            "pci_path": "/sys/devices/pci0000:17/0000:18:00.0"})"));
  EXPECT_EQ(json["pci"][1], Json::parse(R"({"address": "", "pci_path": ""})"));
  EXPECT_EQ(json["processor"], Json::parse(R"({"arch": "x86_64", "family": 6})"));
  EXPECT_EQ(json["nodes"], Json::parse(R"([{"id": 0}, {"id": 1, "cpu_mask": "ff"}])"));
}

}  // namespace
}  // namespace tombolo::topology
