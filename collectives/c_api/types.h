// The C interface's numbers for types and operators, in the engine's terms.
#pragma once

#include "collectives/c_api/handles.h"
#include "collectives/data/compression.h"
#include "collectives/data/data_type.h"
#include "collectives/engine/collective_call.h"
#include "tombolo/tombolo.h"

namespace tombolo::c_api {

// complete() fills in what a call of the C interface says beside buffers and counts: its type and operator,
// and the communicator's stream. All throw InvalidArgument, naming `function`, for a number that stands for
// no type, operator (on that communicator, of that type) or compression.
collectives::DataType type_of(tomboloDataType_t type, const char* function);
void complete(collectives::CollectiveCall& call, const Member& member, tomboloDataType_t type,
              tomboloRedOp_t op, const char* function);
collectives::Compression compression_of(tomboloCompression_t compression, const char* function);

}  // namespace tombolo::c_api
