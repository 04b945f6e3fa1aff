#include "base/json.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/json_tree.h"
#include "base/text_distance.h"
#include "base/units.h"

namespace tombolo {
namespace {

/// A value as an error message shows it: shortened, and so that its type can be seen.
std::string shown(const Json& value) {
  constexpr std::size_t kLongest = 40;
  switch (value.type()) {
    case Json::value_t::object:
      return "an object";
    case Json::value_t::array:
      return fmt::format("an array of {}", value.size());
    case Json::value_t::null:
      return "null";
    case Json::value_t::string: {
      std::string text = value.get<std::string>();
      bool cut = text.size() > kLongest;
      if (cut) text.resize(kLongest);
      // The cut may split a UTF-8 sequence, which "replace" makes valid.
      return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace) + (cut ? "..." : "");
    }
    default:
      return value.dump();
  }
}

std::string read_whole_file(const std::string& path) {
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    fail(Cause::kInvalidUsage, "{}: cannot open: {} (errno {})", path, errno_text(errno), errno);
  }
  std::string text;
  std::vector<char> block(64 * kKiB);
  for (;;) {
    ssize_t got = ::read(fd, block.data(), block.size());
    if (got == 0) break;
    if (got < 0) {
      int error = errno;
      if (error == EINTR) continue;
      ::close(fd);
      fail(Cause::kInvalidUsage, "{}: cannot read: {} (errno {})", path, errno_text(error), error);
    }
    text.append(block.data(), static_cast<std::size_t>(got));
    if (text.size() > kMostJsonBytes) break;  // the parser refuses it
  }
  ::close(fd);
  return text;
}

/// Appends the names that lead from `from` to `wanted`, as messages show them; false where it is not there.
bool append_path(const Json& from, const Json& wanted, std::string& path) {
  if (&from == &wanted) return true;
  const std::size_t before = path.size();
  if (from.is_array()) {
    for (std::size_t i = 0; i < from.size(); ++i) {
      path += fmt::format("[{}]", i);
      if (append_path(from[i], wanted, path)) return true;
      path.resize(before);
    }
  } else if (from.is_object()) {
    for (const auto& [name, member] : from.items()) {
      path += (path.empty() ? "" : ".") + shortened(name);
      if (append_path(member, wanted, path)) return true;
      path.resize(before);
    }
  }
  return false;
}

}  // namespace

JsonDocument JsonDocument::load(const std::string& path) {
  return parse(read_whole_file(path), path);
}

JsonDocument JsonDocument::parse(std::string_view text, std::string source) {
  auto tree = std::make_shared<JsonTree>(std::move(source));
  parse_json_tree(text, *tree);
  return JsonDocument(std::move(tree));
}

Json parse_peer_json(std::string_view text, const std::string& source) {
  try {
    JsonTree tree(source);
    parse_json_tree(text, tree);
    return std::move(*tree.root);
  } catch (const Error& error) {
    fail(Cause::kRemote, "{}", error.what());
  }
}

JsonCursor JsonDocument::root() const {
  return JsonCursor(*this, *tree_->root);
}

JsonCursor::JsonCursor(JsonDocument document, const Json& value)
    : document_(std::move(document)), value_(&value) {}

const Json& JsonCursor::raw() const noexcept {
  return *value_;
}

std::string JsonCursor::path() const {
  std::string path;
  append_path(*document_.tree_->root, *value_, path);
  return path;
}

int JsonCursor::line() const {
  return static_cast<int>(document_.tree_->place_of(*value_).line);
}

void JsonCursor::reject(const std::string& message) const {
  const std::string at = path();
  fail(Cause::kInvalidUsage, "{}:{}: {}{}{}", document_.tree_->source, line(), at, at.empty() ? "" : ": ",
       message);
}

void JsonCursor::expect(bool holds, std::string_view what) const {
  if (!holds) reject(fmt::format("expected {}, found {}", what, shown(*value_)));
}

