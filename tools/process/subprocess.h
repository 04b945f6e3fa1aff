// Runs small programs to their end. tools/process/ owns this and the other process primitives that the
// launcher and the emulation share.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/descriptor.h"

namespace tombolo::tools {

struct Pipe {
  Descriptor read, write;
};
/// Makes a pipe of which both ends are close-on-exec. Throws kSystem.
Pipe make_pipe();

/// Whether there is a file, no folder, that this process may execute.
bool is_executable(const std::string& path) noexcept;

/// The path of a program: `name` itself when it has a '/', else found in PATH or in the sbin folders, which
/// ordinary users' PATHs lack.
std::optional<std::string> find_program(std::string_view name);

/// Writes a text to its end, or as far as its reader reads: a closed output is no error.
void write_all(int fd, std::string_view text) noexcept;

struct Finished {
  int exit_code = 0;  ///< 128 + N for signal N; 124 when the deadline passed and it was killed
  std::string output, error;
};

/// Runs a program with `input` as its standard input; `in_child`, when given, runs in the forked child before
/// exec and returns 0 or an errno. Throws kSystem when it cannot be started.
Finished run_program(const std::vector<std::string>& arguments, std::string_view input, Duration deadline,
                     const std::function<int()>& in_child = {});

/// Runs a function in a forked child, so that what it loads, changes or breaks stays there; `output` is the
/// text that it returns, and `error` what it printed. A child that throws ends with exit code 1 and the
/// exception's text at the end of `error`. Only for processes whose other threads, if any, are idle: a lock
/// that one holds stays held in the child. Throws kSystem when there is no child.
Finished run_forked(const std::function<std::string()>& function, Duration deadline);

/// To be called in a forked child: asks the kernel to send `signal_number` to it when its parent ends, and
/// ends the child when `parent` has ended already. A change of user namespace clears this, so it must be
/// repeated after one.
void die_with_parent(pid_t parent, int signal_number) noexcept;

/// The exit code for a status of wait(2): 128 + N for signal N.
int exit_code_of(int status) noexcept;

}  // namespace tombolo::tools
