#include "trainer/data/token_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "base/error.h"

namespace tombolo::trainer {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are little-endian");

constexpr std::int32_t kLlama3Magic = 20240801;

using Header = std::array<std::int32_t, 256>;

std::int32_t number_at(std::span<const std::byte> bytes, std::size_t index) noexcept {
  std::int32_t value = 0;
  std::memcpy(&value, bytes.data() + index * sizeof value, sizeof value);
  return value;
}

Header header_of(std::uint64_t count) noexcept {
  Header header{};
  header[0] = kTokenFileMagic;
  header[1] = kTokenFileVersion;
  header[2] = static_cast<std::int32_t>(count);
  return header;
}

}  // namespace

bool begins_token_file(std::span<const std::byte> begin) noexcept {
  if (begin.size() < sizeof(std::int32_t)) return false;
  const std::int32_t magic = number_at(begin, 0);
  return magic == kTokenFileMagic || magic == kLlama3Magic;
}

std::uint64_t token_count(std::span<const std::byte> header, std::uint64_t file_bytes,
                          const std::string& name) {
  if (header.size() < kTokenFileHeaderBytes || file_bytes < kTokenFileHeaderBytes)
    fail(Cause::kInvalidUsage, "{}: {} bytes are too few for a token file's header of {}", name, file_bytes,
         kTokenFileHeaderBytes);
  if (number_at(header, 0) == kLlama3Magic)
    fail(Cause::kInvalidUsage,
         "{}: its tokens are Llama 3's, of four bytes; this build reads GPT-2's (magic {})", name,
         kTokenFileMagic);
  if (number_at(header, 0) != kTokenFileMagic)
    fail(Cause::kInvalidUsage, "{}: magic number {}, but a token file of llm.c's format starts with {}", name,
         number_at(header, 0), kTokenFileMagic);
  if (number_at(header, 1) != kTokenFileVersion)
    fail(Cause::kInvalidUsage, "{}: version {}; this build reads version {}", name, number_at(header, 1),
         kTokenFileVersion);
  const std::int32_t count = number_at(header, 2);
  const std::uint64_t there = (file_bytes - kTokenFileHeaderBytes) / sizeof(std::uint16_t);
  if (count < 0 ||
      static_cast<std::uint64_t>(count) * sizeof(std::uint16_t) != file_bytes - kTokenFileHeaderBytes)
    fail(Cause::kInvalidUsage, "{}: its header says {} tokens, but {} follow it: cut short?", name, count,
         there);
  return static_cast<std::uint64_t>(count);
}

TokenFiles::TokenFiles(const std::vector<std::string>& paths) {
  std::array<std::byte, kTokenFileHeaderBytes> header{};
  for (const std::string& path : paths) {
    const InputFile file("data file", path);
    const auto there = static_cast<std::size_t>(std::min<std::uint64_t>(file.size(), header.size()));
    file.read(0, std::span(header).first(there));
    const std::uint64_t count = token_count(std::span(header).first(there), file.size(), file.name());
    files_.add(path, kTokenFileHeaderBytes, count * sizeof(std::uint16_t));
  }
}

void TokenFiles::read(std::uint64_t position, std::span<std::int32_t> tokens) {
  raw_.resize(tokens.size());
  files_.read(position * sizeof(std::uint16_t), std::as_writable_bytes(std::span(raw_)));
  std::ranges::copy(raw_, tokens.begin());
}

TokenFileWriter::TokenFileWriter(const std::string& path) : path_(path), file_("token file", path) {
  const Header header = header_of(0);
  file_.write(std::as_bytes(std::span(header)));
}

void TokenFileWriter::append(std::span<const std::int32_t> tokens) {
  constexpr std::uint64_t kMostTokens = std::numeric_limits<std::int32_t>::max();
  if (tokens.size() > kMostTokens - count_)
    fail(Cause::kInvalidUsage,
         "token file {}: more than {} tokens, which its header cannot say; write several shards", path_,
         kMostTokens);
  std::vector<std::uint16_t> raw(tokens.size());
  for (std::size_t index = 0; index < tokens.size(); ++index) {
    if (tokens[index] < 0 || tokens[index] > std::numeric_limits<std::uint16_t>::max())
      fail(Cause::kInvalidUsage, "token file {}: token {} does not fit its two bytes", path_, tokens[index]);
    raw[index] = static_cast<std::uint16_t>(tokens[index]);
  }
  file_.write(std::as_bytes(std::span(raw)));
  count_ += tokens.size();
}

void TokenFileWriter::finish() {
  const Header header = header_of(count_);
  file_.write_at(0, std::as_bytes(std::span(header)));
  file_.commit();
}

}  // namespace tombolo::trainer
