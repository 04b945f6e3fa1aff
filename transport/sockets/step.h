#pragma once

namespace tombolo::transport::sockets {

/// How far an operation got that must not block.
enum class Step { kDone, kAgain, kEnded, kError };

}  // namespace tombolo::transport::sockets
