// An owned descriptor of this room's kernel.
#pragma once

#include "base/descriptor.h"
#include "transport/kernel.h"

namespace tombolo::transport {

namespace detail {
inline int close_in_kernel(int descriptor) noexcept {
  return kernel().close(descriptor);
}
}  // namespace detail

using Descriptor = OwnedDescriptor<detail::close_in_kernel>;

}  // namespace tombolo::transport
