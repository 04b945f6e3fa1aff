// tombolo export: a model in another program's format.
#include <CLI/CLI.hpp>
#include <filesystem>

#include "base/error.h"
#include "tools/cli/command.h"
#include "trainer/model/model_file.h"

namespace tombolo::tools {
namespace {

constexpr const char* kExportHelp =
    "Writes a model that tombolo train wrote, or that it can start from, in another format: .safetensors "
    "with "
    "config.json\n"
    "beside it (Hugging Face's GPT-2: names, shapes and transposed weights of its Conv1D), or .bin (llm.c's "
    "checkpoint,\n"
    "version 3 for fp32, 5 for bf16). A config.json that is there already is replaced.\n"
    "\nExamples:\n"
    "  tombolo export model.bin hf/model.safetensors\n"
    "  tombolo export gpt2/model.safetensors gpt2_124M_bf16.bin --dtype bf16";

struct ExportOptions {
  std::string from, to;
  trainer::ValueType type = trainer::ValueType::kFloat32;
};

int run_export(const ExportOptions& options) {
  if (!options.to.ends_with(".safetensors") && !options.to.ends_with(".bin"))
    fail(Cause::kInvalidUsage, "{}: its name must end in .safetensors (Hugging Face's) or .bin (llm.c's)",
         options.to);
  const auto folder = std::filesystem::absolute(options.to).parent_path();
  if (!std::filesystem::is_directory(folder))
    fail(Cause::kInvalidUsage, "cannot write {}: {} is not a folder", options.to, folder.string());
  const trainer::Shape shape = trainer::read_model_shape(options.from);
  trainer::write_model(options.to, shape, trainer::read_whole_model(options.from, shape), options.type);
  fmt::print("{}: {}, {} parameters in {}\n", options.to, shape.text(), trainer::parameter_count(shape),
             trainer::value_type_name(options.type));
  return kExitOk;
}

}  // namespace

void add_export(CommandLine& tombolo) {
  auto options = std::make_shared<ExportOptions>();
  CLI::App& app = tombolo.add("export", "Write a model in Hugging Face's or llm.c's format", kExportHelp,
                              [options] { return run_export(*options); });
  app.add_option("checkpoint", options->from, "Model to read: as --init of tombolo train")->required();
  app.add_option("out", options->to, "File to write: NAME.safetensors or NAME.bin")->required();
  app.add_option_function<std::string>(
         "--dtype",
         [options](const std::string& text) {
           options->type = text == "bf16" ? trainer::ValueType::kBfloat16 : trainer::ValueType::kFloat32;
         },
         "Format of its values: fp32, or bf16, to which they are rounded [fp32]")
      ->check(CLI::IsMember({"fp32", "bf16"}));
}

}  // namespace tombolo::tools
