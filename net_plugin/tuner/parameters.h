// The tuner's environment parameters.
#pragma once

#include "base/parameter.h"

namespace tombolo::net_plugin {

/// TOMBOLO_TUNER: auto, off or spanning.
extern const Parameter kTunerParameter;
/// TOMBOLO_TUNER_LINK: what the cluster file would say, in a line.
extern const Parameter kTunerLinkParameter;
/// TOMBOLO_TUNER_LOG: where the tuner's choices are written.
extern const Parameter kTunerLogParameter;

}  // namespace tombolo::net_plugin
