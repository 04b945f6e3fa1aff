// Token files in llm.c's format: GPT-2's tokens, two bytes each, in one or more shards.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "trainer/data/joined_files.h"
#include "trainer/data/token_source.h"
#include "trainer/model/output_file.h"

namespace tombolo::trainer {

inline constexpr std::int32_t kTokenFileMagic = 20240520;
inline constexpr std::int32_t kTokenFileVersion = 1;
inline constexpr std::size_t kTokenFileHeaderBytes = 256 * sizeof(std::int32_t);
/// GPT-2's vocabulary, to which the tokens of such a file belong.
inline constexpr int kGpt2Vocabulary = 50257;

/// Whether a file that begins like this is meant as a token file, readable or not.
bool begins_token_file(std::span<const std::byte> begin) noexcept;

/// Tokens that a file of `file_bytes` bytes holds by its header of 256 int32: magic number, version, count;
/// the rest is not read. Throws kInvalidUsage: too short, wrong magic, another version, or a count that does
/// not fit the size. `name` begins the message.
std::uint64_t token_count(std::span<const std::byte> header, std::uint64_t file_bytes,
                          const std::string& name);

/// The tokens of all shards, one after another.
class TokenFiles final : public TokenSource {
 public:
  /// Throws kInvalidUsage where a shard is not such a file.
  explicit TokenFiles(const std::vector<std::string>& paths);

  std::uint64_t size() const noexcept override { return files_.size() / sizeof(std::uint16_t); }
  int vocabulary() const noexcept override { return kGpt2Vocabulary; }
  std::string name() const override { return files_.name(); }
  std::string_view unit() const noexcept override { return "token"; }
  void read(std::uint64_t position, std::span<std::int32_t> tokens) override;

 private:
  JoinedFiles files_;
  std::vector<std::uint16_t> raw_;  ///< of the last read
};

/// Writes one token file piece by piece. One thread.
class TokenFileWriter {
 public:
  /// Throws kSystem where the file cannot be created.
  explicit TokenFileWriter(const std::string& path);

  std::uint64_t count() const noexcept { return count_; }
  /// Throws kInvalidUsage on a token that does not fit two bytes, or more than 2^31 - 1 of them; kSystem.
  void append(std::span<const std::int32_t> tokens);
  /// The file is there once this has returned. Throws kSystem.
  void finish();

 private:
  std::string path_;
  OutputFile file_;
  std::uint64_t count_ = 0;
};

}  // namespace tombolo::trainer
