// Tokenizer files in every form, and texts for those that are taken. The first byte says which form.
#include "base/error.h"
#include "tests/fuzz/fuzz.h"
#include "trainer/data/text_encoder.h"
#include "trainer/data/tokenizer_files.h"

using namespace tombolo;
using namespace tombolo::trainer;

namespace {

TokenizerParts parse(unsigned form, std::string_view bytes) {
  switch (form) {
    case 0: {
      // The merges up to an empty line, and the vocabulary.
      const std::size_t cut = bytes.find("\n\n");
      if (cut == std::string_view::npos) return parse_merges({}, bytes, "input");
      return parse_merges(bytes.substr(0, cut), bytes.substr(cut + 2), "input");
    }
    case 1:
      return parse_tokenizer_json(bytes, "input");
    case 2:
      return parse_ranks(bytes, "input");
    default:
      return parse_llmc_tokenizer(bytes, "input");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string bytes = fuzz::grown(data + 1, size - 1);
  try {
    const Tokenizer tokenizer(parse(data[0] % 4, bytes));
    TextEncoder encoder(tokenizer);
    // Any bytes are text; what the vocabulary can say comes back.
    FUZZ_CHECK(tokenizer.decode(encoder.encode(bytes)) == bytes);
  } catch (const Error& error) {
    FUZZ_CHECK(error.cause() == Cause::kInvalidUsage || error.cause() == Cause::kUnsupported);
  }
  return 0;
}
