// collectives/c_api/ owns the C interface (tombolo.h) in terms of the engine. This file says how a call ends:
// no exception leaves the C interface, because guarded() turns it into a result code and keeps its text for
// tomboloGetLastError.
#pragma once

#include <exception>
#include <new>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "tombolo/tombolo.h"

namespace tombolo::c_api {

tomboloResult_t result_of(Cause cause) noexcept;

/// Keeps `text` for this thread's tomboloGetLastError; returns `result`.
tomboloResult_t report(tomboloResult_t result, const char* text) noexcept;

/// Thrown for what the C interface itself refuses with tomboloInvalidArgument; the engine's causes have no
/// such kind.
struct InvalidArgument {
  std::string text;
};
template <typename... Arguments>
[[noreturn]] void refuse(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  throw InvalidArgument{fmt::format(format, std::forward<Arguments>(arguments)...)};
}

template <typename Body>
tomboloResult_t guarded(Body&& body) noexcept {
  try {
    body();
    return tomboloSuccess;
  } catch (const InvalidArgument& error) {
    return report(tomboloInvalidArgument, error.text.c_str());
  } catch (const tombolo::Error& error) {
    return report(result_of(error.cause()), error.what());
  } catch (const std::bad_alloc&) {
    return report(tomboloSystemError, "out of memory");
  } catch (const std::exception& error) {
    return report(tomboloInternalError, error.what());
  }
}

template <typename T>
void require_pointer(const T* pointer, const char* function, const char* name) {
  if (pointer == nullptr) refuse("{}: {} is null", function, name);
}

}  // namespace tombolo::c_api
