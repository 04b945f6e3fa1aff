#include "trainer/data/tokenized_text.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "trainer/data/text_encoder.h"
#include "trainer/data/text_file.h"

namespace tombolo::trainer {
namespace {

/// A file without a name in the folder of temporary files.
Descriptor unnamed_file() {
  const std::string folder = std::filesystem::temp_directory_path().string();
  std::string pattern = folder + "/tombolo-tokens-XXXXXX";
  Descriptor file(::mkostemp(pattern.data(), O_CLOEXEC));
  if (!file)
    fail_errno(errno, fmt::format("creating a file for tokens in {} (TMPDIR names another)", folder));
  ::unlink(pattern.c_str());
  return file;
}

}  // namespace

void encode_files(JoinedFiles& text, const Tokenizer& tokenizer, std::size_t window,
                  const std::function<void(std::span<const std::int32_t>)>& sink) {
  TextEncoder encoder(tokenizer);
  std::string pending;  // read, but not yet encoded
  std::vector<std::int32_t> tokens;
  std::uint64_t position = 0;
  bool last = false;
  while (!last) {
    const std::size_t kept = pending.size();
    const auto more =
        static_cast<std::size_t>(std::min<std::uint64_t>(window - kept, text.size() - position));
    pending.resize(kept + more);
    text.read(position, std::as_writable_bytes(std::span(pending)).subspan(kept));
    position += more;
    last = position == text.size();
    tokens.clear();
    std::size_t done = encoder.encode(pending, last, tokens);
    if (done == 0 && !last) {  // one piece fills the window
      done = pending.size() / 2;
      while (done > 1 && (static_cast<unsigned char>(pending[done]) & 0xc0) == 0x80)
        --done;  // inside a character
      encoder.encode(std::string_view(pending).substr(0, done), true, tokens);
    }
    pending.erase(0, done);
    sink(tokens);
  }
}

TokenizedText::TokenizedText(const std::vector<std::string>& paths, const Tokenizer& tokenizer)
    : files_(whole_files(paths)),
      vocabulary_(tokenizer.vocabulary()),
      token_bytes_(vocabulary_ <= 65536 ? 2 : 4),
      cache_(unnamed_file()) {
  encode_files(files_, tokenizer, kEncodingWindow,
               [this](std::span<const std::int32_t> tokens) { append(tokens); });
}

void TokenizedText::append(std::span<const std::int32_t> tokens) {
  raw_.resize(tokens.size() * token_bytes_);
  for (std::size_t index = 0; index < tokens.size(); ++index)  // little-endian: the low bytes come first
    std::memcpy(raw_.data() + index * token_bytes_, &tokens[index], token_bytes_);
  std::span<const std::byte> left = raw_;
  while (!left.empty()) {
    const ssize_t wrote = ::write(cache_.get(), left.data(), left.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) fail_errno(errno, fmt::format("{}: writing its tokens to a temporary file", name()));
    left = left.subspan(static_cast<std::size_t>(wrote));
  }
  count_ += tokens.size();
}

void TokenizedText::read(std::uint64_t position, std::span<std::int32_t> tokens) {
  raw_.resize(tokens.size() * token_bytes_);
  std::span<std::byte> left = raw_;
  std::uint64_t at = position * token_bytes_;
  while (!left.empty()) {
    const ssize_t got = ::pread(cache_.get(), left.data(), left.size(), static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_errno(errno, fmt::format("{}: reading its tokens at {}", name(), position));
    TOMBOLO_CHECK(got > 0, "position={} tokens={} count={}", position, tokens.size(), count_);
    at += static_cast<std::uint64_t>(got);
    left = left.subspan(static_cast<std::size_t>(got));
  }
  for (std::size_t index = 0; index < tokens.size(); ++index) {
    tokens[index] = 0;
    std::memcpy(&tokens[index], raw_.data() + index * token_bytes_, token_bytes_);
  }
}

}  // namespace tombolo::trainer
