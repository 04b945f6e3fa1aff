// Memory that all ranks of a group have registered together. Each rank has its own piece of it; the number is
// the same on all, because registering is collective.
#pragma once

#include <cstddef>
#include <cstdint>

#include "transport/gpu/copier.h"

namespace tombolo::net_plugin::rma {

struct Window {
  std::uint32_t number = 0;
  std::byte* base = nullptr;
  std::uint64_t bytes = 0;
  transport::gpu::Copier* copier = nullptr;  ///< null: host memory

  bool holds(std::uint64_t offset, std::uint64_t count) const noexcept {
    return offset <= bytes && count <= bytes - offset;
  }
  std::byte* at(std::uint64_t offset) const noexcept { return base + offset; }
};

}  // namespace tombolo::net_plugin::rma
