// The C interface's operators with a factor.
#include <atomic>

#include "collectives/c_api/failures.h"
#include "collectives/c_api/handles.h"
#include "collectives/c_api/types.h"

using namespace tombolo;
using namespace tombolo::c_api;

namespace {

/// Far from whatever operators NCCL may add.
constexpr int kFirstOperator = 1000;

int next_number() {
  static std::atomic<int> last{kFirstOperator - 1};
  int before = last;
  do {
    if (before >= tomboloMaxRedOp - 1)
      fail(Cause::kUnsupported, "tomboloRedOpCreatePreMulSum: all {} numbers have been used",
           tomboloMaxRedOp - kFirstOperator);
  } while (!last.compare_exchange_weak(before, before + 1));
  return before + 1;
}

}  // namespace

tomboloResult_t tomboloRedOpCreatePreMulSum(tomboloRedOp_t* op, const void* scalar,
                                            tomboloDataType_t datatype, tomboloComm_t comm) {
  const char* const function = __func__;
  return guarded([&] {
    require_pointer(op, function, "op");
    require_pointer(scalar, function, "scalar");
    const collectives::DataType type = type_of(datatype, function);
    const auto member = member_of(comm, function);
    refuse_in_callback(*member, function);
    const int number = next_number();
    member->operators.emplace(number, PreMultipliedSum{type, collectives::Factor::at(scalar, type)});
    *op = static_cast<tomboloRedOp_t>(number);
  });
}

tomboloResult_t tomboloRedOpDestroy(tomboloRedOp_t op, tomboloComm_t comm) {
  const char* const function = __func__;
  return guarded([&] {
    const auto member = member_of(comm, function);
    refuse_in_callback(*member, function);
    if (member->operators.erase(op) == 0) {
      refuse("{}: {} is no operator that was made on this communicator (was it destroyed before?)", function,
             static_cast<int>(op));
    }
  });
}
