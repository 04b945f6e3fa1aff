#include "net_plugin/nccl_log.h"

#include <string>

#include "base/parameter.h"
#include "net_plugin/parameters.h"

namespace tombolo::net_plugin {

LogLevel log_level_from_environment() {
  std::string name = kLogParameter.choice();
  for (LogLevel level : {LogLevel::kError, LogLevel::kWarning, LogLevel::kInfo}) {
    if (name == log_level_name(level)) return level;
  }
  return LogLevel::kTrace;
}

Log nccl_log(abi::ncclDebugLogger_t logger, LogLevel level) {
  if (logger == nullptr) return Log::to_stderr(level);
  LogLevel made = level == LogLevel::kTrace ? LogLevel::kTrace : LogLevel::kInfo;
  return Log(made, [logger, name = kNetNameParameter.text()](LogLevel at, std::string_view text) {
    const auto nccl_level = at == LogLevel::kInfo    ? abi::NCCL_LOG_INFO
                            : at == LogLevel::kTrace ? abi::NCCL_LOG_TRACE
                                                     : abi::NCCL_LOG_WARN;
    unsigned long flags = abi::NCCL_INIT | abi::NCCL_NET;
    if (nccl_level == abi::NCCL_LOG_WARN) flags = static_cast<unsigned long>(abi::NCCL_ALL);
    logger(nccl_level, flags, __FILE__, __LINE__, "NET/%s : %.*s", name.c_str(),
           static_cast<int>(text.size()), text.data());
  });
}

}  // namespace tombolo::net_plugin
