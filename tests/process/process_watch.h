// Helpers of tests that watch processes, with deadlines.
#pragma once

#include <signal.h>
#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/temporary_folder.h"

namespace tombolo::tests {

/// Polls until true or 60 s have passed; returns the last answer.
inline bool eventually(const std::function<bool()>& condition) {
  Deadline deadline = Deadline::after(std::chrono::seconds(60));
  while (!condition()) {
    if (deadline.passed()) return condition();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

/// To be called in a child before exec, since these two stay ignored in a program where they were: whoever
/// runs the tests in the background may have them ignored.
inline void take_interrupts() {
  ::signal(SIGINT, SIG_DFL);
  ::signal(SIGHUP, SIG_DFL);
}

/// False also for a process that has ended but was not waited for.
inline bool is_running(pid_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  if (!std::getline(stat, text)) return false;
  std::size_t end = text.rfind(')');
  return end != std::string::npos && text.size() > end + 2 && text[end + 2] != 'Z';
}

/// A temporary folder into which processes write their ids as file names.
class Folder : public TemporaryFolder {
 public:
  bool has(const std::string& name) const { return std::filesystem::exists(path() / name); }
  std::vector<pid_t> pids() const {
    std::vector<pid_t> all;
    for (const auto& entry : std::filesystem::directory_iterator(path())) {
      std::string name = entry.path().filename().string();
      if (name.find_first_not_of("0123456789") == std::string::npos) all.push_back(std::stoi(name));
    }
    return all;
  }
};

}  // namespace tombolo::tests
