// The note that a failing rank leaves in the store: any bytes give a note, and a note comes back as it was.
#include "collectives/abort/abort_note.h"
#include "tests/fuzz/fuzz.h"

using namespace tombolo;
using collectives::AbortNote;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = fuzz::enlarged(data, size);
  const AbortNote note = AbortNote::decode(fuzz::bytes_of(bytes.data(), bytes.size()));
  FUZZ_CHECK(note.text.size() <= AbortNote::kLongestText);
  const AbortNote again = AbortNote::decode(note.encode());
  FUZZ_CHECK(again.rank == note.rank && again.cause == note.cause && again.text == note.text);
  return 0;
}
