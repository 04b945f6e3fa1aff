// All tables of NCCL's interface of one-sided operations, which NCCL looks up as ncclRmaPlugin_v13 to
// ncclRmaPlugin_v15.
#pragma once

#include "net_plugin/abi/rma_v13.h"
#include "net_plugin/abi/rma_v14.h"
#include "net_plugin/abi/rma_v15.h"
