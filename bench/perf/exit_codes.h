// nccl-tests' exit codes, for scripts that tell them apart.
#pragma once

namespace tombolo::bench {

inline constexpr int kExitOk = 0;
inline constexpr int kExitInternal = 1;      ///< a failure outside the engine: memory, a file
inline constexpr int kExitEngine = 3;        ///< a call of the engine failed
inline constexpr int kExitTimeout = 4;       ///< -T passed
inline constexpr int kExitInvalidUsage = 6;  ///< flags that these ranks cannot carry out
inline constexpr int kExitWrong = 7;         ///< wrong results, or less bandwidth than NCCL_TESTS_MIN_BW
inline constexpr int kExitBadFlags = 255;    ///< a command line that was refused

}  // namespace tombolo::bench
