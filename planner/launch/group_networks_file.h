// The file that tells a framework which network each of its groups takes, as lines of a launch script.
#pragma once

#include <string>
#include <string_view>

#include "planner/launch/network_environment.h"

namespace tombolo::planner {

/// What stands around the command that starts the framework's program. With NETWORK=mixed a temporary file
/// has to be there until the program ends, and so the shell stays, removes it then, and passes signals and
/// the exit code on; else the program takes the shell's place.
struct GroupNetworksFile {
  std::string before;   ///< whole lines
  std::string command;  ///< "exec " or nothing, before the command's first word
  std::string more;     ///< further words of the command, continuing its line
  std::string after;    ///< what ends the line, and further lines but for the last one's end

  /// All of it around the words of a command.
  std::string around(std::string_view words) const {
    return before + command + std::string(words) + more + after;
  }
};

/// `argument` is networks_argument() of framework_arguments.h: where it is empty, or all of the plan's
/// groups take the same network, the command stands alone.
GroupNetworksFile group_networks_file(const NetworkNeeds& needs, std::string_view argument);

}  // namespace tombolo::planner
