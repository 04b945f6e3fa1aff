// The environment parameter of one-sided operations.
#pragma once

#include "base/parameter.h"

namespace tombolo::net_plugin {

/// TOMBOLO_RMA: off, auto or messages.
extern const Parameter kRmaParameter;

}  // namespace tombolo::net_plugin
