// Which store it is.
#pragma once

#include <array>
#include <cstddef>

namespace tombolo::collectives {

/// Random; tells a store from every other one, also from a later one at the same address, such as that of a
/// job which was started again.
using StoreId = std::array<std::byte, 16>;

}  // namespace tombolo::collectives
