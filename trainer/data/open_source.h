// From what a user names to what a model is trained on.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "trainer/data/token_source.h"

namespace tombolo::trainer {

/// A file of this name; else, as llm.c takes it, a pattern as a shell's (*, ?, [...]), sorted by name, or a
/// list of files and patterns divided by commas. Throws kInvalidUsage where a pattern fits nothing.
std::vector<std::string> data_paths(const std::string& data);

struct DataOptions {
  std::string data;       ///< see data_paths()
  std::string tokenizer;  ///< path, for text (see load_tokenizer()); empty: its bytes are the tokens
};

enum class DataKind {
  kBytes,       ///< text whose bytes are the tokens
  kText,        ///< text for the tokenizer
  kTokenFiles,  ///< llm.c's
};

/// By the beginning of each file. Throws kInvalidUsage where some are token files and some are not, or one
/// cannot be read.
DataKind data_kind(const DataOptions& options);

/// The vocabulary of what open_source() would open, without reading its text.
int data_vocabulary(const DataOptions& options);

/// Throws kInvalidUsage where the data or the tokenizer is unusable. Text is encoded here (TokenizedText).
std::unique_ptr<TokenSource> open_source(const DataOptions& options);

}  // namespace tombolo::trainer
