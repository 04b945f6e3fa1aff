// All function tables that NCCL looks up, as ncclNetPlugin_v6 to ncclNetPlugin_v12. docs/net-plugin.md tells
// what each function must do. A null member says "not offered"; NCCL checks those that may be null.
#pragma once

#include "net_plugin/abi/net_v10.h"
#include "net_plugin/abi/net_v11.h"
#include "net_plugin/abi/net_v12.h"
#include "net_plugin/abi/net_v6.h"
#include "net_plugin/abi/net_v7.h"
#include "net_plugin/abi/net_v8.h"
#include "net_plugin/abi/net_v9.h"
#include "net_plugin/abi/types.h"
