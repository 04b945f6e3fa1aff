#pragma once

namespace tombolo::transport::tcp {

/// How far something went that must not block.
enum class Step { kDone, kAgain, kEnded, kError };

}  // namespace tombolo::transport::tcp
