// A script that starts a plan by torchrun: what the launchers megatron, nemo, torchtitan and torchrun share.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "planner/launch/framework_arguments.h"
#include "planner/launch/launch_nodes.h"

namespace tombolo::planner {

struct TorchrunScript {
  std::string_view title;    ///< of the program that it starts: "Megatron-LM"
  std::string_view example;  ///< the script's arguments in an example: "pretrain_gpt.py --data-path ..."
  std::vector<Node> nodes;   ///< by node rank
  Framework framework = Framework::kAny;  ///< whose program it is, for its settings
  FrameworkArguments arguments;
};

/// The script, to be run on every node with NODE_RANK.
std::string torchrun_script(const Plan& plan, const topology::ClusterFile& cluster,
                            const std::string& cluster_path, const TorchrunScript& script);

/// The nodes in the first of these numberings in which torchrun can start the plan: a node's ranks are in a
/// row, and where `equal` is set all nodes have equally many.
struct NumberedNodes {
  Numbering numbering;
  std::vector<Node> nodes;
};
/// Throws kUnsupported where there is none, naming `title` and the launchers that place each rank.
NumberedNodes torchrun_nodes(const Plan& plan, const std::vector<Numbering>& numberings, bool equal,
                             std::string_view title);

}  // namespace tombolo::planner
