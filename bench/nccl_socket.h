// NCCL's own transport over TCP, "Socket", taken out of the installed NCCL library so that it can be measured
// beside plugins. It needs no GPU.
#pragma once

#include <memory>
#include <string>

#include "net_plugin/client.h"

namespace tombolo::bench {

/// The library lies at `path`; empty: libnccl.so.2 where the loader finds it, then below /usr/local/cuda*.
/// NCCL does not export the transport, but keeps a table of functions as plugins have: its first member
/// points to the name "Socket", the other members into the code. That table is looked for in the loaded
/// library's writable parts, and is taken only where there is exactly one that has each member of ABI v11 set
/// or null as this transport has it. Throws kUnsupported saying what is missing: no library, a release other
/// than 2.28 (the internal table changes with releases), or no such table. Where there is no CUDA driver it
/// changes one function of the library in this process' memory; see nccl_socket.cpp. Load it in a process of
/// its own.
std::unique_ptr<net_plugin::Client> load_nccl_socket(const std::string& path);

}  // namespace tombolo::bench
