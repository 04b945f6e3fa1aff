// File systems that fail: one call at a time, or all at once in a crash.
#pragma once

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/checkpoint/file_system.h"

namespace tombolo::trainer::test {

/// Asks before each call; tests decide what then happens.
class HookedFiles : public FileSystem {
 public:
  /// The name of the call and its path (empty for calls by descriptor); returns the error with which it
  /// fails, or 0 to let it pass.
  using Before = std::function<int(std::string_view call, const std::string& path)>;
  explicit HookedFiles(Before before = {}) : before_(std::move(before)) {}

  int create(const std::string& path, int& descriptor) override {
    const int error = ask("create", path);
    return error != 0 ? error : FileSystem::create(path, descriptor);
  }
  int open(const std::string& path, int& descriptor) override {
    const int error = ask("open", path);
    return error != 0 ? error : FileSystem::open(path, descriptor);
  }
  int open_to_update(const std::string& path, int& descriptor) override {
    const int error = ask("open_to_update", path);
    return error != 0 ? error : FileSystem::open_to_update(path, descriptor);
  }
  int lock(int descriptor) override {
    const int error = ask("lock", "");
    return error != 0 ? error : FileSystem::lock(descriptor);
  }
  int write(int descriptor, std::span<const std::byte> bytes, std::size_t& wrote) override {
    const int error = ask("write", "");
    return error != 0 ? error : FileSystem::write(descriptor, bytes, wrote);
  }
  // The disk is spared: nothing here outlives the machine.
  int sync(int) override { return ask("sync", ""); }
  int close(int descriptor) override {
    const int error = FileSystem::close(descriptor);
    const int asked = ask("close", "");
    return asked != 0 ? asked : error;
  }
  int rename(const std::string& from, const std::string& to) override {
    const int error = ask("rename", to);
    return error != 0 ? error : FileSystem::rename(from, to);
  }
  int remove(const std::string& path) override {
    const int error = ask("remove", path);
    return error != 0 ? error : FileSystem::remove(path);
  }
  int make_folder(const std::string& path) override {
    const int error = ask("make_folder", path);
    return error != 0 ? error : FileSystem::make_folder(path);
  }
  int remove_folder(const std::string& path) override {
    const int error = ask("remove_folder", path);
    return error != 0 ? error : FileSystem::remove_folder(path);
  }
  int sync_folder(const std::string& path) override { return ask("sync_folder", path); }

 private:
  int ask(std::string_view call, const std::string& path) { return before_ ? before_(call, path) : 0; }
  Before before_;
};

/// What a crash leaves of what was not synced.
enum class Unsynced {
  kKept,  ///< all of it: the process alone was killed
  kLost,  ///< nothing of it: the machine lost its power
};

/// Crashes at the call with this number (from 0): a write leaves the first half of its bytes, any other
/// nothing. From then on no call has an effect, as if the process were gone.
class CrashingFiles final : public FileSystem {
 public:
  CrashingFiles(int crash_at, Unsynced unsynced) : crash_at_(crash_at), unsynced_(unsynced) {}
  ~CrashingFiles() override {
    for (const auto& [descriptor, path] : open_) FileSystem::close(descriptor);
  }

  int calls() const noexcept { return calls_; }
  bool crashed() const noexcept { return crashed_; }

  int create(const std::string& path, int& descriptor) override {
    if (gone()) return EIO;
    const int error = FileSystem::create(path, descriptor);
    if (error == 0) {
      open_[descriptor] = path;
      unsynced_files_.insert(path);
    }
    return error;
  }
  int write(int descriptor, std::span<const std::byte> bytes, std::size_t& wrote) override {
    if (crashed_) return EIO;
    if (calls_++ != crash_at_) return FileSystem::write(descriptor, bytes, wrote);
    FileSystem::write(descriptor, bytes.first(bytes.size() / 2), wrote);
    crash();
    return EIO;
  }
  int sync(int descriptor) override {
    if (gone()) return EIO;
    unsynced_files_.erase(open_.at(descriptor));
    return 0;
  }
  int close(int descriptor) override {
    if (gone()) return EIO;
    open_.erase(descriptor);
    return FileSystem::close(descriptor);
  }
  int rename(const std::string& from, const std::string& to) override {
    if (gone()) return EIO;
    const int error = FileSystem::rename(from, to);
    if (error == 0) {
      unsynced_renames_.push_back({from, to});
      if (unsynced_files_.erase(from) > 0) unsynced_files_.insert(to);
    }
    return error;
  }
  int remove(const std::string& path) override { return gone() ? EIO : FileSystem::remove(path); }
  int make_folder(const std::string& path) override {
    if (gone()) return EIO;
    if (!std::filesystem::exists(path)) unsynced_folders_.push_back(path);
    return FileSystem::make_folder(path);
  }
  int remove_folder(const std::string& path) override {
    return gone() ? EIO : FileSystem::remove_folder(path);
  }
  int sync_folder(const std::string& path) override {
    if (gone()) return EIO;
    std::erase_if(unsynced_renames_, [&](const auto& rename) { return parent(rename.second) == path; });
    std::erase_if(unsynced_folders_, [&](const auto& folder) { return parent(folder) == path; });
    return 0;
  }

 private:
  static std::string parent(const std::string& path) {
    return std::filesystem::path(path).parent_path().string();
  }
  bool gone() {
    if (!crashed_ && calls_++ == crash_at_) crash();
    return crashed_;
  }
  void crash() {
    crashed_ = true;
    if (unsynced_ == Unsynced::kKept) return;
    std::error_code ignored;
    for (auto rename = unsynced_renames_.rbegin(); rename != unsynced_renames_.rend(); ++rename)
      std::filesystem::rename(rename->second, rename->first, ignored);
    for (const std::string& path : unsynced_files_)
      if (std::filesystem::exists(path)) std::filesystem::resize_file(path, 0, ignored);
    for (const std::string& folder : unsynced_folders_) std::filesystem::remove_all(folder, ignored);
  }

  int crash_at_;
  Unsynced unsynced_;
  std::atomic<int> calls_{0};  // read by the test, which does not write
  std::atomic<bool> crashed_{false};
  std::map<int, std::string> open_;
  std::set<std::string> unsynced_files_;
  std::vector<std::pair<std::string, std::string>> unsynced_renames_;
  std::vector<std::string> unsynced_folders_;
};

}  // namespace tombolo::trainer::test
