#include "trainer/data/open_source.h"

#include <glob.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "base/error.h"
#include "trainer/data/text_file.h"
#include "trainer/data/token_file.h"
#include "trainer/data/tokenized_text.h"
#include "trainer/data/tokenizer_files.h"
#include "trainer/model/input_file.h"

namespace tombolo::trainer {
namespace {

void add_matches(std::vector<std::string>& paths, const std::string& pattern) {
  glob_t found{};
  const int result = ::glob(pattern.c_str(), 0, nullptr, &found);
  for (std::size_t index = 0; result == 0 && index < found.gl_pathc; ++index)
    paths.emplace_back(found.gl_pathv[index]);
  ::globfree(&found);
  if (result != 0) fail(Cause::kInvalidUsage, "data '{}': no file fits this pattern", pattern);
}

bool is_token_file(const std::string& path) {
  const InputFile file("data file", path);
  std::array<std::byte, 4> begin{};
  if (file.size() < begin.size()) return false;
  file.read(0, begin);
  return begins_token_file(begin);
}

DataKind kind_of(const DataOptions& options, const std::vector<std::string>& paths) {
  const auto tokens = static_cast<std::size_t>(std::ranges::count_if(paths, is_token_file));
  if (tokens == paths.size()) return DataKind::kTokenFiles;
  if (tokens > 0)
    fail(Cause::kInvalidUsage, "data '{}': {} of {} files are token files, and the others are not",
         options.data, tokens, paths.size());
  return options.tokenizer.empty() ? DataKind::kBytes : DataKind::kText;
}

}  // namespace

std::vector<std::string> data_paths(const std::string& data) {
  std::error_code ignored;
  if (std::filesystem::exists(data, ignored)) return {data};
  if (data.find_first_of(",*?[") == std::string::npos) return {data};  // opening it says what is wrong
  std::vector<std::string> paths;
  for (std::size_t begin = 0; begin <= data.size();) {
    const std::size_t end = std::min(data.find(',', begin), data.size());
    const std::string part = data.substr(begin, end - begin);
    if (part.empty()) fail(Cause::kInvalidUsage, "data '{}': a name between commas is empty", data);
    if (!std::filesystem::exists(part, ignored) && part.find_first_of("*?[") != std::string::npos)
      add_matches(paths, part);
    else
      paths.push_back(part);
    begin = end + 1;
  }
  return paths;
}

DataKind data_kind(const DataOptions& options) {
  return kind_of(options, data_paths(options.data));
}

int data_vocabulary(const DataOptions& options) {
  switch (data_kind(options)) {
    case DataKind::kBytes:
      return 256;
    case DataKind::kText:
      return load_tokenizer(options.tokenizer).vocabulary();
    case DataKind::kTokenFiles:
      return options.tokenizer.empty() ? kGpt2Vocabulary : load_tokenizer(options.tokenizer).vocabulary();
  }
  return 0;
}

std::unique_ptr<TokenSource> open_source(const DataOptions& options) {
  const std::vector<std::string> paths = data_paths(options.data);
  switch (kind_of(options, paths)) {
    case DataKind::kBytes:
      return std::make_unique<TextFile>(paths);
    case DataKind::kText:
      return std::make_unique<TokenizedText>(paths, load_tokenizer(options.tokenizer));
    case DataKind::kTokenFiles:
      return std::make_unique<TokenFiles>(paths);
  }
  return nullptr;
}

}  // namespace tombolo::trainer
