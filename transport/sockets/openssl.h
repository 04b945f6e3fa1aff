// OpenSSL's start, before anything of it is used but plain functions such as SHA256_Init().
#pragma once

namespace tombolo::transport::sockets {

/// Thread-safe; only the first call does something. The system's openssl.cnf is not read, and nothing happens
/// at exit, because other threads may still be at work then. The library that contains this stays in memory
/// from then on.
void start_openssl() noexcept;

}  // namespace tombolo::transport::sockets
