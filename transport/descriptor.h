// base/'s owned descriptor, under this room's name.
#pragma once

#include "base/descriptor.h"

namespace tombolo::transport {

using tombolo::Descriptor;

}  // namespace tombolo::transport
