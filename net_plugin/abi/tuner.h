// All tables of NCCL's tuner interface, which NCCL looks up as ncclTunerPlugin_v2 to ncclTunerPlugin_v6.
#pragma once

#include "net_plugin/abi/tuner_v2.h"
#include "net_plugin/abi/tuner_v3.h"
#include "net_plugin/abi/tuner_v4.h"
#include "net_plugin/abi/tuner_v5.h"
#include "net_plugin/abi/tuner_v6.h"
