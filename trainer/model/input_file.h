// A file of known size that is read by position.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/descriptor.h"

namespace tombolo::trainer {

/// Movable. Any thread may read; reading does not move a position.
class InputFile {
 public:
  /// `kind` begins every message: "data file", "checkpoint". Throws kInvalidUsage: cannot be opened (with
  /// errno), or not a regular file.
  InputFile(std::string kind, std::string path);

  /// In bytes, when it was opened.
  std::uint64_t size() const noexcept { return size_; }
  /// "data file corpus.txt"
  std::string name() const { return kind_ + " " + path_; }
  /// Fills `into`. Throws kSystem where the file cannot be read there, or has become shorter.
  void read(std::uint64_t position, std::span<std::byte> into) const;
  /// All of it. Throws kInvalidUsage where it has more than `limit` bytes.
  std::string read_all(std::uint64_t limit) const;

 private:
  std::string kind_, path_;
  Descriptor file_;
  std::uint64_t size_ = 0;
};

}  // namespace tombolo::trainer
