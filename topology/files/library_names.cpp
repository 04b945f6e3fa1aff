#include "topology/files/library_names.h"

#include <fmt/ranges.h>

#include <cctype>
#include <filesystem>
#include <limits>
#include <set>

#include "base/text_distance.h"
#include "topology/files/library.h"

namespace tombolo::topology {
namespace {

constexpr int kVersion = 1;

std::string key_of(std::string_view name) {
  std::string key;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0 || c == '.' || c == '+' || byte >= 0x80) {
      key += static_cast<char>(std::tolower(byte));
    }
  }
  return key;
}

}  // namespace

void LibraryNames::insert(const JsonCursor& at, const std::string& text) {
  const std::string key = key_of(text);
  if (key.empty()) at.reject(fmt::format("expected a name with letters or digits, found \"{}\"", text));
  const auto [known, is_new] = keys_.try_emplace(key, Spelling{size_, text});
  if (!is_new && known->second.entry != size_) {
    at.reject(
        fmt::format("\"{}\" also names an earlier entry, there spelt \"{}\"", text, known->second.text));
  }
}

std::string LibraryNames::add(const JsonCursor& entry) {
  const auto field = entry.field("name");
  std::string name = field.text();
  insert(field, name);
  if (const auto aliases = entry.optional("aliases")) {
    for (const auto& alias : aliases->elements()) insert(alias, alias.text());
  }
  ++size_;
  return name;
}

std::optional<std::size_t> LibraryNames::find(std::string_view name) const {
  const auto found = keys_.find(key_of(name));
  if (found == keys_.end()) return std::nullopt;
  return found->second.entry;
}

std::optional<std::string> LibraryNames::nearest(std::string_view name) const {
  std::vector<std::string_view> keys;
  for (const auto& [key, spelling] : keys_) keys.push_back(key);
  const auto key = nearest_name(key_of(name), keys);
  if (!key) return std::nullopt;
  return keys_.find(*key)->second.text;
}

std::string library_file(std::string_view name) {
  namespace fs = std::filesystem;
  std::vector<fs::path> folders;
  if (const std::string given = kLibraryParameter.text(); !given.empty()) {
    folders.emplace_back(given);
  } else {
    std::error_code ignored;
    const fs::path program = fs::read_symlink("/proc/self/exe", ignored).parent_path();
    folders.push_back(program / TOMBOLO_LIBRARY_FROM_BIN);        // as installed
    folders.push_back(program / ".." / "share/tombolo/library");  // as built
  }
  std::set<std::string> tried;
  for (const fs::path& folder : folders) {
    const fs::path path = (folder / name).lexically_normal();
    std::error_code ignored;
    if (fs::exists(path, ignored)) return path.string();
    tried.insert(path.string());
  }
  fail(Cause::kInvalidUsage,
       "the library's file {} is not found; looked for {}. Set {} to the folder that holds it", name,
       fmt::join(tried, " and "), kLibraryParameter.name);
}

JsonCursor library_root(const JsonDocument& document) {
  JsonCursor root = document.root();
  const auto version = root.field("tombolo_library");
  if (const auto found = version.integer(1, std::numeric_limits<int>::max()); found != kVersion) {
    version.reject(
        fmt::format("this build reads version {} of the library's files, found version {}", kVersion, found));
  }
  if (const auto note = root.optional("note")) (void)note->text();
  return root;
}

}  // namespace tombolo::topology
