#include "tools/cli/cluster_option.h"

#include "base/error.h"

namespace tombolo::tools {

topology::ClusterFile load_cluster(const std::string& option) {
  const std::string path = option.empty() ? topology::kClusterParameter.text() : option;
  if (path.empty())
    fail(Cause::kInvalidUsage,
         "no cluster file: give --cluster FILE or set {}; `tombolo topo --cluster-out` and `tombolo probe` "
         "write "
         "one (docs/cluster-file.md)",
         topology::kClusterParameter.name);
  return topology::ClusterFile::load(path);
}

}  // namespace tombolo::tools
