#include "trainer/checkpoint/file_system.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

namespace tombolo::trainer {
namespace {

/// Repeats a call that returns a negative number while a signal interrupts it.
template <typename Call>
auto uninterrupted(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

int error_of(int result) noexcept {
  return result < 0 ? errno : 0;
}

int unless(int error, int fine) noexcept {
  return error == fine ? 0 : error;
}

}  // namespace

int FileSystem::create(const std::string& path, int& descriptor) {
  descriptor =
      uninterrupted([&] { return ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666); });
  return error_of(descriptor);
}

int FileSystem::open(const std::string& path, int& descriptor) {
  descriptor = uninterrupted([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC); });
  return error_of(descriptor);
}

int FileSystem::open_to_update(const std::string& path, int& descriptor) {
  descriptor = uninterrupted([&] { return ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666); });
  return error_of(descriptor);
}

int FileSystem::lock(int descriptor) {
  return error_of(uninterrupted([&] { return ::flock(descriptor, LOCK_EX | LOCK_NB); }));
}

int FileSystem::write(int descriptor, std::span<const std::byte> bytes, std::size_t& wrote) {
  const ssize_t result = uninterrupted([&] { return ::write(descriptor, bytes.data(), bytes.size()); });
  wrote = result < 0 ? 0 : static_cast<std::size_t>(result);
  return result < 0 ? errno : 0;
}

int FileSystem::sync(int descriptor) {
  return error_of(uninterrupted([&] { return ::fsync(descriptor); }));
}

// Not repeated: the descriptor is gone even where a signal interrupted the call.
int FileSystem::close(int descriptor) {
  return unless(error_of(::close(descriptor)), EINTR);
}

int FileSystem::rename(const std::string& from, const std::string& to) {
  return error_of(::rename(from.c_str(), to.c_str()));
}

int FileSystem::remove(const std::string& path) {
  return unless(error_of(::unlink(path.c_str())), ENOENT);
}

int FileSystem::make_folder(const std::string& path) {
  const int error = error_of(::mkdir(path.c_str(), 0777));
  struct stat status {};
  if (error != EEXIST || ::stat(path.c_str(), &status) != 0) return error;
  return S_ISDIR(status.st_mode) ? 0 : ENOTDIR;
}

int FileSystem::remove_folder(const std::string& path) {
  const int error = error_of(::rmdir(path.c_str()));
  return unless(error == EEXIST ? ENOTEMPTY : error, ENOENT);
}

int FileSystem::sync_folder(const std::string& path) {
  const int descriptor =
      uninterrupted([&] { return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
  if (descriptor < 0) return errno;
  // Some network file systems refuse to sync a folder: their names are on the server when the call that made
  // them returns.
  const int error = unless(sync(descriptor), EINVAL);
  ::close(descriptor);
  return error;
}

}  // namespace tombolo::trainer
