// What of a plan the program of a framework is told as arguments. Each framework has a file of its own; the
// names of the arguments are those of the releases in planner/testing/names/, against which tests hold them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "planner/launch/launch_nodes.h"
#include "planner/plan/plan.h"
#include "topology/files/cluster_file.h"

namespace tombolo::planner {

struct FrameworkArguments {
  std::vector<std::string>
      lines;  ///< of words for sh, quoted where they need it; one line is about one thing
  std::vector<std::string> remarks;  ///< sentences for people: what the program's own arguments must match
};

/// What Megatron Core's exchanges beside products take, as a remark.
inline constexpr std::string_view kTensorOverlapNeeds =
    "Exchanges beside products take Transformer Engine 1.9 or later and GPUs joined by NVLink.";

/// pretrain_gpt.py of Megatron-LM. `numbering` is not kPlan.
FrameworkArguments megatron_arguments(const Plan& plan, const topology::ClusterFile& cluster,
                                      Numbering numbering);
/// A recipe of NeMo's llm collection, whose keys the arguments override. `numbering` is not kPlan; `nodes`
/// are equally large.
FrameworkArguments nemo_arguments(const Plan& plan, const topology::ClusterFile& cluster, Numbering numbering,
                                  const std::vector<Node>& nodes);
/// torchtitan.train, which numbers its ranks by stage, then replica. Throws kUnsupported on GPUs that have no
/// bf16, for it has no fp16.
FrameworkArguments torchtitan_arguments(const Plan& plan, const topology::ClusterFile& cluster);

/// How a launcher that gives each rank its place starts the plan's framework.
struct FrameworkStart {
  Numbering numbering = Numbering::kPlan;  ///< the framework's, by which it takes rank numbers for places
  FrameworkArguments arguments;
};
/// The bundled trainer takes its places from the plan file, and DeepSpeed the rest from its configuration:
/// both have no arguments.
FrameworkStart framework_start(const Plan& plan, const topology::ClusterFile& cluster);

/// The argument by which the framework is given networks per group, up to the path of the file that says
/// them; empty where it takes none.
std::string_view networks_argument(Framework framework) noexcept;

/// "Rank r of the job is rank r of the plan.", or by what the framework numbers them.
std::string numbering_text(const Plan& plan, const FrameworkStart& start);
/// The arguments of a launch script in an example: the framework's usual program.
std::string_view example_of(const Plan& plan);
/// The arguments after those of a command, each line of them continuing it.
std::string following_words(const FrameworkArguments& arguments);
/// The remarks as comments of sh, a line each, after an empty one; empty where there are none.
std::string remarks_text(const FrameworkArguments& arguments);

/// "layers whose MLP stands beside attention; MLPs through ReLU": the peculiarities but for some; empty where
/// there are none.
std::string peculiarity_words(const Peculiarities& peculiarities, const Peculiarities& except = {});
/// What tells the model from Llama, or from GPT-2, in such words: positions, biases, norms, gates, router,
/// windows and peculiarities.
std::string model_details(const Model& model);

/// The number of layers of all stages where they have equally many, else 0.
int even_layers(const Plan& plan);
/// The stages in Megatron's spelling: "Et*9|t*9|t*7L".
std::string pipeline_layout(const Plan& plan);

/// Which layers are mixtures of experts (1) and which dense (0), as Megatron-LM takes it: "[0]*1+[1]*26".
std::string mixture_pattern(const Model& model);

}  // namespace tombolo::planner
