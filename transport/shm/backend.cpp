#include "transport/shm/backend.h"

#include "transport/shm/connection_set_up.h"

namespace tombolo::transport::shm {

std::unique_ptr<Connecting> ShmBackend::set_up(channel::ControlChannel channel) {
  return std::make_unique<ConnectionSetUp>(std::move(channel), fetch_);
}

}  // namespace tombolo::transport::shm