std::optional<JsonCursor> JsonCursor::optional(std::string_view name) const {
  expect(is_object(), "an object");
  auto found = value_->find(std::string(name));
  if (found == value_->end() || found->is_null()) return std::nullopt;
  return JsonCursor(document_, *found);
}

JsonCursor JsonCursor::field(std::string_view name) const {
  auto member = optional(name);
  if (!member) reject(fmt::format("the field \"{}\" is missing", name));
  return *std::move(member);
}

std::vector<JsonCursor> JsonCursor::elements() const {
  expect(is_array(), "an array");
  std::vector<JsonCursor> all;
  all.reserve(value_->size());
  for (const Json& element : *value_) all.push_back(JsonCursor(document_, element));
  return all;
}

std::vector<std::pair<std::string, JsonCursor>> JsonCursor::members() const {
  expect(is_object(), "an object");
  std::vector<std::pair<std::uint32_t, Json::const_iterator>> ordered;
  ordered.reserve(value_->size());
  for (auto at = value_->begin(); at != value_->end(); ++at)
    ordered.emplace_back(document_.tree_->place_of(*at).order, at);
  std::sort(ordered.begin(), ordered.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::pair<std::string, JsonCursor>> all;
  all.reserve(ordered.size());
  for (const auto& [order, at] : ordered) all.emplace_back(at.key(), JsonCursor(document_, *at));
  return all;
}

void JsonCursor::only(std::initializer_list<std::string_view> known) const {
  for (const auto& [name, member] : members()) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    if (auto nearest = nearest_name(name, known)) {
      member.reject(fmt::format("unknown field; did you mean \"{}\"?", *nearest));
    }
    member.reject(fmt::format("unknown field; known here: {}", fmt::join(known, ", ")));
  }
}

std::string JsonCursor::text() const {
  expect(is_text(), "text");
  return value_->get<std::string>();
}

bool JsonCursor::boolean() const {
  expect(value_->is_boolean(), "true or false");
  return value_->get<bool>();
}

double JsonCursor::number() const {
  expect(is_number() && std::isfinite(value_->get<double>()), "a number");
  return value_->get<double>();
}

double JsonCursor::positive_number() const {
  expect(is_number() && std::isfinite(value_->get<double>()) && value_->get<double>() > 0, "a number > 0");
  return value_->get<double>();
}

double JsonCursor::number_at_least(double low) const {
  expect(is_number() && std::isfinite(value_->get<double>()) && value_->get<double>() >= low,
         fmt::format("a number >= {}", low));
  return value_->get<double>();
}

std::int64_t JsonCursor::integer(std::int64_t low, std::int64_t high) const {
  constexpr double kExact = 9007199254740992.0;  // 2^53: every smaller integer is exact in a double
  std::string what = fmt::format("an integer from {} to {}", low, high);
  expect(is_number(), what);
  std::int64_t value = 0;
  if (value_->is_number_float()) {  // 1e6 is an integer too
    auto number = value_->get<double>();
    expect(std::fabs(number) < kExact && std::trunc(number) == number, what);
    value = static_cast<std::int64_t>(number);
  } else {
    expect(!value_->is_number_unsigned() ||
               value_->get<std::uint64_t>() <=
                   static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()),
           what);
    value = value_->get<std::int64_t>();
  }
  expect(value >= low && value <= high, what);
  return value;
}

std::size_t JsonCursor::choice(std::initializer_list<std::string_view> names) const {
  if (is_text()) {
    auto found = std::find(names.begin(), names.end(), value_->get_ref<const std::string&>());
    if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  }
  expect(false, fmt::format("one of \"{}\"", fmt::join(names, "\", \"")));
  return 0;
}

bool JsonCursor::is_text() const noexcept {
  return value_->is_string();
}
bool JsonCursor::is_number() const noexcept {
  return value_->is_number();
}
bool JsonCursor::is_object() const noexcept {
  return value_->is_object();
}
bool JsonCursor::is_array() const noexcept {
  return value_->is_array();
}

}  // namespace tombolo
