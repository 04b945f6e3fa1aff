// A file that appears under its name only when it is complete.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/descriptor.h"

namespace tombolo::trainer {

/// Writes a temporary file beside `path`, which commit() renames; without commit() it is removed. One thread.
class OutputFile {
 public:
  /// `kind` begins every message: "checkpoint". Throws kSystem where the file cannot be created.
  OutputFile(std::string kind, std::string path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// Appends. Throws kSystem.
  void write(std::span<const std::byte> bytes);
  /// Overwrites what was written at `position`. Throws kSystem.
  void write_at(std::size_t position, std::span<const std::byte> bytes);
  /// Closes and renames; when it returns the file would outlast a power cut. Throws kSystem.
  void commit();

 private:
  std::string kind_, path_, temporary_;
  Descriptor file_;
};

}  // namespace tombolo::trainer
