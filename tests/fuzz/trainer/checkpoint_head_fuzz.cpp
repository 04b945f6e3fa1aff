// The head of a checkpoint's shard: any bytes, or (by the first byte) a description behind a prefix that
// fits.
#include <cstring>

#include "base/crc32c.h"
#include "base/error.h"
#include "tests/fuzz/fuzz.h"
#include "trainer/checkpoint/shard.h"

using namespace tombolo;
using namespace tombolo::trainer;

namespace {

template <typename Number>
void append(std::string& to, Number number) {
  to.append(reinterpret_cast<const char*>(&number), sizeof number);
}

std::string with_prefix(std::uint64_t data_bytes, std::string_view description) {
  const auto bytes = [](std::string_view text) { return std::as_bytes(std::span(text)); };
  std::string head = "tmbshard";
  append(head, kShardVersion);
  append(head, static_cast<std::uint32_t>(description.size()));
  append(head, data_bytes);
  append(head, crc32c(bytes(description)));
  append(head, crc32c(bytes(head)));
  head += description;
  return head;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto rest = fuzz::enlarged(data, size);
  const std::string text = fuzz::grown(rest.data(), rest.size());
  std::string head(text);
  if (size > 0 && data[0] % 4 < 2) {
    // The head says how many bytes its pieces take; a description that is right up to there says it itself.
    head = with_prefix(0, text);
    try {
      (void)parse_shard_head(head);
    } catch (const Error& error) {
      unsigned long long bytes = 0;
      const char* says = std::strstr(error.what(), "its pieces take ");
      if (says != nullptr && std::sscanf(says, "its pieces take %llu", &bytes) == 1)
        head = with_prefix(bytes, text);
    }
  }
  ShardHeader header;
  try {
    header = parse_shard_head(head);
  } catch (const Error& error) {
    FUZZ_CHECK(error.cause() == Cause::kInvalidUsage);
    return 0;
  }
  std::size_t next = 0;
  for (const ShardPiece& piece : header.pieces) {
    FUZZ_CHECK(piece.offset == next);
    next += piece.elements;
  }
  FUZZ_CHECK(next == header.floats());
  const std::string once = encode_shard_head(header);
  FUZZ_CHECK(encode_shard_head(parse_shard_head(once)) == once);
  return 0;
}
