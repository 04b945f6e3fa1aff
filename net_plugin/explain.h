// What the plugin tells NCCL's log when it starts: which library this is, which devices it shows and why, and
// what of the environment it goes by.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "net_plugin/devices/devices.h"
#include "net_plugin/devices/nccl_environment.h"
#include "topology/nic.h"

namespace tombolo::net_plugin {

struct Explanation {
  std::string version;  ///< of Tombolo
  std::string name;     ///< by which NCCL knows the plugin
  std::string library;  ///< path of the loaded library; empty where it is not known
  int abi = 0;          ///< version of the net interface that NCCL took
  std::string host;
  std::string source;  ///< where the NICs are from: "the cluster file PATH", "detection"
  std::vector<const NetDevice*> devices;
  std::vector<std::string> memory;  ///< what each device carries: "host memory", "host and GPU memory"
  std::vector<topology::Nic> nics;  ///< all of the host, used or not, each with its reason
  /// Why RDMA cannot be had on a NIC of an RDMA kind, by name; empty where it can.
  std::map<std::string, std::string> rdma_problems;
  std::vector<SeenVariable> variables;
  std::vector<std::string> beside;  ///< a line for each other part of the library: "tuner: ..."
};

/// The lines, without the prefix that the log gives them. Pure.
std::vector<std::string> explain(const Explanation& of);

/// Path of the library, or program, that this code is in; empty where the loader does not tell.
std::string library_path();

}  // namespace tombolo::net_plugin
