#include "trainer/checkpoint/run_lock.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <fstream>
#include <span>
#include <thread>

#include "base/error.h"
#include "base/printable.h"

namespace tombolo::trainer {
namespace {

constexpr Duration kBetweenTrials = std::chrono::milliseconds(20);
/// More than any owner writes: what else may lie there is not quoted at length.
constexpr std::size_t kMostOwnerText = 512;

/// Who holds the lock, for people: "process 4711 on node3 since 2026-01-31T12:00:00Z".
std::string owner_text() {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '?';
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  std::array<char, 32> since{};
  std::strftime(since.data(), since.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return fmt::format("process {} on {} since {}", ::getpid(), host.data(), since.data());
}

/// An owner may be between locking the file and writing it: then it is unknown, or the one before is named.
std::string read_owner(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kMostOwnerText, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.empty() ? "a process that has not written yet who it is" : printable(text);
}

/// Returns an error of the file system, which the lock does not depend on.
int write_owner(const std::string& path, FileSystem& files) {
  int descriptor = -1;
  if (const int error = files.create(path, descriptor)) return error;
  const std::string text = owner_text() + "\n";
  std::span<const std::byte> rest = std::as_bytes(std::span(text));
  int error = 0;
  while (error == 0 && !rest.empty()) {
    std::size_t wrote = 0;
    error = files.write(descriptor, rest, wrote);
    if (error == 0 && wrote == 0) error = EIO;
    rest = rest.subspan(wrote);
  }
  const int closing = files.close(descriptor);
  return error != 0 ? error : closing;
}

/// Like FileSystem::lock(), but tries again until `patience` is over.
int lock_within(int descriptor, FileSystem& files, Duration patience) {
  const Deadline deadline = Deadline::after(patience);
  int error = files.lock(descriptor);
  while (error == EWOULDBLOCK && !deadline.passed()) {
    std::this_thread::sleep_for(std::min(kBetweenTrials, deadline.remaining()));
    error = files.lock(descriptor);
  }
  return error;
}

}  // namespace

RunLock::RunLock(const std::string& folder, FileSystem& files, Duration patience, const Log& log)
    : files_(files) {
  const std::string path = folder + "/" + kLockName;
  int descriptor = -1;
  int error = files_.open_to_update(path, descriptor);
  if (error == 0) error = lock_within(descriptor, files_, patience);
  if (error == 0) {
    descriptor_ = descriptor;
    if (const int unwritten = write_owner(path, files_))
      log.warning("{}: the lock is held, but not who holds it is in the file: {}", path,
                  errno_text(unwritten));
    return;
  }
  if (descriptor >= 0) files_.close(descriptor);
  if (error == EWOULDBLOCK)
    fail(Cause::kInvalidUsage,
         "--checkpoint {}: another run is using this folder: {}, which holds the lock on {}; wait for that "
         "run or end it, or name another folder",
         folder, read_owner(path), path);
  log.warning("{}: cannot be locked ({}): nothing keeps a second run out of this folder", path,
              errno_text(error));
}

RunLock::~RunLock() {
  if (held()) files_.close(descriptor_);
}

}  // namespace tombolo::trainer
