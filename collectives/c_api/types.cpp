#include "collectives/c_api/types.h"

#include "collectives/c_api/failures.h"

namespace tombolo::c_api {

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

collectives::ReduceOp op_of(tomboloRedOp_t op, const char* function) {
  using collectives::ReduceOp;
  switch (static_cast<int>(op)) {
    case tomboloSum:
      return ReduceOp::kSum;
    case tomboloProd:
      return ReduceOp::kProduct;
    case tomboloMax:
      return ReduceOp::kMax;
    case tomboloMin:
      return ReduceOp::kMin;
    case tomboloAvg:
      return ReduceOp::kAverage;
    default:
      refuse("{}: there is no reduction operator {}", function, static_cast<int>(op));
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
