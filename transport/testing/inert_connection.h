// For tests: a connection over which nothing goes, to be derived from for what a test looks at.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "transport/transport.h"

namespace tombolo::transport::test {

/// `Base`: Connection, or a class derived from it.
template <typename Base = Connection>
class InertConnection : public Base {
 public:
  Request* post_send(std::span<const std::byte>, Memory*) noexcept override { return nullptr; }
  Request* post_receive(std::span<std::byte>, Memory*) noexcept override { return nullptr; }
  Outcome test(Request*, std::size_t&) noexcept override { return Outcome::kFailed; }
  bool progress() noexcept override { return false; }
  void append_wait_handles(std::vector<pollfd>&) const override {}
  const Error* error() const noexcept override { return nullptr; }
  std::uint64_t label() const noexcept override { return 0; }
  const Route& route() const noexcept override { return route_; }
  Statistics statistics() const noexcept override { return {}; }

 private:
  Route route_;
};

}  // namespace tombolo::transport::test
