// GPT-2's tokenizer in the forms in which people have it.
#pragma once

#include <string>
#include <string_view>

#include "trainer/data/tokenizer.h"

namespace tombolo::trainer {

/// Reads a tokenizer from a file, whose form is told by its content, or from a folder with such a file:
///   vocab.bpe or merges.txt with encoder.json or vocab.json beside it (either may be named)
///   tokenizer.json, of Hugging Face
///   gpt2.tiktoken: a token in base64 and its rank in each line
///   gpt2_tokenizer.bin, of llm.c
/// Throws kInvalidUsage where the file is none of these or malformed, kUnsupported where it describes a
/// tokenizer that works otherwise than GPT-2's.
Tokenizer load_tokenizer(const std::string& path);

// Each form by itself. `name` is the file's, for messages. Throw as load_tokenizer() does.

/// `vocabulary`: JSON, numbers by tokens.
TokenizerParts parse_merges(std::string_view merges, std::string_view vocabulary, const std::string& name);
TokenizerParts parse_tokenizer_json(std::string_view json, const std::string& name);
TokenizerParts parse_ranks(std::string_view ranks, const std::string& name);
TokenizerParts parse_llmc_tokenizer(std::string_view bytes, const std::string& name);

}  // namespace tombolo::trainer
