// Reads JSON files that people write: every error names file, line and field.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace tombolo {

using Json = nlohmann::json;

class JsonCursor;
struct JsonTree;

/// A parsed file that remembers on which line each value stood. Immutable; cheap to copy. Its memory grows in
/// proportion to the text, whatever the text is.
class JsonDocument {
 public:
  /// Throws kInvalidUsage: cannot be opened (with errno), malformed (with line and column), nested more than
  /// 64 deep, or larger than 256 MiB.
  static JsonDocument load(const std::string& path);
  /// `source` stands for the file name in messages.
  static JsonDocument parse(std::string_view text, std::string source);

  /// The file's outermost value.
  JsonCursor root() const;

 private:
  friend class JsonCursor;
  explicit JsonDocument(std::shared_ptr<const JsonTree> tree) : tree_(std::move(tree)) {}
  std::shared_ptr<const JsonTree> tree_;
};

/// One value of a document. Each accessor throws kInvalidUsage as "cluster.json:12:
/// hosts[2].nics[0].rate_gbps: expected a number > 0, found \"fast\"". Thread-safe for reading.
class JsonCursor {
 public:
  /// A member that must be there.
  JsonCursor field(std::string_view name) const;
  /// A member that may be missing (or null).
  std::optional<JsonCursor> optional(std::string_view name) const;
  /// The elements of an array.
  std::vector<JsonCursor> elements() const;
  /// The members of an object, in the file's order.
  std::vector<std::pair<std::string, JsonCursor>> members() const;
  /// Throws on a member that is not in `known`, so that a misspelt field is not silently ignored.
  void only(std::initializer_list<std::string_view> known) const;

  // Each of these throws where the value is of another type or out of range.
  std::string text() const;
  bool boolean() const;
  /// The value as a finite number.
  double number() const;
  /// A finite number > 0.
  double positive_number() const;
  /// A finite number >= low.
  double number_at_least(double low) const;
  /// An integer in [low, high]; 1e6 is one too.
  std::int64_t integer(std::int64_t low, std::int64_t high) const;
  /// The value as one of the names; returns its index.
  std::size_t choice(std::initializer_list<std::string_view> names) const;
  bool is_text() const noexcept;
  bool is_number() const noexcept;
  bool is_object() const noexcept;
  bool is_array() const noexcept;

  /// The value itself; valid as long as the document or a copy of it.
  const Json& raw() const noexcept;
  /// Where it stands: "hosts[2].nics[0]". It is looked for in the whole document, so this is for messages.
  std::string path() const;
  /// The line in the file on which it stands, from 1.
  int line() const;

  /// Throws kInvalidUsage with file, line and path before the message.
  [[noreturn]] void reject(const std::string& message) const;

 private:
  friend class JsonDocument;
  void expect(bool holds, std::string_view what) const;
  JsonCursor(JsonDocument document, const Json& value);
  JsonDocument document_;
  const Json* value_;
};

/// Parses JSON that another process has sent; `source` says whose it is ("rank 3's report"). Throws kRemote
/// where it is malformed, gives a field twice or is nested more than 64 deep, so that nothing that walks the
/// result can run out of stack.
Json parse_peer_json(std::string_view text, const std::string& source);

/// Writes `json`, indented by one space, via a temporary file and rename, so that a reader never sees half a
/// file. Throws kSystem.
void write_json_file(const std::string& path, const Json& json);
/// Writes a text as it is, in the same way.
void write_text_file(const std::string& path, std::string_view text);

}  // namespace tombolo
