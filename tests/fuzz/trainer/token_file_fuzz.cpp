// The header of a token file.
#include <algorithm>

#include "base/error.h"
#include "tests/fuzz/fuzz.h"
#include "trainer/data/token_file.h"

using namespace tombolo;
using namespace tombolo::trainer;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = fuzz::bytes_of(data, size);
  (void)begins_token_file(bytes);
  try {
    const std::uint64_t count =
        token_count(bytes.first(std::min(size, kTokenFileHeaderBytes)), size, "input");
    FUZZ_CHECK(begins_token_file(bytes));
    FUZZ_CHECK(kTokenFileHeaderBytes + 2 * count == size);
  } catch (const Error& error) {
    FUZZ_CHECK(error.cause() == Cause::kInvalidUsage);
  }
  return 0;
}
