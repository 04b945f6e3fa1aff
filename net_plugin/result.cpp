#include "net_plugin/result.h"

namespace tombolo::net_plugin {

abi::ncclResult_t result_of(Cause cause) noexcept {
  switch (cause) {
    case Cause::kSystem:
      return abi::ncclSystemError;
    case Cause::kRemote:
    case Cause::kTimeout:
    case Cause::kAborted:
      return abi::ncclRemoteError;
    case Cause::kInvalidUsage:
    case Cause::kUnsupported:
      return abi::ncclInvalidUsage;
    case Cause::kInternal:
      return abi::ncclInternalError;
  }
  return abi::ncclInternalError;
}

void report(const Log& log, std::string_view operation, std::string_view text) noexcept {
  try {
    log.error("{}: {}", operation, text);
  } catch (...) {
    // Logging ran out of memory, so the caller gets the result code alone.
  }
}

}  // namespace tombolo::net_plugin
