// The library of common devices and NICs with their published figures: the files library/devices.json and
// library/nics.json, whose fields docs/library.md describes.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/parameter.h"
#include "topology/files/cluster_file.h"
#include "topology/files/library_names.h"

namespace tombolo::topology {

/// TOMBOLO_LIBRARY: folder of the library's files.
extern const Parameter kLibraryParameter;

/// A common GPU, accelerator or CPU. For a CPU the figures are those of one socket.
struct LibraryDevice {
  JsonCursor at;  ///< where the entry stands
  std::string name;
  DeviceKind kind = DeviceKind::kGpu;
  double compute_capability = 0;       ///< of NVIDIA's GPUs, such as 9.0; 0 = has none
  bool switched = false;               ///< whether switches join all of a host, as its link's name says
  double memory_bytes = 0;             ///< 0 = depends on the machine (CPUs)
  double memory_bytes_per_second = 0;  ///< peak
  /// Peak FLOP/s by type of value ("bf16"), dense, in the order of kDtypes; 0 = the device does not have it.
  std::array<double, 5> peaks{};
  double device_bytes_per_second =
      0;                      ///< peak between two devices of a host, one direction; 0 = none of its own
  double attained_share = 1;  ///< of a peak, by large matrix products

  static constexpr std::array<std::string_view, 5> kDtypes{"fp32", "tf32", "bf16", "fp16", "fp8"};
  /// The data type that training uses by default: bf16, else fp16, else fp32.
  std::string_view usual_dtype() const;
  /// Peak FLOP/s; 0 where the device does not have the type, or where no such type is known.
  double peak(std::string_view dtype) const;
};

/// One port of a common NIC.
struct LibraryNic {
  JsonCursor at;
  std::string name;
  std::vector<NicKind> kinds{};  ///< what a port can be, best first
  std::uint64_t rate_bits_per_second = 0;
  std::string rdma_device{};  ///< how the driver names its devices, before the number; empty: plain TCP
};

/// The share of a nominal rate that is usually attained.
struct UsualShare {
  double share = 1;
  double latency_seconds = 0;  ///< NICs: one way, a small message
};

/// Immutable once read; refers to the documents that it came from.
struct Library {
  std::vector<LibraryDevice> devices;
  std::vector<LibraryNic> nics;
  LibraryNames device_names, nic_names;
  UsualShare memory, device_link;
  std::array<UsualShare, 4> nic_shares;  ///< by NicKind

  /// Both files from where library_file() finds them. Throws kInvalidUsage naming file, line and field.
  static Library load();
  static Library parse(const JsonDocument& devices, const JsonDocument& nics);

  const UsualShare& share(NicKind kind) const { return nic_shares[static_cast<std::size_t>(kind)]; }
  /// What a name in `at` stands for. Throws kInvalidUsage at `at` with the nearest name.
  const LibraryDevice& device(const JsonCursor& at) const;
  const LibraryNic& nic(const JsonCursor& at) const;
};

}  // namespace tombolo::topology
