#include "collectives/c_api/failures.h"

static_assert(TOMBOLO_VERSION_CODE == TOMBOLO_VERSION_NUMBER,
              "tombolo.h and CMakeLists.txt name different versions");

namespace tombolo::c_api {
namespace {

thread_local std::string last_error;

}  // namespace

tomboloResult_t result_of(Cause cause) noexcept {
  switch (cause) {
    case Cause::kSystem:
      return tomboloSystemError;
    case Cause::kRemote:
      return tomboloRemoteError;
    case Cause::kTimeout:
      return tomboloTimeout;
    case Cause::kAborted:
      return tomboloAborted;
    case Cause::kInvalidUsage:
      return tomboloInvalidUsage;
    case Cause::kUnsupported:
      return tomboloUnsupported;
    case Cause::kInternal:
      break;
  }
  return tomboloInternalError;
}

tomboloResult_t report(tomboloResult_t result, const char* text) noexcept {
  try {
    last_error = text;
  } catch (...) {
    last_error.clear();
  }
  return result;
}

}  // namespace tombolo::c_api

using namespace tombolo::c_api;

tomboloResult_t tomboloGetVersion(int* version) {
  return guarded([&] {
    require_pointer(version, "tomboloGetVersion", "version");
    *version = TOMBOLO_VERSION_CODE;
  });
}

const char* tomboloGetErrorString(tomboloResult_t result) {
  switch (result) {
    case tomboloSuccess:
      return "success";
    case tomboloUnhandledCudaError:
      return "unhandled CUDA error";
    case tomboloSystemError:
      return "system error";
    case tomboloInternalError:
      return "internal error";
    case tomboloInvalidArgument:
      return "invalid argument";
    case tomboloInvalidUsage:
      return "invalid usage";
    case tomboloRemoteError:
      return "remote error";
    case tomboloInProgress:
      return "in progress";
    case tomboloTimeout:
      return "timeout";
    case tomboloAborted:
      return "aborted";
    case tomboloUnsupported:
      return "unsupported";
  }
  return "unknown result code";
}

const char* tomboloGetLastError(tomboloComm_t) {
  return last_error.c_str();
}
