#include "topology/system/tree_file.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "base/error.h"

namespace tombolo::topology {
namespace {

constexpr std::size_t kLargestTree = 16U << 20;
constexpr std::size_t kLongestPath = 4096;  // the kernel's limit, also of a link's target
constexpr int kMostHops = 40;               // the kernel's limit

std::string_view trimmed(std::string_view text) {
  auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

/// The parts between slashes, without empty ones and ".".
std::vector<std::string> parts_of(std::string_view path) {
  std::vector<std::string> parts;
  while (!path.empty()) {
    std::string_view part = path.substr(0, path.find('/'));
    path.remove_prefix(std::min(part.size() + 1, path.size()));
    if (!part.empty() && part != ".") parts.emplace_back(part);
  }
  return parts;
}

std::string joined(const std::vector<std::string>& parts, std::size_t count) {
  std::string path;
  for (std::size_t i = 0; i < count; ++i) path.append(1, '/').append(parts[i]);
  return path;
}

/// Resolves the escapes of a new line and of a backslash in a file's text.
std::string unescaped(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 1 < text.size() && (text[i + 1] == 'n' || text[i + 1] == '\\')) {
      out += text[++i] == 'n' ? '\n' : '\\';
    } else {
      out += text[i];
    }
  }
  return out;
}

}  // namespace

std::string TreeFile::add(const std::string& path, Node node) {
  if (path.size() > kLongestPath || (node.kind == Kind::kLink && node.text.size() > kLongestPath))
    return fmt::format("is a path of more than {} bytes, or a link to one", kLongestPath);
  auto parts = parts_of(path);
  if (parts.empty()) return "names no entry";
  if (std::find(parts.begin(), parts.end(), "..") != parts.end()) return "has a \"..\" in its path";
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string above = joined(parts, i);
    Node& parent = nodes_[above];
    if (parent.kind != Kind::kFolder) return fmt::format("lies below {}, which is no folder", above);
    parent.names.insert(parts[i]);
    nodes_.try_emplace(joined(parts, i + 1));
  }
  Node& here = nodes_[joined(parts, parts.size())];
  const bool empty_folder = here.kind == Kind::kFolder && here.names.empty();
  if (node.kind == Kind::kFolder) return here.kind == Kind::kFolder ? "" : "is there already";
  if (!empty_folder) return "is there already";
  here = std::move(node);
  return {};
}

TreeFile TreeFile::parse(std::string_view text, const std::string& source) {
  TreeFile tree;
  std::string prefix;
  for (int line = 1; !text.empty(); ++line) {
    std::string_view raw = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(raw.size() + 1, text.size()));
    std::string_view entry = trimmed(raw);
    if (entry.empty() || entry.front() == '#') continue;
    if (entry.front() == '[' && entry.back() == ']') {
      prefix = std::string(trimmed(entry.substr(1, entry.size() - 2)));
      if (std::string problem = tree.add(prefix, {}); !problem.empty())
        fail(Cause::kInvalidUsage, "{}:{}: \"{}\" {}", source, line, prefix.substr(0, 200), problem);
      continue;
    }
    const auto equals = entry.find(" =");
    const auto arrow = entry.find(" -> ");
    Node node;
    std::string_view name = entry;
    if (equals != std::string_view::npos && equals < arrow) {
      name = entry.substr(0, equals);
      node = {Kind::kFile, unescaped(trimmed(entry.substr(equals + 2))), {}};
    } else if (arrow != std::string_view::npos) {
      name = entry.substr(0, arrow);
      node = {Kind::kLink, std::string(trimmed(entry.substr(arrow + 4))), {}};
    } else if (entry.back() != '/') {
      fail(Cause::kInvalidUsage,
           "{}:{}: expected \"name = text\", \"name -> target\", \"name/\" or \"[folder]\", found \"{}\"",
           source, line, entry.substr(0, 60));
    }
    const std::string path = (name.front() == '/' ? "" : prefix + "/") + std::string(trimmed(name));
    if (std::string problem = tree.add(path, std::move(node)); !problem.empty())
      fail(Cause::kInvalidUsage, "{}:{}: \"{}\" {}", source, line, path.substr(0, 200), problem);
  }
  return tree;
}

TreeFile TreeFile::load(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) fail(Cause::kInvalidUsage, "cannot read the recorded tree {}", path);
  std::string text(kLargestTree + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > kLargestTree)
    fail(Cause::kInvalidUsage, "the recorded tree {} has more than {} bytes", path, kLargestTree);
  return parse(text, path);
}

std::optional<std::string> TreeFile::resolve(std::string_view path, bool last) const {
  auto left = parts_of(path);
  std::reverse(left.begin(), left.end());  // the next part is at the end
  std::vector<std::string> done;
  int links = 0;
  while (!left.empty()) {
    std::string part = std::move(left.back());
    left.pop_back();
    if (part == "..") {
      if (!done.empty()) done.pop_back();
      continue;
    }
    done.push_back(std::move(part));
    auto found = nodes_.find(joined(done, done.size()));
    if (found == nodes_.end()) return std::nullopt;
    if (found->second.kind == Kind::kLink && (!left.empty() || last)) {
      if (++links > kMostHops) return std::nullopt;
      done.pop_back();
      if (found->second.text.starts_with('/')) done.clear();
      auto target = parts_of(found->second.text);
      left.insert(left.end(), target.rbegin(), target.rend());
    } else if (found->second.kind != Kind::kFolder && !left.empty()) {
      return std::nullopt;
    }
  }
  return joined(done, done.size());
}

const TreeFile::Node* TreeFile::find(std::string_view path, bool last) const {
  auto real = resolve(path, last);
  if (!real) return nullptr;
  auto found = nodes_.find(*real);
  return found != nodes_.end() ? &found->second : nullptr;
}

bool TreeFile::exists(std::string_view path) const {
  return find(path, true) != nullptr;
}

std::vector<std::string> TreeFile::names(std::string_view path) const {
  const Node* node = find(path, true);
  if (node == nullptr) return {};
  return {node->names.begin(), node->names.end()};
}

std::optional<std::string> TreeFile::text(std::string_view path) const {
  const Node* node = find(path, true);
  if (node == nullptr || node->kind != Kind::kFile) return std::nullopt;
  return node->text;
}

std::optional<std::string> TreeFile::link(std::string_view path) const {
  const Node* node = find(path, false);
  if (node == nullptr || node->kind != Kind::kLink) return std::nullopt;
  return node->text;
}

std::optional<std::string> TreeFile::real_path(std::string_view path) const {
  return resolve(path, true);
}

}  // namespace tombolo::topology
