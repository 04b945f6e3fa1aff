// What this process's host is called in the names of the files that it writes.
#pragma once

#include <string>

namespace tombolo::net_plugin {

/// TOMBOLO_HOST, or else the machine's host name.
std::string own_host_name();

}  // namespace tombolo::net_plugin
