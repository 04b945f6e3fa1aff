#include "base/json.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "base/text_distance.h"
#include "base/units.h"

namespace tombolo {
namespace {

constexpr std::size_t kMaximumDepth = 64;             // no file of ours nests deeper than 8
constexpr std::size_t kMaximumFileBytes = 256 << 20;  // a mistaken path (/dev/zero) must not fill the memory

/// Where a value stood in the file.
struct Place {
  int line = 0;
  std::size_t order = 0;  // among all values of the file
};

/// How far the parser has read.
struct Progress {
  int line = 1;
  int column = 0;
  // The line before the newest character. A number is only known to have ended at the character after it,
  // which may be a newline.
  int token_line = 1;
};

/// Iterates over the text and counts lines as the parser consumes it.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, Progress* progress) : at_(at), progress_(progress) {}
  const char& operator*() const { return *at_; }
  CountingIterator& operator++() {
    progress_->token_line = progress_->line;
    if (*at_ == '\n') {
      ++progress_->line;
      progress_->column = 0;
    } else {
      ++progress_->column;
    }
    ++at_;
    return *this;
  }
  CountingIterator operator++(int) {
    auto before = *this;
    ++*this;
    return before;
  }
  friend bool operator==(const CountingIterator& a, const CountingIterator& b) { return a.at_ == b.at_; }

 private:
  const char* at_;
  Progress* progress_;
};

void append_pointer(std::string& pointer, std::string_view name) {
  pointer += '/';
  for (char c : name) {
    if (c == '~') {
      pointer += "~0";
    } else if (c == '/') {
      pointer += "~1";
    } else {
      pointer += c;
    }
  }
}

/// Drops the library's own prefix, which repeats the position.
std::string plain_reason(std::string text) {
  if (auto at = text.find("] "); !text.empty() && text[0] == '[' && at != std::string::npos) {
    text.erase(0, at + 2);
  }
  if (text.starts_with("parse error at ")) {
    if (auto at = text.find(": "); at != std::string::npos) text.erase(0, at + 2);
  }
  return text;
}

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

}  // namespace

struct JsonDocument::Content {
  std::string source;
  Json root;
  std::unordered_map<std::string, Place> places;
};

namespace {

/// Receives the parser's events: builds the tree and notes where each value stood.
class Builder : public nlohmann::json_sax<Json> {
 public:
  Builder(const std::string& source, const Progress& progress, Json& root,
          std::unordered_map<std::string, Place>& places)
      : source_(source), progress_(progress), root_(root), places_(places) {}

  bool null() override { return leaf(nullptr); }
  bool boolean(bool value) override { return leaf(value); }
  bool number_integer(number_integer_t value) override { return leaf(value); }
  bool number_unsigned(number_unsigned_t value) override { return leaf(value); }
  bool number_float(number_float_t value, const string_t&) override { return leaf(value); }
  bool string(string_t& value) override { return leaf(std::move(value)); }
  bool binary(binary_t& value) override { return leaf(std::move(value)); }

