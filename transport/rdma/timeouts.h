// How long a queue pair waits for a peer that does not answer.
#pragma once

#include "base/clock.h"

namespace tombolo::transport::rdma {

/// How long one attempt takes: 4.096 us * 2^exponent (InfiniBand specification, "local ACK timeout").
/// Exponent 0 means without limit.
Duration ack_timeout(int exponent) noexcept;

/// After what time a send to a silent peer fails in the worst case: every attempt may last four times its
/// timeout, and there are `retries` after the first.
Duration worst_silence(int exponent, int retries) noexcept;

/// The largest exponent with which a dead path is noticed within `limit` in the worst case, but not below the
/// smallest that a loaded machine can keep (8, a millisecond).
int exponent_within(Duration limit, int retries) noexcept;

}  // namespace tombolo::transport::rdma
