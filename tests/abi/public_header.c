/* The public header's values and layouts, written down a second time: what programs were compiled with. A
 * line here changes only with a new major version. Compiled only. */
#include <tombolo/tombolo.h>

#define VALUE(name, number) _Static_assert((int)(name) == (number), #name)
#define FIELD(type, field, at, bytes)                              \
  _Static_assert(offsetof(type, field) == (at), #type "." #field); \
  _Static_assert(sizeof(((type*)0)->field) == (bytes), #type "." #field)

VALUE(tomboloSuccess, 0);
VALUE(tomboloUnhandledCudaError, 1);
VALUE(tomboloSystemError, 2);
VALUE(tomboloInternalError, 3);
VALUE(tomboloInvalidArgument, 4);
VALUE(tomboloInvalidUsage, 5);
VALUE(tomboloRemoteError, 6);
VALUE(tomboloInProgress, 7);
VALUE(tomboloTimeout, 1000);
VALUE(tomboloAborted, 1001);
VALUE(tomboloUnsupported, 1002);

VALUE(tomboloInt8, 0);
VALUE(tomboloUint8, 1);
VALUE(tomboloInt32, 2);
VALUE(tomboloUint32, 3);
VALUE(tomboloInt64, 4);
VALUE(tomboloUint64, 5);
VALUE(tomboloFloat16, 6);
VALUE(tomboloFloat32, 7);
VALUE(tomboloFloat64, 8);
VALUE(tomboloBfloat16, 9);
VALUE(tomboloFloat8e4m3, 10);
VALUE(tomboloFloat8e5m2, 11);
VALUE(tomboloNumTypes, 12);
VALUE(tomboloInt16, 1000);
VALUE(tomboloUint16, 1001);

VALUE(tomboloSum, 0);
VALUE(tomboloProd, 1);
VALUE(tomboloMax, 2);
VALUE(tomboloMin, 3);
VALUE(tomboloAvg, 4);
VALUE(tomboloNumOps, 5);
VALUE(tomboloMaxRedOp, 0x7fffffff);

VALUE(TOMBOLO_SPLIT_NOCOLOR, -1);
VALUE(TOMBOLO_CONFIG_MAGIC, 0x746f6d62);

_Static_assert(sizeof(tomboloResult_t) == 4 && sizeof(tomboloDataType_t) == 4 && sizeof(tomboloRedOp_t) == 4,
               "enumerations are ints");
_Static_assert(sizeof(tomboloComm_t) == sizeof(void*), "tomboloComm_t");

_Static_assert(sizeof(tomboloUniqueId) == 128, "tomboloUniqueId");
FIELD(tomboloUniqueId, internal, 0, 128);

_Static_assert(sizeof(tomboloConfig_t) == 56, "tomboloConfig_t");
FIELD(tomboloConfig_t, size, 0, 8);
FIELD(tomboloConfig_t, magic, 8, 4);
FIELD(tomboloConfig_t, version, 12, 4);
FIELD(tomboloConfig_t, blocking, 16, 4);
FIELD(tomboloConfig_t, deadline, 24, 8);
FIELD(tomboloConfig_t, algorithm, 32, 8);
FIELD(tomboloConfig_t, routing, 40, 8);
FIELD(tomboloConfig_t, progress, 48, 8);
