// A parsed JSON text with the line of each value. For base/json.h alone.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace tombolo {

/// A larger text is refused: a mistaken path (/dev/zero) must not fill the memory.
inline constexpr std::size_t kMostJsonBytes = std::size_t{256} << 20;

/// Where a value stood in the text. Values are known by their addresses, so that a place takes the same
/// memory however long the names above it are.
struct JsonPlace {
  const Json* value = nullptr;
  std::uint32_t line = 1;
  std::uint32_t order = 0;  ///< among all values of the text
};

struct JsonTree {
  explicit JsonTree(std::string the_source);
  ~JsonTree();

  /// The place of a value of this tree.
  const JsonPlace& place_of(const Json& value) const;

  std::string source;
  std::unique_ptr<Json> root;
  std::vector<JsonPlace> places;  ///< by address
};

/// Fills a fresh tree. Throws kInvalidUsage with line and column.
void parse_json_tree(std::string_view text, JsonTree& tree);

/// A name or a text as a message shows it: its beginning, where it is long.
std::string shortened(std::string_view text);

}  // namespace tombolo
