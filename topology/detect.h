// Detection: what hardware this machine has. topology/ owns the facts of machines and clusters: system/ reads
// them, judge/ draws conclusions, files/ are the cluster file, the fleet file and the library of devices,
// export/ writes other programs' formats.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/log.h"
#include "topology/files/cluster_file.h"
#include "topology/nic.h"
#include "topology/system/gpu.h"
#include "topology/system/pci.h"
#include "topology/system/processors.h"

namespace tombolo::topology {

struct DetectOptions {
  /// Everything is read below this path; a test points it at a tree of files ("<root>/sys/class/net/..."), or
  /// at one file that holds such a tree (TreeFile).
  std::filesystem::path root = "/";
  /// Whether to also ask the kernel and libibverbs of this machine (addresses by getifaddrs, GIDs); off for
  /// recorded trees.
  bool live = true;
  Log log;
};

struct Machine {
  std::string host_name;
  int cores = 0;  ///< those that this process may use
  int numa_nodes = 0;
  std::uint64_t memory_bytes = 0;
  std::vector<Nic> nics;  ///< all, usable or not, each with its reason
  std::vector<Gpu> gpus;
  Processor processor;
  std::vector<NumaNode> nodes;
  std::vector<PciFunction> pci;  ///< the NICs and GPUs, and the bridges above them
};

/// Reads /sys and /proc below `root`. Missing or odd entries never make it throw (they become a Nic with a
/// reason); it throws only when the root itself cannot be read.
Machine detect(const DetectOptions& options);

/// The machine as JSON: {"host", "cores", "numa_nodes", "memory_bytes", "processor", "nodes": [...], "nics":
/// [...], "gpus": [...], "pci": [...], "distances": {"devices", "cells"}}; each NIC with all its facts,
/// "usable" and "reason".
Json to_json(const Machine& machine);

/// This machine as a Host: usable NICs, best first; the cluster's name is left to the caller.
Host to_host(const Machine& machine);

/// The Host on which this process runs: the entry of TOMBOLO_HOST (or the host name) in TOMBOLO_CLUSTER's
/// file, to which detection adds addresses and other facts that the file leaves out; without such a file,
/// everything is detected. Throws kInvalidUsage when the file does not name this host, listing the hosts that
/// it names.
Host local_host(const DetectOptions& options);

}  // namespace tombolo::topology
