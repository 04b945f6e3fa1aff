// What checkpoints ask of the operating system: a seam at which tests count calls, make each of them fail,
// write less than it was given, or be the last before a crash.
//
// trainer/checkpoint/ owns what a run needs to go on after it ended: shards, their folders, the thread that
// writes them, and the ranks' agreement on which checkpoint is whole.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace tombolo::trainer {

/// The operating system's files. Every function returns 0 or a value of errno, and retries what a signal
/// interrupted. Any thread, one at a time.
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  /// Creates a file for writing, or empties the one that is there. The caller closes the descriptor.
  virtual int create(const std::string& path, int& descriptor);
  /// Opens a file for reading. The caller closes the descriptor.
  virtual int open(const std::string& path, int& descriptor);
  /// Opens a file for reading and writing, and creates it where there is none. The caller closes the
  /// descriptor.
  virtual int open_to_update(const std::string& path, int& descriptor);
  /// Locks an open file for this descriptor alone, until it is closed. EWOULDBLOCK where another descriptor,
  /// of this process or of any other, holds the lock; does not wait for it.
  virtual int lock(int descriptor);
  /// `wrote` may be less than was given.
  virtual int write(int descriptor, std::span<const std::byte> bytes, std::size_t& wrote);
  /// Returns when the file's bytes are on the disk. After a failure nobody knows which of them are: the file
  /// must be given up, not synced again.
  virtual int sync(int descriptor);
  virtual int close(int descriptor);
  virtual int rename(const std::string& from, const std::string& to);
  /// A file; 0 where there is none.
  virtual int remove(const std::string& path);
  /// 0 where it is there already.
  virtual int make_folder(const std::string& path);
  /// ENOTEMPTY where something is in it; 0 where there is none.
  virtual int remove_folder(const std::string& path);
  /// Returns when the names in the folder are on the disk.
  virtual int sync_folder(const std::string& path);
};

}  // namespace tombolo::trainer
