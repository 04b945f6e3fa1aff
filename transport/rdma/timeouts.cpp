#include "transport/rdma/timeouts.h"

namespace tombolo::transport::rdma {
namespace {

constexpr Duration kUnit{4096};
constexpr int kSmallest = 8, kLargest = 31;
// The specification allows a device up to four times the timeout.
constexpr int kSlack = 4;

}  // namespace

Duration ack_timeout(int exponent) noexcept {
  return kUnit * (std::int64_t{1} << exponent);
}

Duration worst_silence(int exponent, int retries) noexcept {
  return ack_timeout(exponent) * kSlack * (retries + 1);
}

int exponent_within(Duration limit, int retries) noexcept {
  int exponent = kSmallest;
  while (exponent < kLargest && worst_silence(exponent + 1, retries) <= limit) ++exponent;
  return exponent;
}

}  // namespace tombolo::transport::rdma
