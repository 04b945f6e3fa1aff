// tombolo tokenize: text to a token file, once for many runs.
#include <CLI/CLI.hpp>

#include "base/error.h"
#include "tools/cli/command.h"
#include "trainer/data/open_source.h"
#include "trainer/data/text_file.h"
#include "trainer/data/token_file.h"
#include "trainer/data/tokenized_text.h"
#include "trainer/data/tokenizer_files.h"

namespace tombolo::tools {
namespace {

constexpr const char* kTokenizeHelp =
    "Encodes text with GPT-2's tokenizer and writes a token file of llm.c's format, for --data of tombolo "
    "train or for\n"
    "llm.c. tombolo train encodes text itself, in every rank of every run; this does it once.\n"
    "\nExample:\n"
    "  tombolo tokenize book.txt book.bin --tokenizer vocab.bpe";

struct TokenizeOptions {
  std::string text, out, tokenizer;
};

int run_tokenize(const TokenizeOptions& options) {
  const trainer::Tokenizer tokenizer = trainer::load_tokenizer(options.tokenizer);
  const trainer::DataOptions data{options.text, options.tokenizer};
  if (trainer::data_kind(data) != trainer::DataKind::kText)
    fail(Cause::kInvalidUsage, "{}: these are tokens already", options.text);
  trainer::JoinedFiles files = trainer::whole_files(trainer::data_paths(options.text));
  trainer::TokenFileWriter writer(options.out);
  trainer::encode_files(files, tokenizer, trainer::kEncodingWindow,
                        [&](std::span<const std::int32_t> tokens) { writer.append(tokens); });
  const std::uint64_t tokens = writer.count();
  writer.finish();
  fmt::print("{}: {} tokens of {} bytes of text\n", options.out, tokens, files.size());
  return kExitOk;
}

}  // namespace

void add_tokenize(CommandLine& tombolo) {
  auto options = std::make_shared<TokenizeOptions>();
  CLI::App& app = tombolo.add("tokenize", "Write text as a token file", kTokenizeHelp,
                              [options] { return run_tokenize(*options); });
  app.add_option("text", options->text, "Text file, pattern or list, as --data of tombolo train")->required();
  app.add_option("out", options->out, "Token file to write")->required();
  app.add_option("--tokenizer", options->tokenizer, "GPT-2's, as for tombolo train")->required();
}

}  // namespace tombolo::tools
