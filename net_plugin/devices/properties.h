// What NCCL is told of a device.
#pragma once

#include "net_plugin/abi/net.h"
#include "net_plugin/devices/devices.h"
#include "net_plugin/gpu/support.h"
#include "net_plugin/limits.h"
#include "transport/transport.h"

namespace tombolo::net_plugin {

/// Connections of a device at a time, which is as many channels as NCCL gives it: both ends of a connection
/// in one process take two of the files that the process may open, and half of these are left to the job.
int most_comms();

/// Whether every connection of the device carries host memory without registering it, so that a memory handle
/// of one comm serves all: the device has no RDMA NIC.
bool registers_nothing(const NetDevice& device);

/// Fills one version's properties; `most_receives` is how many one irecv may group, `gpu` what the device
/// promises of GPU memory, `overlong` what becomes of a message that is larger than its receive. The texts
/// stay the device's.
template <typename Properties>
void fill(Properties& properties, const NetDevice& device, int most_receives,
          const gpu::DevicePromise& gpu = {}, transport::Overlong overlong = transport::Overlong::kError) {
  properties = Properties{};
  properties.name = const_cast<char*>(device.name.c_str());
  properties.pciPath = device.pci_path.empty() ? nullptr : const_cast<char*>(device.pci_path.c_str());
  properties.guid = device.guid;
  properties.ptrSupport = abi::NCCL_PTR_HOST | (gpu.by_address ? abi::NCCL_PTR_CUDA : 0) |
                          (gpu.dma_buf ? abi::NCCL_PTR_DMABUF : 0);
  properties.speed = device.speed_megabits;
  properties.port = device.port;
  properties.latency = device.latency_microseconds;
  properties.maxComms = most_comms();
  properties.maxRecvs = most_receives;
  if constexpr (requires { properties.netDeviceType; }) {
    properties.netDeviceType = abi::NCCL_NET_DEVICE_HOST;
  }
  if constexpr (requires { properties.regIsGlobal; }) {
    // NCCL does not read it; tests of plugins take it to say also that what does not fit is cut off.
    properties.regIsGlobal = overlong == transport::Overlong::kTruncate && registers_nothing(device) ? 1 : 0;
  }
  if constexpr (requires { properties.vProps; }) {
    properties.vProps.ndevs = static_cast<int>(device.parts.size());
    for (std::size_t i = 0; i < device.parts.size() && i < std::size(properties.vProps.devs); ++i)
      properties.vProps.devs[i] = device.parts[i];
    properties.maxP2pBytes = kMaxMessageBytes;
    properties.maxCollBytes = kMaxMessageBytes;
  }
  if constexpr (requires { properties.maxMultiRequestSize; }) properties.maxMultiRequestSize = 1;
  if constexpr (requires { properties.railId; }) {
    properties.railId = static_cast<std::int16_t>(device.rail);
    properties.planeId = static_cast<std::int16_t>(device.plane);
  }
}

}  // namespace tombolo::net_plugin
