// What the checks of a job's NCCL judge: its variables and where they come from, the libnccl that it would
// load, and what the loader makes of the plugin's name.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "net_plugin/gpu/reach.h"
#include "tools/doctor/checks.h"
#include "tools/doctor/nccl_rules.h"

namespace tombolo::doctor {

struct NcclVariable {
  std::string value;
  std::string source;  ///< "the environment", or the path of one of NCCL's files
};

/// The job's variables by name: NCCL_* and TOMBOLO_*.
using NcclVariables = std::map<std::string, NcclVariable>;

/// Adds what a file of that text sets and no earlier source did, as this release reads it: NAME=VALUE with
/// all blanks belonging to either, and no line that begins with '#'.
void read_nccl_file(const std::string& path, const std::string& text, NcclRelease release,
                    NcclVariables& variables, std::vector<std::string>& problems);

/// The file that the loader opens for a library's name in a process that has no RUNPATH of its own, as NCCL
/// has none: in a folder of `library_path` (LD_LIBRARY_PATH), in the loader's cache, or in its usual folders.
/// A name with a '/' is the file's. Empty where there is none. This process' own dlopen(3) would also find
/// what it has loaded already, and what its own RUNPATH names.
std::string find_library(const std::string& name, const std::string& library_path);

/// What dlopen(3) makes of a name.
struct LoadedPlugin {
  std::string error;        ///< the loader's words; empty where it loads
  std::string path;         ///< the file that was loaded
  std::string name;         ///< what its newest net table is called: "Tombolo"
  std::vector<int> tables;  ///< versions of the net tables that it has
};

/// What a plugin does when it is started as NCCL starts it.
struct StartedPlugin {
  struct Line {
    bool warning;
    std::string text;
  };
  std::string error;  ///< why it does not start; empty where it does
  std::vector<Line> lines;
  std::vector<std::string> devices;  ///< "tombolo0 (200 Gbit/s)"
};

enum class PathKind { kMissing, kFolder, kUnreadable, kFile };

struct NcclFacts {
  NcclVariables variables;
  /// Those of CUDA's that concern copies beside a job's kernels.
  std::map<std::string, std::string> cuda_variables;
  std::vector<std::string> file_problems;  ///< of NCCL's files of variables, one sentence each

  std::string nccl;  ///< path of the libnccl.so.2 that a job would load; empty where none was found
  NcclRelease release = kUnknownRelease;
  std::string found_by;     ///< "PyTorch 2.9.0 of /usr/bin/python3", "the loader"; who would load it
  std::string why_no_nccl;  ///< what was looked at, where none was found

  std::string plugin;                         ///< this program's own libnccl-net-tombolo.so; empty: none
  std::size_t gpus = 0;                       ///< of this host
  std::string why_no_driver;                  ///< the loader's words for libcuda.so.1; empty where it loads
  std::optional<std::uint64_t> shared_bytes;  ///< size of /dev/shm; absent where there is none
  std::optional<std::string> cluster;  ///< text of TOMBOLO_CLUSTER's file; absent where it cannot be read

  /// Of this host, used or not: the cluster file's where it names this host, else those that detection found.
  std::vector<topology::Nic> nics;
  /// How RDMA NICs get at GPU memory, by name; empty where there is no GPU or no such NIC.
  std::map<std::string, net_plugin::gpu::NicReach> reach;

  // Each of these runs in a process of its own, with the job's variables.
  std::function<LoadedPlugin(const std::string& name)> load;
  std::function<StartedPlugin(const std::string& path, int table)> start;
  std::function<PathKind(const std::string& path)> look;

  /// A variable's value; empty where it is not set.
  std::string value(const std::string& name) const;
};

/// The facts of this environment. Runs the first python3 of PATH, which need not have PyTorch.
NcclFacts gather_nccl_facts(const Facts& machine);

}  // namespace tombolo::doctor
