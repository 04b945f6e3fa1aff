// The C interface's numbers for types and operators, in the engine's terms.
#pragma once

#include "collectives/data/compression.h"
#include "collectives/data/data_type.h"
#include "tombolo/tombolo.h"

namespace tombolo::c_api {

// All throw InvalidArgument, naming `function`, for a number that stands for no type, operator or
// compression.
collectives::DataType type_of(tomboloDataType_t type, const char* function);
collectives::ReduceOp op_of(tomboloRedOp_t op, const char* function);
collectives::Compression compression_of(tomboloCompression_t compression, const char* function);

}  // namespace tombolo::c_api
