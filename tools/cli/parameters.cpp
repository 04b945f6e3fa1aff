#include "tools/cli/parameters.h"

#include <algorithm>

#include "base/error.h"
#include "base/text_distance.h"
#include "collectives/parameters.h"
#include "collectives/rendezvous/bootstrap.h"
#include "compute/instruction_set.h"
#include "net_plugin/parameters.h"
#include "topology/files/cluster_file.h"
#include "trainer/cuda/parameters.h"
#include "transport/routing/router.h"

extern char** environ;

namespace tombolo::tools {

std::vector<RoomParameters> all_parameters() {
  return {
      {"base", base_parameters()},
      {"compute", compute::compute_parameters()},
      {"topology", topology::topology_parameters()},
      {"transport", transport::transport_parameters()},
      {"collectives", collectives::collectives_parameters()},
      {"net_plugin", net_plugin::net_plugin_parameters()},
      {"trainer", trainer::cuda::cuda_parameters()},
  };
}

std::optional<std::string> problem_of(const Parameter& parameter) {
  if (!parameter.is_set()) return std::nullopt;
  try {
    switch (parameter.type) {
      case ParameterType::kInteger:
        parameter.integer();
        break;
      case ParameterType::kSize:
        parameter.size();
        break;
      case ParameterType::kSeconds:
        parameter.seconds();
        break;
      case ParameterType::kBoolean:
        parameter.boolean();
        break;
      case ParameterType::kChoice:
        parameter.choice();
        break;
      case ParameterType::kText:
        break;
    }
  } catch (const Error& error) {
    return error.what();
  }
  return std::nullopt;
}

std::string shown_value(const Parameter& parameter) {
  if (parameter.name == collectives::kSecretParameter.name && !parameter.text().empty()) return "(hidden)";
  return parameter.text();
}

std::vector<std::string> unknown_variables() {
  std::vector<std::string_view> known;
  for (const auto& room : all_parameters()) {
    for (const Parameter* parameter : room.parameters) known.push_back(parameter->name);
  }
  std::vector<std::string> lines;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    std::string_view name(*entry);
    name = name.substr(0, name.find('='));
    if (!name.starts_with("TOMBOLO_") || std::find(known.begin(), known.end(), name) != known.end()) continue;
    auto nearest = nearest_name(name, known);
    lines.push_back(nearest ? fmt::format("{} is set, but nothing reads it; did you mean {}?", name, *nearest)
                            : fmt::format("{} is set, but nothing reads it", name));
  }
  return lines;
}

}  // namespace tombolo::tools
