// Training text: the raw bytes of a file, cut into rows by position alone, so that every parallel
// configuration trains on the same rows.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace tombolo::trainer {

/// Byte at which row `row` of step `step` starts: ((step x batch + row) x context) mod (size - context - 1).
std::uint64_t row_start(std::uint64_t step, std::uint64_t batch, std::uint64_t row, std::uint64_t context,
                        std::uint64_t size) noexcept;

/// An open file; reads rows as they are needed. One thread at a time.
class TextFile {
 public:
  /// Throws kInvalidUsage: cannot be opened (with errno), not a regular file, or too small for one row of
  /// `context` tokens and its targets.
  TextFile(const std::string& path, int context);
  ~TextFile();
  TextFile(const TextFile&) = delete;
  TextFile& operator=(const TextFile&) = delete;

  std::uint64_t size() const noexcept { return size_; }
  /// One row: `context` tokens, and as targets the same shifted by one. Throws kSystem when the file cannot
  /// be read or has shrunk, kInvalidUsage on a byte outside the vocabulary.
  void read_row(std::uint64_t step, int global_batch, int row, int vocabulary, std::span<std::int32_t> tokens,
                std::span<std::int32_t> targets);

 private:
  std::string path_;
  int file_ = -1;
  std::uint64_t size_ = 0;
};

}  // namespace tombolo::trainer
