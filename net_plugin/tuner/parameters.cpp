#include "net_plugin/tuner/parameters.h"

namespace tombolo::net_plugin {

const Parameter kTunerParameter{"TOMBOLO_TUNER", ParameterType::kChoice, "auto",
                                "Which NCCL communicators the plugin chooses algorithm and protocol for, by "
                                "the cluster file's rates: those "
                                "with more nodes than any cluster has hosts (auto), none (off), or all of "
                                "two nodes or more (spanning). Set "
                                "it alike on all ranks.",
                                "auto|off|spanning"};

const Parameter kTunerLinkParameter{
    "TOMBOLO_TUNER_LINK", ParameterType::kText, "",
    "What the tuner goes by in place of the cluster file, as \"hosts=2+4 rate=10gbit rtt=20ms\": "
    "the hosts of each cluster, the rate of one NIC between clusters and the round trip; "
    "shared=25gbit is what all hosts of a cluster attain together, nics=2 how many NICs a host uses. "
    "Set it alike on all ranks."};

const Parameter kTunerLogParameter{"TOMBOLO_TUNER_LOG", ParameterType::kText, "",
                                   "stderr, or a file to which each new choice of the tuner is appended with "
                                   "the costs, the channels or the chunk sizes it was made by. %h "
                                   "becomes the host's name, %p the process's number."};

}  // namespace tombolo::net_plugin
