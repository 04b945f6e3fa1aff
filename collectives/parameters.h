// The environment variables of this room. Private to collectives/; others list them by
// collectives_parameters().
#pragma once

#include "base/parameter.h"

namespace tombolo::collectives {

extern const Parameter kSecretParameter;
extern const Parameter kDeadlineParameter;
extern const Parameter kStuckAfterParameter;
extern const Parameter kRoutingParameter;
extern const Parameter kAlgorithmParameter;
extern const Parameter kTuningParameter;
extern const Parameter kProgressParameter;
extern const Parameter kCompressionParameter;
extern const Parameter kGpuReduceParameter;
extern const Parameter kPortParameter;
extern const Parameter kAddressParameter;
extern const Parameter kSegmentParameter;
extern const Parameter kHostLimitParameter;
extern const Parameter kDiscoverParameter;

}  // namespace tombolo::collectives