  bool start_object(std::size_t) override { return open(Json::object()); }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    if (open_.back().value->contains(name)) {
      fail(Cause::kInvalidUsage, "{}:{}: the field \"{}\" is given twice in one object", source_,
           progress_.token_line, name);
    }
    key_ = name;
    return true;
  }

  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& error) override {
    fail(Cause::kInvalidUsage, "{}:{}: column {}: malformed JSON: {}", source_, progress_.token_line,
         std::max(progress_.column, 1), plain_reason(error.what()));
  }

 private:
  struct Open {
    Json* value;
    std::string pointer;
  };

  Json* add(Json value) {
    Json* added = &root_;
    std::string pointer;
    if (!open_.empty()) {
      Json& parent = *open_.back().value;
      pointer = open_.back().pointer;
      if (parent.is_array()) {
        append_pointer(pointer, std::to_string(parent.size()));
        parent.push_back(std::move(value));
        added = &parent.back();
      } else {
        append_pointer(pointer, key_);
        added = &(parent[key_] = std::move(value));
      }
    } else {
      root_ = std::move(value);
    }
    places_[pointer] = {progress_.token_line, places_.size()};
    newest_pointer_ = std::move(pointer);
    return added;
  }
  bool leaf(Json value) {
    add(std::move(value));
    return true;
  }
  bool open(Json value) {
    if (open_.size() >= kMaximumDepth) {
      fail(Cause::kInvalidUsage, "{}:{}: nested more than {} deep", source_, progress_.token_line,
           kMaximumDepth);
    }
    Json* added = add(std::move(value));
    open_.push_back({added, newest_pointer_});
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  const std::string& source_;
  const Progress& progress_;
  Json& root_;
  std::unordered_map<std::string, Place>& places_;
  // Pointers stay valid: a container grows only while it is the innermost open one.
  std::vector<Open> open_;
  std::string key_;
  std::string newest_pointer_;
};

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
    if (text.size() > kMaximumFileBytes) {
      ::close(fd);
      fail(Cause::kInvalidUsage, "{}: larger than {}; is this the file you meant?", path,
           format_size(kMaximumFileBytes));
    }
  }
  ::close(fd);
  return text;
}

}  // namespace

JsonDocument JsonDocument::load(const std::string& path) {
  return parse(read_whole_file(path), path);
}

JsonDocument JsonDocument::parse(std::string_view text, std::string source) {
  auto content = std::make_shared<Content>();
  content->source = std::move(source);
  Progress progress;
  Builder builder(content->source, progress, content->root, content->places);
  CountingIterator first(text.data(), &progress);
  CountingIterator last(text.data() + text.size(), &progress);
  if (!Json::sax_parse(first, last, &builder)) {
    fail(Cause::kInvalidUsage, "{}:{}: malformed JSON", content->source, progress.line);
  }
  return JsonDocument(std::move(content));
}

JsonCursor JsonDocument::root() const {
  return JsonCursor(*this, &content_->root, "", "");
}

JsonCursor::JsonCursor(JsonDocument document, const Json* value, std::string path, std::string pointer)
    : document_(std::move(document)), value_(value), path_(std::move(path)), pointer_(std::move(pointer)) {}

const Json& JsonCursor::raw() const noexcept {
  return *value_;
}

int JsonCursor::line() const {
  auto found = document_.content_->places.find(pointer_);
  return found != document_.content_->places.end() ? found->second.line : 1;
}

void JsonCursor::reject(const std::string& message) const {
  fail(Cause::kInvalidUsage, "{}:{}: {}{}{}", document_.content_->source, line(), path_,
       path_.empty() ? "" : ": ", message);
}

void JsonCursor::expect(bool holds, std::string_view what) const {
  if (!holds) reject(fmt::format("expected {}, found {}", what, shown(*value_)));
}

std::optional<JsonCursor> JsonCursor::optional(std::string_view name) const {
  expect(is_object(), "an object");
  auto found = value_->find(std::string(name));
  if (found == value_->end() || found->is_null()) return std::nullopt;
  std::string pointer = pointer_;
  append_pointer(pointer, name);
  return JsonCursor(document_, &*found, path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name),
                    std::move(pointer));
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
  for (std::size_t i = 0; i < value_->size(); ++i) {
    all.push_back(JsonCursor(document_, &(*value_)[i], fmt::format("{}[{}]", path_, i),
                             fmt::format("{}/{}", pointer_, i)));
  }
  return all;
}

std::vector<std::pair<std::string, JsonCursor>> JsonCursor::members() const {
  expect(is_object(), "an object");
  std::vector<std::pair<std::string, JsonCursor>> all;
  all.reserve(value_->size());
  for (const auto& [name, value] : value_->items()) {
    std::string pointer = pointer_;
    append_pointer(pointer, name);
    all.emplace_back(
        name, JsonCursor(document_, &value, path_.empty() ? name : path_ + "." + name, std::move(pointer)));
  }
  const auto& places = document_.content_->places;
  std::sort(all.begin(), all.end(), [&](const auto& a, const auto& b) {
    return places.at(a.second.pointer_).order < places.at(b.second.pointer_).order;
  });
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
