#include "collectives/c_api/types.h"

#include "collectives/c_api/failures.h"

namespace tombolo::c_api {

using collectives::CollectiveCall;

collectives::DataType type_of(tomboloDataType_t type, const char* function) {
  using collectives::DataType;
  switch (static_cast<int>(type)) {
    case tomboloInt8:
      return DataType::kInt8;
    case tomboloUint8:
      return DataType::kUint8;
    case tomboloInt32:
      return DataType::kInt32;
    case tomboloUint32:
      return DataType::kUint32;
    case tomboloInt64:
      return DataType::kInt64;
    case tomboloUint64:
      return DataType::kUint64;
    case tomboloFloat16:
      return DataType::kFloat16;
    case tomboloFloat32:
      return DataType::kFloat32;
    case tomboloFloat64:
      return DataType::kFloat64;
    case tomboloBfloat16:
      return DataType::kBfloat16;
    case tomboloFloat8e4m3:
      return DataType::kFloat8E4m3;
    case tomboloFloat8e5m2:
      return DataType::kFloat8E5m2;
    case tomboloInt16:
      return DataType::kInt16;
    case tomboloUint16:
      return DataType::kUint16;
    default:
      refuse("{}: there is no data type {}", function, static_cast<int>(type));
  }
}

void complete(CollectiveCall& call, const Member& member, tomboloDataType_t type, tomboloRedOp_t op,
              const char* function) {
  using collectives::ReduceOp;
  call.type = type_of(type, function);
  call.stream = member.stream;
  switch (const int number = op) {
    case tomboloSum:
      call.op = ReduceOp::kSum;
      break;
    case tomboloProd:
      call.op = ReduceOp::kProduct;
      break;
    case tomboloMax:
      call.op = ReduceOp::kMax;
      break;
    case tomboloMin:
      call.op = ReduceOp::kMin;
      break;
    case tomboloAvg:
      call.op = ReduceOp::kAverage;
      break;
    default: {
      const auto made = member.operators.find(number);
      if (made == member.operators.end()) {
        refuse(
            "{}: there is no reduction operator {} on this communicator (was it destroyed, or made on "
            "another one?)",
            function, number);
      }
      if (made->second.type != call.type) {
        refuse("{}: the reduction operator {} was made for {} and not for {}", function, number,
               data_type_name(made->second.type), data_type_name(call.type));
      }
      call.op = ReduceOp::kSum;
      call.factor = made->second.factor;
    }
  }
}

collectives::Compression compression_of(tomboloCompression_t compression, const char* function) {
  using collectives::Compression;
  switch (static_cast<int>(compression)) {
    case tomboloCompressionNone:
      return Compression::kNone;
    case tomboloCompressionBfloat16:
      return Compression::kBfloat16;
    case tomboloCompressionInt8:
      return Compression::kInt8;
    default:
      refuse("{}: there is no compression {}", function, static_cast<int>(compression));
  }
}

}  // namespace tombolo::c_api

using namespace tombolo;

size_t tomboloTypeSize(tomboloDataType_t type) {
  try {
    return collectives::size_of(c_api::type_of(type, "tomboloTypeSize"));
  } catch (...) {
    return 0;
  }
}
