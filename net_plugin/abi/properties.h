// What getProperties() fills in, version by version.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tombolo::net_plugin::abi {

/// The physical devices that a (virtual) device consists of; makeVDevice takes one too.
template <int kMostDevices>
struct DeviceGroup {
  int count;
  int devices[kMostDevices];
};

struct PropertiesV6 {
  char* name;
  char* pci_path;       ///< null for a device without one
  std::uint64_t guid;   ///< equal = the same port
  int pointer_support;  ///< bits: kHostPointer, kCudaPointer, kDmaBuf
  int speed;            ///< Mbit/s
  int port;             ///< of the NIC
  float latency;        ///< microseconds; 0 = not known
  int most_comms;       ///< connections at a time
  int most_receives;    ///< grouped into one irecv
};

struct PropertiesV7 {
  char* name;
  char* pci_path;
  std::uint64_t guid;
  int pointer_support;
  int speed;
  int port;
  float latency;
  int most_comms;
  int most_receives;
  int net_device_type;  ///< kHostDevice
  int net_device_version;
};

struct PropertiesV8 {
  char* name;
  char* pci_path;
  std::uint64_t guid;
  int pointer_support;
  int registration_is_global;  ///< a registration serves every comm of the device
  int speed;
  int port;
  float latency;
  int most_comms;
  int most_receives;
  int net_device_type;
  int net_device_version;
};

struct PropertiesV9 {
  char* name;
  char* pci_path;
  std::uint64_t guid;
  int pointer_support;
  int registration_is_global;
  int force_flush;  ///< call iflush even where NCCL thinks it needless
  int speed;
  int port;
  float latency;
  int most_comms;
  int most_receives;
  int net_device_type;
  int net_device_version;
  DeviceGroup<4> group;
  std::size_t most_point_to_point_bytes;
  std::size_t most_collective_bytes;
};

using PropertiesV10 = PropertiesV9;

struct PropertiesV11 {
  char* name;
  char* pci_path;
  std::uint64_t guid;
  int pointer_support;
  int registration_is_global;
  int force_flush;
  int speed;
  int port;
  float latency;
  int most_comms;
  int most_receives;
  int net_device_type;
  int net_device_version;
  DeviceGroup<4> group;
  std::size_t most_point_to_point_bytes;
  std::size_t most_collective_bytes;
  int most_requests_in_one;  ///< of a multi-request; 1 = none
};

struct PropertiesV12 {
  char* name;
  char* pci_path;
  std::uint64_t guid;
  int pointer_support;
  int registration_is_global;
  int force_flush;
  int speed;
  int port;
  float latency;
  int most_comms;
  int most_receives;
  int net_device_type;
  int net_device_version;
  DeviceGroup<8> group;
  std::size_t most_point_to_point_bytes;
  std::size_t most_collective_bytes;
  int most_requests_in_one;
  std::int16_t rail;  ///< kUndefined where unknown
  std::int16_t plane;
};

// Sizes and offsets as a C compiler lays NCCL's structs out on 64-bit Linux.
static_assert(sizeof(PropertiesV6) == 48 && offsetof(PropertiesV6, speed) == 28 &&
              offsetof(PropertiesV6, most_receives) == 44);
static_assert(sizeof(PropertiesV7) == 56 && offsetof(PropertiesV7, net_device_version) == 52);
static_assert(sizeof(PropertiesV8) == 64 && offsetof(PropertiesV8, registration_is_global) == 28 &&
              offsetof(PropertiesV8, speed) == 32 && offsetof(PropertiesV8, net_device_version) == 56);
static_assert(sizeof(PropertiesV9) == 104 && offsetof(PropertiesV9, speed) == 36 &&
              offsetof(PropertiesV9, group) == 64 && offsetof(PropertiesV9, most_point_to_point_bytes) == 88);
static_assert(sizeof(PropertiesV11) == 112 && offsetof(PropertiesV11, most_requests_in_one) == 104);
static_assert(sizeof(PropertiesV12) == 128 && offsetof(PropertiesV12, most_point_to_point_bytes) == 104 &&
              offsetof(PropertiesV12, most_requests_in_one) == 120 && offsetof(PropertiesV12, rail) == 124 &&
              offsetof(PropertiesV12, plane) == 126);

}  // namespace tombolo::net_plugin::abi
