// Watching processes from a test, with deadlines.
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

/// False also for one that has ended but was not waited for.
inline bool is_running(pid_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  if (!std::getline(stat, text)) return false;
  std::size_t end = text.rfind(')');
  return end != std::string::npos && text.size() > end + 2 && text[end + 2] != 'Z';
}

/// A folder of this test's own, removed with the object.
class Folder {
 public:
  Folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tombolo-test-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp " + pattern);
    path_ = pattern;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::filesystem::path& path() const { return path_; }

  /// The process ids that others wrote as file names into this folder.
  std::vector<pid_t> pids() const {
    std::vector<pid_t> all;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      std::string name = entry.path().filename().string();
      if (name.find_first_not_of("0123456789") == std::string::npos) all.push_back(std::stoi(name));
    }
    return all;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace tombolo::tests
