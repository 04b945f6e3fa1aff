#include "tools/launch/rank_environment.h"

#include <algorithm>
#include <string_view>

namespace tombolo::tools {

Variables inherited_variables(const char* const* environment, int ranks) {
  Variables variables;
  for (const char* const* each = environment; *each != nullptr; ++each) {
    const std::string_view entry(*each);
    const std::size_t equals = entry.find('=');
    if (equals == std::string_view::npos) continue;
    variables[std::string(entry.substr(0, equals))] = std::string(entry.substr(equals + 1));
  }
  for (const char* name : {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "OMPI_COMM_WORLD_RANK",
                           "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"}) {
    variables.erase(name);
  }
  // Several ranks with a BLAS thread per core each would compete for the cores.
  if (ranks > 1) variables.emplace("OMP_NUM_THREADS", "1");
  variables["WORLD_SIZE"] = std::to_string(ranks);
  return variables;
}

Variables rank_variables(int rank, const std::vector<std::string>& hosts) {
  const auto own = hosts.begin() + rank;
  return {{"RANK", std::to_string(rank)},
          {"LOCAL_RANK", std::to_string(std::count(hosts.begin(), own, *own))},
          {"LOCAL_WORLD_SIZE", std::to_string(std::count(hosts.begin(), hosts.end(), *own))}};
}

std::vector<std::string> environment_lines(const Variables& variables) {
  std::vector<std::string> lines;
  for (const auto& [name, value] : variables) lines.push_back(name + "=" + value);
  return lines;
}

}  // namespace tombolo::tools
