// The numbers of tombolo.h are nccl.h's where the name is NCCL's. Compiled only, where nccl.h is found.
#include <nccl.h>

#include "tombolo/tombolo.h"

#define SAME(ours, theirs) static_assert(static_cast<int>(ours) == static_cast<int>(theirs))

SAME(tomboloSuccess, ncclSuccess);
SAME(tomboloUnhandledCudaError, ncclUnhandledCudaError);
SAME(tomboloSystemError, ncclSystemError);
SAME(tomboloInternalError, ncclInternalError);
SAME(tomboloInvalidArgument, ncclInvalidArgument);
SAME(tomboloInvalidUsage, ncclInvalidUsage);
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 13, 4)
SAME(tomboloRemoteError, ncclRemoteError);
#endif
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 14, 3)
SAME(tomboloInProgress, ncclInProgress);
#endif
static_assert(static_cast<int>(tomboloTimeout) > static_cast<int>(ncclNumResults));

SAME(tomboloInt8, ncclInt8);
SAME(tomboloUint8, ncclUint8);
SAME(tomboloInt32, ncclInt32);
SAME(tomboloUint32, ncclUint32);
SAME(tomboloInt64, ncclInt64);
SAME(tomboloUint64, ncclUint64);
SAME(tomboloFloat16, ncclFloat16);
SAME(tomboloFloat32, ncclFloat32);
SAME(tomboloFloat64, ncclFloat64);
SAME(tomboloBfloat16, ncclBfloat16);
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 24, 3)
SAME(tomboloFloat8e4m3, ncclFloat8e4m3);
SAME(tomboloFloat8e5m2, ncclFloat8e5m2);
SAME(tomboloNumTypes, ncclNumTypes);
#endif
static_assert(static_cast<int>(tomboloInt16) > static_cast<int>(ncclNumTypes));

SAME(tomboloSum, ncclSum);
SAME(tomboloProd, ncclProd);
SAME(tomboloMax, ncclMax);
SAME(tomboloMin, ncclMin);
SAME(tomboloAvg, ncclAvg);
SAME(tomboloNumOps, ncclNumOps);

SAME(TOMBOLO_UNIQUE_ID_BYTES, NCCL_UNIQUE_ID_BYTES);
SAME(sizeof(tomboloUniqueId), sizeof(ncclUniqueId));
#ifdef NCCL_SPLIT_NOCOLOR
SAME(TOMBOLO_SPLIT_NOCOLOR, NCCL_SPLIT_NOCOLOR);
#endif
#ifdef NCCL_CONFIG_UNDEF_INT
SAME(TOMBOLO_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT);
#endif
