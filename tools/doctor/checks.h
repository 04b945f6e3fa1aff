// Checks of one machine, each for one thing that can be wrong.
//
// tools/doctor/ owns `tombolo doctor`: the checks of this machine (this header), and those between two hosts
// (pair.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compute/product_speed.h"
#include "topology/detect.h"

namespace tombolo::doctor {

enum class Status { kOk, kWarning, kFailed };
/// "ok", "warning", "failed".
std::string_view status_name(Status status) noexcept;

struct Check {
  std::string name;  ///< "locked memory"
  Status status = Status::kOk;
  std::string seen;    ///< what was found, with the value
  std::string advice;  ///< what to change; empty when nothing needs to be
};

/// The facts that the checks judge; a test fills them in by hand.
struct Facts {
  std::filesystem::path root = "/";  ///< where proc/ lies
  topology::Machine machine;
  std::uint64_t locked_memory_limit = 0;  ///< bytes; UINT64_MAX = unlimited
  std::uint64_t open_files_limit = 0;
  std::string why_no_namespaces;  ///< empty where they are permitted
  /// Tries to load a library: empty when it could be loaded, else the loader's error.
  std::function<std::string(const std::string& library)> load;
  std::optional<compute::ProductSpeed> products;  ///< absent where it could not be measured
  std::string why_no_products;                    ///< the reason why it could not
  std::string plugin;  ///< path of libnccl-net-tombolo.so; empty when there is none
};

/// The facts of this machine.
Facts gather_facts();

std::vector<Check> check_nics(const Facts& facts);
std::vector<Check> check_limits(const Facts& facts);
std::vector<Check> check_kernel(const Facts& facts);
std::vector<Check> check_processor(const Facts& facts);
std::vector<Check> check_libraries(const Facts& facts);
std::vector<Check> check_all(const Facts& facts);

/// Checks that a cluster file can be read, names this machine, and lists NICs that are here.
std::vector<Check> check_cluster_file(const std::string& path, const Facts& facts,
                                      const std::string& host_name);
/// Checks the path to another machine: its address, the NIC by which the kernel would send, and the packet
/// size that gets through.
std::vector<Check> check_peer(const std::string& host, const Facts& facts);

}  // namespace tombolo::doctor
