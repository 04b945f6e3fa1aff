// The plugin's library as NCCL loads it: its tables by name, and a logger that keeps what it is given.
#pragma once

#include <dlfcn.h>

#include <array>
#include <cstdarg>
#include <cstdio>
#include <mutex>
#include <stdexcept>
#include <string>

#include "net_plugin/abi/types.h"

namespace tombolo::tests {

/// What keep_line() was given, one line each. Read while no comm lives, because the background thread logs
/// too.
inline std::string log_text;

/// A logger of NCCL's, for any thread.
inline void keep_line(net_plugin::abi::ncclDebugLogLevel, unsigned long, const char*, int, const char* format,
                      ...) {
  std::array<char, 1024> line{};
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line.data(), line.size(), format, arguments);
  va_end(arguments);
  static std::mutex lock;
  const std::lock_guard guard(lock);
  log_text += line.data();
  log_text += '\n';
}

/// The table of that name; the library stays loaded. Throws std::runtime_error where there is none.
template <typename Table>
Table& table_of(const std::string& symbol) {
  static void* const library = ::dlopen(TOMBOLO_NET_PLUGIN_PATH, RTLD_NOW | RTLD_LOCAL);
  void* found = library != nullptr ? ::dlsym(library, symbol.c_str()) : nullptr;
  if (found == nullptr) throw std::runtime_error(symbol + " is missing: " + ::dlerror());
  return *static_cast<Table*>(found);
}

}  // namespace tombolo::tests
