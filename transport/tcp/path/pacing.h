// Pacing: the rate at which this process's streams hand packets to a NIC, divided among all streams over it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

namespace tombolo::transport::tcp {

struct NicPacing {
  explicit NicPacing(double rate) noexcept : bytes_per_second(rate) {}
  double bytes_per_second;
  std::atomic<std::uint64_t> streams{0};
};

/// One stream's share of a NIC's rate, for as long as the object lives.
class PacedStream {
 public:
  explicit PacedStream(std::shared_ptr<NicPacing> nic) noexcept : nic_(std::move(nic)) { ++nic_->streams; }
  ~PacedStream() { --nic_->streams; }
  PacedStream(const PacedStream&) = delete;
  PacedStream& operator=(const PacedStream&) = delete;

  std::uint64_t bytes_per_second() const noexcept {
    const double share =
        nic_->bytes_per_second / static_cast<double>(std::max<std::uint64_t>(1, nic_->streams));
    return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(share));
  }

 private:
  std::shared_ptr<NicPacing> nic_;
};

}  // namespace tombolo::transport::tcp
