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

Log nccl_log(abi::Logger logger, LogLevel level) {
  if (logger == nullptr) return Log::to_stderr(level);
  LogLevel made = level == LogLevel::kTrace ? LogLevel::kTrace : LogLevel::kInfo;
  return Log(made, [logger, name = kNetNameParameter.text()](LogLevel at, std::string_view text) {
    int nccl_level = at == LogLevel::kInfo    ? abi::kLogInfo
                     : at == LogLevel::kTrace ? abi::kLogTrace
                                              : abi::kLogWarn;
    unsigned long subsystems = nccl_level == abi::kLogWarn ? abi::kLogAll : abi::kLogInit | abi::kLogNet;
    logger(nccl_level, subsystems, __FILE__, __LINE__, "NET/%s : %.*s", name.c_str(),
           static_cast<int>(text.size()), text.data());
  });
}

}  // namespace tombolo::net_plugin
