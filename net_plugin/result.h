// Nothing is thrown across NCCL's ABI: failures become result codes, and a WARN line that says what failed.
#pragma once

#include <exception>
#include <new>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "net_plugin/abi/constants.h"

namespace tombolo::net_plugin {

abi::Result result_of(Cause cause) noexcept;

/// Logs without throwing, whatever happens.
void report(const Log& log, std::string_view operation, std::string_view text) noexcept;

/// Runs `body`; its exceptions are logged as "<operation>: <what>" and translated.
template <typename Body>
abi::Result guarded(const Log& log, std::string_view operation, Body&& body) noexcept {
  try {
    std::forward<Body>(body)();
    return abi::kSuccess;
  } catch (const Error& error) {
    report(log, operation, error.what());
    return result_of(error.cause());
  } catch (const std::bad_alloc&) {
    report(log, operation, "out of memory");
    return abi::kSystemError;
  } catch (const std::exception& error) {
    report(log, operation, error.what());
    return abi::kInternalError;
  }
}

}  // namespace tombolo::net_plugin
