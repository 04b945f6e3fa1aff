// Shared memory between processes of one host.
#pragma once

#include <memory>

#include "base/clock.h"
#include "base/log.h"
#include "transport/backend.h"

namespace tombolo::transport::shm {

class ShmBackend final : public Backend {
 public:
  /// `fetch`: large messages may be read from the sender's memory. `idle_timeout` as in TcpOptions.
  ShmBackend(bool fetch, Duration idle_timeout, const Clock& clock, Log log)
      : fetch_(fetch), idle_timeout_(idle_timeout), clock_(&clock), log_(std::move(log)) {}
  Carrier carrier() const noexcept override { return Carrier::kShm; }
  std::unique_ptr<Connecting> establish(Link link) override;

 private:
  bool fetch_;
  Duration idle_timeout_;
  const Clock* clock_;
  Log log_;
};

}  // namespace tombolo::transport::shm
