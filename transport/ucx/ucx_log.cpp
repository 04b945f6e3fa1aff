#include "transport/ucx/ucx_log.h"

#include <ucs/debug/log_def.h>

#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <mutex>

namespace tombolo::transport::ucx {
namespace {

/// Takes the log handler away at the process's end, or when the plugin is unloaded while UCX stays.
struct Hook {
  ~Hook() {
    if (pop != nullptr) pop();
  }
  std::mutex lock;
  Log log;
  void (*pop)() = nullptr;
};

Hook& hook() {
  static Hook one;
  return one;
}

ucs_log_func_rc_t on_line(const char*, unsigned, const char*, ucs_log_level_t level,
                          const ucs_log_component_config_t*, const char* format, va_list arguments) {
  Log log;
  {
    std::lock_guard guard(hook().lock);
    log = hook().log;
  }
  const LogLevel ours = level <= UCS_LOG_LEVEL_ERROR ? LogLevel::kInfo : LogLevel::kTrace;
  if (!log.enabled(ours)) return UCS_LOG_FUNC_RC_STOP;
  std::array<char, 512> text{};
  std::vsnprintf(text.data(), text.size(), format, arguments);
  if (ours == LogLevel::kInfo) {
    log.info("UCX: {}", text.data());
  } else {
    log.trace("UCX: {}", text.data());
  }
  return UCS_LOG_FUNC_RC_STOP;
}

}  // namespace

void take_log_of(const DynamicLibrary& ucs, const Log& log) {
  if (std::getenv("UCX_LOG_LEVEL") != nullptr || std::getenv("UCX_LOG_FILE") != nullptr) return;
  Hook& here = hook();
  void (*push)(ucs_log_func_t) = nullptr;
  void (*pop)() = nullptr;
  {
    std::lock_guard guard(here.lock);
    here.log = log;
    if (here.pop != nullptr || !ucs.find("ucs_log_push_handler", push) ||
        !ucs.find("ucs_log_pop_handler", pop)) {
      return;
    }
    here.pop = pop;
  }
  push(on_line);
}

}  // namespace tombolo::transport::ucx
