// Text whose bytes are the tokens.
#pragma once

#include <vector>

#include "trainer/data/joined_files.h"
#include "trainer/data/token_source.h"

namespace tombolo::trainer {

/// The bytes of one file, or of several one after another; vocabulary 256.
class TextFile final : public TokenSource {
 public:
  /// Throws kInvalidUsage: cannot be opened (with errno), or not a regular file.
  explicit TextFile(const std::vector<std::string>& paths);

  std::uint64_t size() const noexcept override { return files_.size(); }
  int vocabulary() const noexcept override { return 256; }
  std::string name() const override { return files_.name(); }
  std::string_view unit() const noexcept override { return "byte"; }
  void read(std::uint64_t position, std::span<std::int32_t> tokens) override;

 private:
  JoinedFiles files_;
  std::vector<unsigned char> bytes_;  ///< of the last read
};

/// Whole files, one after another. Throws kInvalidUsage where one cannot be opened.
JoinedFiles whole_files(const std::vector<std::string>& paths);

}  // namespace tombolo::trainer
