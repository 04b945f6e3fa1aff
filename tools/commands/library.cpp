// tombolo library: what is known of common devices, NICs and models.
#include "topology/files/library.h"

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/units.h"
#include "planner/model/model_library.h"
#include "tools/cli/command.h"
#include "tools/cli/table.h"

namespace tombolo::tools {
namespace {

constexpr const char* kLibraryHelp =
    "Lists the devices, NICs and models that fleet files and --model call by name, or shows one of them with "
    "its\n"
    "source. The files are share/tombolo/library/*.json; TOMBOLO_LIBRARY names another folder with such "
    "files.\n"
    "\n"
    "Examples:\n"
    "  tombolo library\n"
    "  tombolo library models\n"
    "  tombolo library devices H100\n"
    "  tombolo library nics \"ConnectX-7\" --json";

struct LibraryOptions {
  std::string kind, name;
  bool json = false;
};

std::string compact(double value) {
  for (const auto& [unit, letter] : {std::pair{1e15, 'P'}, {1e12, 'T'}, {1e9, 'G'}, {1e6, 'M'}}) {
    if (value >= unit) return fmt::format("{:.4g} {}", value / unit, letter);
  }
  return value > 0 ? fmt::format("{:.4g}", value) : "-";
}

std::string devices_text(const topology::Library& library) {
  Table table(
      {"device", "kind", "memory", "memory B/s", "fp32 FLOP/s", "usual FLOP/s", "attained", "joined B/s"});
  for (const auto& device : library.devices) {
    const auto dtype = device.usual_dtype();
    table.add({device.name, device.kind == topology::DeviceKind::kGpu ? "gpu" : "cpu",
               device.memory_bytes > 0 ? format_size(static_cast<std::uint64_t>(device.memory_bytes)) : "-",
               compact(device.memory_bytes_per_second), compact(device.peak("fp32")),
               fmt::format("{} {}", compact(device.peak(dtype)), dtype),
               fmt::format("{:.0f} %", 100 * device.attained_share),
               compact(device.device_bytes_per_second)});
  }
  return table.text(terminal_width());
}

std::string nics_text(const topology::Library& library) {
  Table table({"NIC", "rate", "kinds"});
  for (const auto& nic : library.nics) {
    std::vector<std::string_view> kinds;
    for (const auto kind : nic.kinds) kinds.push_back(topology::nic_kind_name(kind));
    table.add({nic.name, format_bit_rate(static_cast<double>(nic.rate_bits_per_second) / 8),
               fmt::format("{}", fmt::join(kinds, ", "))});
  }
  return table.text(terminal_width());
}

std::string models_text(const planner::ModelLibrary& library) {
  Table table({"model", "parameters", "layers", "hidden", "heads", "KV heads", "MLP", "experts", "context",
               "vocabulary"});
  for (const auto& entry : library.models) {
    const auto& model = entry.model;
    table.add({model.name, compact(static_cast<double>(model.parameters())), std::to_string(model.layers),
               std::to_string(model.hidden), std::to_string(model.heads),
               std::to_string(model.key_value_heads()), std::to_string(model.inner()),
               model.experts > 0 ? fmt::format("{} of {}", model.experts_per_token, model.experts) : "-",
               std::to_string(model.context), std::to_string(model.vocabulary)});
  }
  return table.text(terminal_width());
}

/// The entry called `name`, or all entries where the name is empty, as they stand in the file.
template <typename Entries>
Json entries_of(const char* kind, const Entries& entries, const topology::LibraryNames& names,
                const std::string& name) {
  if (name.empty()) {
    Json all = Json::array();
    for (const auto& entry : entries) all.push_back(entry.at.raw());
    return all;
  }
  if (const auto index = names.find(name)) return entries[*index].at.raw();
  const auto nearest = names.nearest(name);
  fail(Cause::kInvalidUsage, "the library has no {} \"{}\"{}; `tombolo library {}` lists what there is",
       std::string_view(kind).substr(0, std::string_view(kind).size() - 1), name,
       nearest ? fmt::format("; did you mean \"{}\"?", *nearest) : "", kind);
}

/// One line per field, as it stands in the file.
std::string shown(const Json& entry) {
  std::string text;
  for (const char* field :
       {"name", "aliases", "kind", "kinds", "compute_capability", "memory_bytes", "memory_bytes_per_second",
        "peak_flops_per_second", "device_link", "device_bytes_per_second", "attained_share", "attained_note",
        "rate_gbps", "ports", "rdma_device", "pci_ids", "parameters", "shape", "source"}) {
    if (!entry.contains(field)) continue;
    const Json& value = entry[field];
    text += fmt::format("{:<24}{}\n", field, value.is_string() ? value.get<std::string>() : value.dump());
  }
  return text;
}

int run_library(const LibraryOptions& options) {
  const auto library = topology::Library::load();
  const auto models = planner::ModelLibrary::load();
  const auto entries = [&](const std::string& kind) {
    if (kind == "devices") return entries_of("devices", library.devices, library.device_names, options.name);
    if (kind == "nics") return entries_of("nics", library.nics, library.nic_names, options.name);
    return entries_of("models", models.models, models.names, options.name);
  };
  if (options.kind.empty() && options.json) {
    Json all = Json::object();
    for (const char* kind : {"devices", "nics", "models"}) all[kind] = entries(kind);
    fmt::print("{}\n", all.dump(1));
  } else if (options.kind.empty()) {
    fmt::print(
        "{} devices, {} NICs and {} models; `tombolo library devices`, `nics` or `models` lists them.\n"
        "They are read from {}, {} and {}.\n",
        library.devices.size(), library.nics.size(), models.models.size(),
        topology::library_file("devices.json"), topology::library_file("nics.json"),
        topology::library_file("models.json"));
  } else if (options.json) {
    fmt::print("{}\n", entries(options.kind).dump(1));
  } else if (!options.name.empty()) {
    fmt::print("{}", shown(entries(options.kind)));
  } else {
    fmt::print("{}", options.kind == "devices" ? devices_text(library)
                     : options.kind == "nics"  ? nics_text(library)
                                               : models_text(models));
  }
  return kExitOk;
}

}  // namespace

void add_library(CommandLine& tombolo) {
  auto options = std::make_shared<LibraryOptions>();
  CLI::App& app = tombolo.add("library", "Common devices, NICs and models by name", kLibraryHelp,
                              [options] { return run_library(*options); });
  app.add_option("kind", options->kind, "devices, nics or models")
      ->check(CLI::IsMember({"devices", "nics", "models"}));
  app.add_option("name", options->name,
                 "Show this one with all that is known; case, blanks and signs do not count");
  app.add_flag("--json", options->json, "Print the entries as they stand in the file");
}

}  // namespace tombolo::tools
