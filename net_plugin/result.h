// No exception crosses NCCL's ABI: a failure becomes a result code, and a WARN line that says what failed.
#pragma once

#include <exception>
#include <new>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "net_plugin/abi/types.h"

namespace tombolo::net_plugin {

abi::ncclResult_t result_of(Cause cause) noexcept;

/// Logs the failure. Never throws, even where logging fails.
void report(const Log& log, std::string_view operation, std::string_view text) noexcept;

/// Runs `body`; its exceptions are logged as "<operation>: <what>" and translated.
template <typename Body>
abi::ncclResult_t guarded(const Log& log, std::string_view operation, Body&& body) noexcept {
  try {
    std::forward<Body>(body)();
    return abi::ncclSuccess;
  } catch (const Error& error) {
    report(log, operation, error.what());
    return result_of(error.cause());
  } catch (const std::bad_alloc&) {
    report(log, operation, "out of memory");
    return abi::ncclSystemError;
  } catch (const std::exception& error) {
    report(log, operation, error.what());
    return abi::ncclInternalError;
  }
}

}  // namespace tombolo::net_plugin
