#include "tools/demo/environment.h"

#include <sys/sysinfo.h>
#include <sys/utsname.h>

#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>

#include "compute/cores.h"
#include "tools/launch/launcher.h"
#include "tools/process/subprocess.h"

namespace tombolo::tools::demo {
namespace {

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string row; std::getline(file, row);) {
    auto colon = row.find(": ");
    if (row.starts_with("model name") && colon != std::string::npos) return row.substr(colon + 2);
  }
  return "unknown";
}

// The commit of the repository that this program was built in; empty for an installed one.
std::string commit_of_build() {
  auto git = find_program("git");
  if (!git) return {};
  std::string folder = std::filesystem::path(own_program()).parent_path().string();
  Finished done = run_program({*git, "-C", folder, "describe", "--always", "--dirty", "--abbrev=12"}, "",
                              std::chrono::seconds(5));
  if (done.exit_code != 0) return {};
  while (!done.output.empty() && done.output.back() == '\n') done.output.pop_back();
  return done.output;
}

std::string utc_now() {
  std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

}  // namespace

Environment describe_environment() {
  Environment environment;
  utsname name{};
  if (uname(&name) == 0)
    environment.kernel = fmt::format("{} {} {}", name.sysname, name.release, name.machine);
  environment.processor = processor_name();
  environment.cores = compute::usable_processors();
  struct sysinfo info {};
  if (sysinfo(&info) == 0)
    environment.memory_bytes = static_cast<double>(info.totalram) * static_cast<double>(info.mem_unit);
#if defined(__clang__)
  environment.compiler = __VERSION__;  // "Debian Clang 14.0.6"
#else
  environment.compiler = fmt::format("g++ {}", __VERSION__);
#endif
  environment.version = TOMBOLO_VERSION;
  environment.commit = commit_of_build();
  environment.started = utc_now();
  return environment;
}

}  // namespace tombolo::tools::demo
