#include "base/json_tree.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/units.h"

namespace tombolo {
namespace {

constexpr std::size_t kMaximumDepth = 64;  // no file of ours nests deeper than 8

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

/// Receives the parser's events: builds the tree and notes where each value stood.
class Builder : public nlohmann::json_sax<Json> {
 public:
  Builder(const Progress& progress, JsonTree& tree) : progress_(progress), tree_(tree) {}

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
      fail(Cause::kInvalidUsage, "{}:{}: the field \"{}\" is given twice in one object", tree_.source,
           progress_.token_line, shortened(name));
    }
    key_ = std::move(name);
    return true;
  }

  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& error) override {
    fail(Cause::kInvalidUsage, "{}:{}: column {}: malformed JSON: {}", tree_.source, progress_.token_line,
         std::max(progress_.column, 1), shortened(plain_reason(error.what())));
  }

 private:
  struct Open {
    Json* value;
    std::vector<JsonPlace> elements;  // of an array; without their addresses, which change until it is closed
  };

  /// Adds a value to the innermost open container.
  Json* add(Json value) {
    JsonPlace place{nullptr, static_cast<std::uint32_t>(progress_.token_line), order_++};
    if (!open_.empty() && open_.back().value->is_array()) {
      open_.back().value->push_back(std::move(value));
      open_.back().elements.push_back(place);
      return &open_.back().value->back();
    }
    Json* added = tree_.root.get();
    if (!open_.empty()) added = &(*open_.back().value)[std::move(key_)];
    *added = std::move(value);
    place.value = added;  // for good: an object's members stay where they are, even when the object is moved
    tree_.places.push_back(place);
    return added;
  }
  bool leaf(Json value) {
    add(std::move(value));
    return true;
  }
  bool open(Json value) {
    if (open_.size() >= kMaximumDepth) {
      fail(Cause::kInvalidUsage, "{}:{}: nested more than {} deep", tree_.source, progress_.token_line,
           kMaximumDepth);
    }
    Json* added = add(std::move(value));
    open_.push_back({added, {}});
    return true;
  }
  bool close() {
    Open& closed = open_.back();
    for (std::size_t i = 0; i < closed.elements.size(); ++i) {
      closed.elements[i].value = &(*closed.value)[i];
      tree_.places.push_back(closed.elements[i]);
    }
    open_.pop_back();
    return true;
  }

  const Progress& progress_;
  JsonTree& tree_;
  // Pointers stay valid: a container grows only while it is the innermost open one.
  std::vector<Open> open_;
  std::string key_;
  std::uint32_t order_ = 0;
};

}  // namespace

JsonTree::JsonTree(std::string the_source) : source(std::move(the_source)), root(std::make_unique<Json>()) {}

JsonTree::~JsonTree() = default;

const JsonPlace& JsonTree::place_of(const Json& value) const {
  const auto found = std::lower_bound(
      places.begin(), places.end(), &value,
      [](const JsonPlace& place, const Json* wanted) { return std::less<>()(place.value, wanted); });
  TOMBOLO_CHECK(found != places.end() && found->value == &value, "{}: a value of another text", source);
  return *found;
}

void parse_json_tree(std::string_view text, JsonTree& tree) {
  if (text.size() > kMostJsonBytes) {
    fail(Cause::kInvalidUsage, "{}: larger than {}; is this the file you meant?", tree.source,
         format_size(kMostJsonBytes));
  }
  Progress progress;
  Builder builder(progress, tree);
  const CountingIterator first(text.data(), &progress), last(text.data() + text.size(), &progress);
  if (!Json::sax_parse(first, last, &builder))
    fail(Cause::kInvalidUsage, "{}:{}: malformed JSON", tree.source, progress.line);
  std::sort(tree.places.begin(), tree.places.end(),
            [](const JsonPlace& a, const JsonPlace& b) { return std::less<>()(a.value, b.value); });
}

std::string shortened(std::string_view text) {
  constexpr std::size_t kLongest = 200;
  if (text.size() <= kLongest) return std::string(text);
  std::size_t end = kLongest;
  // Not within a character of several bytes, whose later bytes begin with the bits 10.
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0U) == 0x80) --end;
  return std::string(text.substr(0, end)) + "...";
}

}  // namespace tombolo
