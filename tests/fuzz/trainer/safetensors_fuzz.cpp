// The header of a safetensors file, and config.json of a model.
#include "base/error.h"
#include "base/json.h"
#include "tests/fuzz/fuzz.h"
#include "trainer/model/hugging_face.h"
#include "trainer/model/safetensors.h"

using namespace tombolo;
using namespace tombolo::trainer;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text = fuzz::grown(data, size);
  constexpr std::uint64_t kDataBytes = 4096;
  const std::uint64_t file_bytes = kSafetensorsPrefix + text.size() + kDataBytes;
  try {
    for (const auto& [name, tensor] : parse_safetensors(text, file_bytes, "input")) {
      FUZZ_CHECK(tensor.begin >= kSafetensorsPrefix + text.size() && tensor.bytes <= kDataBytes);
      FUZZ_CHECK(tensor.begin + tensor.bytes <= file_bytes);
      if (tensor.type) FUZZ_CHECK(tensor.elements() * value_bytes(*tensor.type) == tensor.bytes);
    }
  } catch (const Error& error) {
    FUZZ_CHECK(error.cause() == Cause::kInvalidUsage);
  }
  try {
    const Shape shape = parse_hugging_face_config(JsonDocument::parse(text, "input").root());
    shape.check();
    FUZZ_CHECK(parameter_count(shape) > 0);
  } catch (const Error& error) {
    FUZZ_CHECK(error.cause() == Cause::kInvalidUsage || error.cause() == Cause::kUnsupported);
  }
  return 0;
}
