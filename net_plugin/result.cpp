#include "net_plugin/result.h"

namespace tombolo::net_plugin {

abi::Result result_of(Cause cause) noexcept {
  switch (cause) {
    case Cause::kSystem:
      return abi::kSystemError;
    case Cause::kRemote:
    case Cause::kTimeout:
    case Cause::kAborted:
      return abi::kRemoteError;
    case Cause::kInvalidUsage:
    case Cause::kUnsupported:
      return abi::kInvalidUsage;
    case Cause::kInternal:
      return abi::kInternalError;
  }
  return abi::kInternalError;
}

void report(const Log& log, std::string_view operation, std::string_view text) noexcept {
  try {
    log.error("{}: {}", operation, text);
  } catch (...) {
    // Out of memory while saying so: the result code has to do.
  }
}

}  // namespace tombolo::net_plugin
