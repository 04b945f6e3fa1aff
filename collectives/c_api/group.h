// The C interface's collectives and messages: made at once, or recorded between tomboloGroupStart and the
// outermost tomboloGroupEnd of this thread.
#pragma once

#include <cstddef>

#include "collectives/engine/communicator.h"
#include "tombolo/tombolo.h"

namespace tombolo::c_api {

/// For functions that are collective themselves, and would run before what the group has recorded: throws
/// inside a group.
void refuse_in_group(const char* function);

/// Fills in type and operator, and makes the call, or in a group checks and records it.
tomboloResult_t carry_out(const char* function, tomboloComm_t comm, tomboloDataType_t type, tomboloRedOp_t op,
                          collectives::CollectiveCall call) noexcept;

/// A send or a receive.
tomboloResult_t message(const char* function, tomboloComm_t comm, bool sending, void* data, std::size_t count,
                        tomboloDataType_t type, int peer) noexcept;

}  // namespace tombolo::c_api
