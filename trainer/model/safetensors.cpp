#include "trainer/model/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/json.h"

namespace tombolo::trainer {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors are little-endian");

// The format's own limit.
constexpr std::uint64_t kMostHeaderBytes = 100'000'000;

constexpr std::pair<std::string_view, ValueType> kTypes[] = {
    {"F32", ValueType::kFloat32}, {"BF16", ValueType::kBfloat16}, {"F16", ValueType::kFloat16}};

StoredTensor parse_tensor(const JsonCursor& cursor, std::uint64_t data_begin, std::uint64_t data_bytes) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  StoredTensor tensor;
  tensor.type_name = cursor.field("dtype").text();
  for (const auto& [name, type] : kTypes)
    if (name == tensor.type_name) tensor.type = type;
  std::uint64_t elements = 1;
  for (const JsonCursor& size : cursor.field("shape").elements()) {
    const auto one = static_cast<std::uint64_t>(size.integer(0, kMost));
    if (one != 0 && elements > data_bytes / one)
      cursor.reject("its shape has more elements than the file bytes");
    tensor.shape.push_back(one);
    elements *= one;
  }
  const auto range = cursor.field("data_offsets").elements();
  if (range.size() != 2) cursor.field("data_offsets").reject("expected begin and end");
  const auto begin = static_cast<std::uint64_t>(range[0].integer(0, kMost));
  const auto end = static_cast<std::uint64_t>(range[1].integer(0, kMost));
  if (begin > end || end > data_bytes)
    cursor.field("data_offsets")
        .reject(
            fmt::format("{} to {} is not within the {} bytes of data: cut short?", begin, end, data_bytes));
  if (tensor.type && elements * value_bytes(*tensor.type) != end - begin)
    cursor.reject(
        fmt::format("{} elements of {} do not take {} bytes", elements, tensor.type_name, end - begin));
  tensor.begin = data_begin + begin;
  tensor.bytes = end - begin;
  return tensor;
}

}  // namespace

std::uint64_t StoredTensor::elements() const noexcept {
  std::uint64_t product = 1;
  for (const std::uint64_t size : shape) product *= size;
  return product;
}

StoredTensors parse_safetensors(std::string_view header, std::uint64_t file_bytes, const std::string& name) {
  TOMBOLO_CHECK(kSafetensorsPrefix + header.size() <= file_bytes, "header={} file={}", header.size(),
                file_bytes);
  const std::uint64_t data_begin = kSafetensorsPrefix + header.size();
  const JsonDocument document = JsonDocument::parse(header, name + ": header");
  StoredTensors tensors;
  for (const auto& [tensor, cursor] : document.root().members())
    if (tensor != "__metadata__")
      tensors.emplace(tensor, parse_tensor(cursor, data_begin, file_bytes - data_begin));
  return tensors;
}

StoredTensors read_safetensors(const InputFile& file) {
  std::uint64_t length = 0;
  if (file.size() < kSafetensorsPrefix)
    fail(Cause::kInvalidUsage, "{}: {} bytes are too few for safetensors", file.name(), file.size());
  file.read(0, std::as_writable_bytes(std::span(&length, 1)));
  if (length > std::min(kMostHeaderBytes, file.size() - kSafetensorsPrefix))
    fail(Cause::kInvalidUsage,
         "{}: a header of {} bytes does not fit the file of {}: not safetensors, or cut short?", file.name(),
         length, file.size());
  std::string header(length, '\0');
  file.read(kSafetensorsPrefix, std::as_writable_bytes(std::span(header)));
  return parse_safetensors(header, file.size(), file.name());
}

std::string safetensors_header(std::vector<std::pair<std::string, StoredTensor>>& tensors) {
  Json json{{"__metadata__", {{"format", "pt"}}}};
  std::uint64_t at = 0;
  for (auto& [name, tensor] : tensors) {
    tensor.begin = at;  // of the data, until the header's length is known
    tensor.bytes = tensor.elements() * value_bytes(tensor.type.value());
    at += tensor.bytes;
    json[name] = {{"dtype", tensor.type_name}, {"shape", tensor.shape}, {"data_offsets", {tensor.begin, at}}};
  }
  std::string header = json.dump();
  header.resize((header.size() + 7) / 8 * 8, ' ');
  for (auto& [name, tensor] : tensors) tensor.begin += kSafetensorsPrefix + header.size();
  const std::uint64_t length = header.size();
  std::string prefix(kSafetensorsPrefix, '\0');
  std::memcpy(prefix.data(), &length, sizeof length);
  return prefix + header;
}

}  // namespace tombolo::trainer
