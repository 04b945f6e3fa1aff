// JSON that another process sent, and the line of every value in it.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "tests/fuzz/fuzz.h"

using namespace tombolo;

namespace {

std::size_t depth_of(const Json& value) {
  std::size_t deepest = 0;
  for (const Json& part : value)
    if (part.is_structured()) deepest = std::max(deepest, depth_of(part));
  return deepest + 1;
}

/// Calls `see` with every value.
template <typename See>
void visit(const JsonCursor& at, const See& see) {
  see(at);
  if (at.is_array())
    for (const JsonCursor& element : at.elements()) visit(element, see);
  if (at.is_object())
    for (const auto& [name, member] : at.members()) visit(member, see);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = fuzz::enlarged(data, size);
  const std::string text = fuzz::grown(bytes.data(), bytes.size());
  Json read;
  try {
    read = parse_peer_json(text, "a peer's text");
  } catch (const Error& error) {
    FUZZ_CHECK(error.cause() == Cause::kRemote);
    FUZZ_CHECK(std::string_view(error.what()).size() < 400);
    return 0;
  }
  FUZZ_CHECK(!read.is_structured() || depth_of(read) <= 64);
  FUZZ_CHECK(parse_peer_json(read.dump(), "the same") == read);
  const auto lines = 1 + std::count(text.begin(), text.end(), '\n');
  int newest = 1;
  const JsonCursor root = JsonDocument::parse(text, "input").root();
  visit(root, [&](const JsonCursor& value) {
    FUZZ_CHECK(value.line() >= newest && value.line() <= lines);  // members come in the order of the text
    newest = value.line();
  });
  FUZZ_CHECK(root.path().empty());
  return 0;
}
