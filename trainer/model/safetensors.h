// The container format safetensors: a JSON header that names tensors, and their bytes one after another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/model/input_file.h"
#include "trainer/model/value_type.h"

namespace tombolo::trainer {

/// Where a tensor's bytes are.
struct StoredTensor {
  std::optional<ValueType>
      type;               ///< nothing: values that are no floats of 16 or 32 bits (type_name says which)
  std::string type_name;  ///< the file's: "F32"
  std::vector<std::uint64_t> shape;
  std::uint64_t begin = 0;  ///< in the file
  std::uint64_t bytes = 0;

  std::uint64_t elements() const noexcept;  ///< does not overflow: the header was checked
};

using StoredTensors = std::map<std::string, StoredTensor, std::less<>>;

/// The length of the header is in the first 8 bytes, little-endian.
inline constexpr std::size_t kSafetensorsPrefix = 8;

/// `header` is the JSON; `file_bytes` the size of the whole file, which starts with prefix and header. `name`
/// begins messages. Throws kInvalidUsage on malformed JSON, and on a tensor whose range is not in the file or
/// does not fit its shape and type.
StoredTensors parse_safetensors(std::string_view header, std::uint64_t file_bytes, const std::string& name);

/// Reads and checks a file's header. Throws as parse_safetensors(), and kSystem.
StoredTensors read_safetensors(const InputFile& file);

/// Prefix and header of a file with these tensors in this order; the bytes follow each other without gaps.
/// `begin` is filled in.
std::string safetensors_header(std::vector<std::pair<std::string, StoredTensor>>& tensors);

}  // namespace tombolo::trainer
