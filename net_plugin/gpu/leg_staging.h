// How connections whose NICs reach GPU memory go on over ways that do not: staged, with what was reserved as
// they began.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "base/log.h"
#include "net_plugin/gpu/staged_connection.h"
#include "transport/gpu_staging.h"

namespace tombolo::net_plugin::gpu {

/// Of one connection; holds its pinned memory until the end. Threads: transport::GpuStaging's.
class LegStaging final : public transport::GpuStaging {
 public:
  /// `directions`: in which messages go; the first of each leg, by which its ends agree, goes in both. May
  /// lock memory. Throws kSystem where it cannot.
  LegStaging(std::shared_ptr<Staging> staging, Directions directions, Log log, transport::Overlong overlong);

  std::string prepare(std::span<std::byte> memory) override;
  void flush_nic_writes() override;
  std::unique_ptr<transport::Connection> stage(std::unique_ptr<transport::Connection> leg) override;

 private:
  std::shared_ptr<Staging> staging_;
  Log log_;
  transport::Overlong overlong_;
  std::shared_ptr<OwnPieces> own_;
  std::mutex lock_;                     // protects all below
  std::map<int, const Gpu*> to_flush_;  // by ordinal: those that see what NICs write by a flush alone
};

}  // namespace tombolo::net_plugin::gpu
