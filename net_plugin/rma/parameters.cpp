#include "net_plugin/rma/parameters.h"

namespace tombolo::net_plugin {

const Parameter kRmaParameter{
    "TOMBOLO_RMA", ParameterType::kChoice, "off",
    "Whether the plugin offers NCCL its one-sided operations, put, get and signal: by "
    "the NICs where they can, else by messages (auto), or by messages alone "
    "(messages), or leaves them to NCCL's own (off); alike on all ranks.",
    "off|auto|messages"};

}  // namespace tombolo::net_plugin
