// The C interface's collectives and messages: made at once, or recorded between tomboloGroupStart and the
// outermost tomboloGroupEnd of this thread.
#pragma once

#include <cstddef>
#include <functional>

#include "collectives/engine/communicator.h"
#include "tombolo/tombolo.h"

namespace tombolo::c_api {

/// Throws inside a group. For functions that are collective themselves: they would run before the calls that
/// the group has recorded.
void refuse_in_group(const char* function);

/// Fills in type, operator and stream; then makes the call, or inside a group checks and records it.
tomboloResult_t carry_out(const char* function, tomboloComm_t comm, tomboloDataType_t type, tomboloRedOp_t op,
                          collectives::CollectiveCall call) noexcept;

/// As above, of the call that `make` returns.
tomboloResult_t carry_out(const char* function, tomboloComm_t comm, tomboloDataType_t type, tomboloRedOp_t op,
                          const std::function<collectives::CollectiveCall()>& make) noexcept;

/// The bytes of a message; throws InvalidArgument where its arguments cannot be right.
std::size_t message_bytes(const char* function, const collectives::Communicator& communicator,
                          const void* data, std::size_t count, tomboloDataType_t type, int peer);

/// Sends or receives; inside a group it checks and records that.
tomboloResult_t message(const char* function, tomboloComm_t comm, bool sending, void* data, std::size_t count,
                        tomboloDataType_t type, int peer) noexcept;

}  // namespace tombolo::c_api
