// Names of the entries of a library file. They are found in any spelling, and no two entries share one.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace tombolo::topology {

/// Names are compared without letter case, blanks and signs ("A100 80g" is "a100-80G"), except '.' and '+'.
class LibraryNames {
 public:
  /// Reads "name" and "aliases" of the next entry; returns the name. Throws kInvalidUsage where an earlier
  /// entry has one of them.
  std::string add(const JsonCursor& entry);

  /// Index of the entry, in the order of adding.
  std::optional<std::size_t> find(std::string_view name) const;
  /// The name or alias that resembles it most; nothing where none does.
  std::optional<std::string> nearest(std::string_view name) const;

 private:
  struct Spelling {
    std::size_t entry;
    std::string text;
  };
  void insert(const JsonCursor& at, const std::string& text);

  std::map<std::string, Spelling, std::less<>> keys_;
  std::size_t size_ = 0;
};

/// Path of a file of the library: in the folder of TOMBOLO_LIBRARY, else beside the running program where it
/// was installed or built. Throws kInvalidUsage naming the paths that were tried.
std::string library_file(std::string_view name);

/// Returns a file's root after it has checked the version and the text of "note". Throws kInvalidUsage.
JsonCursor library_root(const JsonDocument& document);

}  // namespace tombolo::topology
