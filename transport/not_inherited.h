// Descriptors that kernel() did not open, such as asio's, and that no child of this process shall have.
#pragma once

#include "base/descriptor.h"

namespace tombolo::transport {

namespace detail {
/// As Kernel::close() does it, without closing. Returns 0.
int forget_descriptor(int descriptor) noexcept;
}  // namespace detail

/// As long as it lives, the descriptor is dead in a child that is forked, as those of kernel() are
/// (fork_generation()), so that it ends with this process. It owns no descriptor: whoever does ends this hold
/// first, because the number may come to name something else as soon as it is closed.
using NotInherited = OwnedDescriptor<detail::forget_descriptor>;

/// Such a hold on an open descriptor, which is also marked to be closed where the process runs another
/// program. Any thread.
NotInherited not_inherited(int descriptor) noexcept;

}  // namespace tombolo::transport
