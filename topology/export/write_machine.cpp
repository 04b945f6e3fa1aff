// What detection found, as JSON.
#include <nlohmann/json.hpp>

#include "topology/detect.h"
#include "topology/files/nic_json.h"
#include "topology/judge/distance.h"

namespace tombolo::topology {
namespace {

Json gpu_json(const Gpu& gpu) {
  Json json = device_json(gpu);
  if (gpu.compute_capability > 0) json["compute_capability"] = gpu.compute_capability;
  for (const NvLinks& group : gpu.nvlinks) {
    Json one{{"count", group.count}, {"to", group.to_switch ? "switch" : "gpu"}};
    if (!group.peer.empty()) one["pci_address"] = group.peer;
    json["nvlinks"].push_back(std::move(one));
  }
  return json;
}

Json pci_json(const PciFunction& function) {
  Json json{{"address", function.address}, {"pci_path", function.path}};
  auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) json[name] = value;
  };
  add("class", function.device_class);
  add("vendor", function.vendor);
  add("device", function.device);
  add("subsystem_vendor", function.subsystem_vendor);
  add("subsystem_device", function.subsystem_device);
  add("max_link_speed", function.max_link_speed);
  if (function.max_link_width > 0) json["max_link_width"] = function.max_link_width;
  if (function.numa_node) json["numa_node"] = *function.numa_node;
  return json;
}

Json processor_json(const Processor& processor) {
  Json json = Json::object();
  if (!processor.arch.empty()) json["arch"] = processor.arch;
  if (!processor.vendor.empty()) json["vendor"] = processor.vendor;
  if (processor.family > 0) json["family"] = processor.family;
  if (processor.model > 0) json["model"] = processor.model;
  return json;
}

}  // namespace

Json to_json(const Machine& machine) {
  Json json{{"host", machine.host_name},
            {"cores", machine.cores},
            {"numa_nodes", machine.numa_nodes},
            {"memory_bytes", machine.memory_bytes},
            {"processor", processor_json(machine.processor)},
            {"nodes", Json::array()},
            {"nics", Json::array()},
            {"gpus", Json::array()},
            {"pci", Json::array()},
            {"distances", {{"devices", Json::array()}, {"cells", Json::array()}}}};
  for (const NumaNode& node : machine.nodes) {
    json["nodes"].push_back({{"id", node.id}});
    if (!node.cpu_mask.empty()) json["nodes"].back()["cpu_mask"] = node.cpu_mask;
  }
  for (const Nic& nic : machine.nics) {
    Json one = nic_json(nic);
    // A cluster file leaves out defaults, but a list of facts states them too.
    one["role"] = nic_role_name(nic.role);
    one["state"] = nic_state_name(nic.state);
    one["usable"] = nic.usable;
    one["reason"] = nic.reason;
    json["nics"].push_back(std::move(one));
  }
  for (const Gpu& gpu : machine.gpus) json["gpus"].push_back(gpu_json(gpu));
  for (const PciFunction& function : machine.pci) json["pci"].push_back(pci_json(function));
  const DistanceMatrix matrix = distance_matrix(machine);
  for (const auto& device : matrix.devices) json["distances"]["devices"].push_back(device.label);
  for (const auto& row : matrix.cells) json["distances"]["cells"].push_back(row);
  return json;
}

}  // namespace tombolo::topology
