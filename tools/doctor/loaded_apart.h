// Libraries that are looked at by loading them, each in a process of its own, since what they do as they load
// is theirs.
#pragma once

#include <map>
#include <string>

#include "base/clock.h"
#include "base/json.h"
#include "tools/process/subprocess.h"

namespace tombolo::doctor {

constexpr Duration kPatience = std::chrono::seconds(60);  ///< importing nothing, on a slow shared file system

/// Runs a function that answers in JSON in a child whose environment has these variables besides. The
/// answer's "error" says why there is none.
template <typename Function>
Json in_child(const std::map<std::string, std::string>& variables, Function function) {
  const tools::Finished finished = tools::run_forked(
      [&] {
        for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
        return function().dump(-1, ' ', false, Json::error_handler_t::replace);
      },
      kPatience);
  if (finished.exit_code != 0) {
    return {{"error", finished.exit_code == 124
                          ? fmt::format("it did not answer within {} s", to_seconds(kPatience))
                          : fmt::format("it ended the process that tried it (exit code {}) {}",
                                        finished.exit_code, finished.error)}};
  }
  return parse_peer_json(finished.output, "a child process' answer");
}

/// The file of a loaded library.
std::string path_of(void* handle);
/// The loader's words for a library that does not load, as "error".
Json loader_error();

}  // namespace tombolo::doctor
