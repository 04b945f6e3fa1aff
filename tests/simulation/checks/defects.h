// Defects that a simulated run can be given on purpose, to see that what checks it finds them.
#pragma once

#include <array>
#include <memory>

#include "base/clock.h"
#include "transport/transport.h"

namespace tombolo::simulation {

class World;

enum class Defect {
  kNone,
  kLostByte,    ///< the kernel takes a byte, and does not send it
  kLostWakeUp,  ///< the same of a byte that is sent alone, as to a process that sleeps beside shared memory
  kOtherBytes,  ///< a receive ends with a byte that was not sent
  kTwice,       ///< a receive ends with the message before
  kNotSent,     ///< a send is done, and was not sent
  kWrongSize,   ///< a send reports a byte less
  kWrittenBeyond,     ///< a receive writes behind its message
  kWrittenLate,       ///< a receive's buffer is written after its request was over
  kNoError,           ///< a request fails, and the connection has no error
  kNamelessError,     ///< the error does not say whose connection has failed
  kGivesUp,           ///< the connection fails for no reason
  kNeverDone,         ///< a request that is done is pending for ever
  kSpins,             ///< the wait handles are always ready
  kSlowClose,         ///< closing takes 10 s
  kSlowConnect,       ///< connecting takes 20 s
  kInterrupted,       ///< an end makes no connection where a call of its process was interrupted
  kNoticesLate,       ///< an end whose peer is gone for good says so 20 s later
  kLeakedDescriptor,  ///< the connection leaves a descriptor
  kLeakedMemory       ///< the connection leaves memory
};
inline constexpr std::array kDefects{
    Defect::kLostByte,    Defect::kLostWakeUp,       Defect::kOtherBytes,    Defect::kTwice,
    Defect::kNotSent,     Defect::kWrongSize,        Defect::kWrittenBeyond, Defect::kWrittenLate,
    Defect::kNoError,     Defect::kNamelessError,    Defect::kGivesUp,       Defect::kNeverDone,
    Defect::kSpins,       Defect::kSlowClose,        Defect::kSlowConnect,   Defect::kInterrupted,
    Defect::kNoticesLate, Defect::kLeakedDescriptor, Defect::kLeakedMemory};

const char* name_of(Defect defect);

/// A connection that has that defect in front of one that has not. The world outlives it.
std::unique_ptr<transport::Connection> with_defect(std::unique_ptr<transport::Connection> inner,
                                                   Defect defect, World& world);

}  // namespace tombolo::simulation
