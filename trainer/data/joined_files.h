// Ranges of several files, read as if they were one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "trainer/model/input_file.h"

namespace tombolo::trainer {

/// Holds a bounded number of files open at once, however many there are. One thread at a time.
class JoinedFiles {
 public:
  static constexpr std::size_t kMostOpen = 64;

  /// Appends `bytes` bytes of a file, from `begin` on.
  void add(const std::string& path, std::uint64_t begin, std::uint64_t bytes);

  /// Of all ranges, in bytes.
  std::uint64_t size() const noexcept { return size_; }
  /// "data file a.bin", "data files a.bin and 3 more"
  std::string name() const;
  /// Fills `into`, which must not go beyond the end. Throws kInvalidUsage where a file is gone, kSystem where
  /// it cannot be read or has become shorter.
  void read(std::uint64_t position, std::span<std::byte> into);

 private:
  struct Range {
    std::string path;
    std::uint64_t begin;  ///< in the file
    std::uint64_t start;  ///< in the whole
    std::uint64_t bytes;
  };
  const InputFile& open(std::size_t index);

  std::vector<Range> ranges_;
  std::uint64_t size_ = 0;
  std::map<std::size_t, InputFile> open_;
  std::deque<std::size_t> opened_;  ///< the oldest first
};

}  // namespace tombolo::trainer
