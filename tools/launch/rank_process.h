// One rank of a launch: its process, and its output divided into lines.
#pragma once

#include <sys/types.h>

#include <array>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/descriptor.h"

namespace tombolo::tools {

/// The read end of a pipe, whose bytes are divided into lines.
class LineStream {
 public:
  using OnLine = std::function<void(std::string_view line)>;

  LineStream() = default;
  explicit LineStream(Descriptor pipe) : pipe_(std::move(pipe)) {}

  bool open() const noexcept { return static_cast<bool>(pipe_); }
  /// The descriptor for poll(2).
  int handle() const noexcept { return pipe_.get(); }
  /// Reads once, and passes on the lines that are complete, without their ends. Closes the pipe at its end.
  void read(const OnLine& on_line);
  /// Reads until the end of the file or until `deadline`, at which it still reads what the pipe holds; then
  /// it passes on an unfinished line too.
  void drain(const Deadline& deadline, const OnLine& on_line);

 private:
  void flush(const OnLine& on_line);

  Descriptor pipe_;
  std::string partial_;
};

/// How a rank's process is started.
struct RankCommand {
  std::string program;                   ///< path
  std::vector<std::string> arguments;    ///< with the program's name first
  std::vector<std::string> environment;  ///< "NAME=VALUE"
  std::function<int()> enter = {};       ///< in the child: moves it to its host; 0 or an errno; may be empty
  std::function<void()> restore_signals = {};  ///< in the child: undoes what the launcher did to signals
};

/// A process in a process group of its own; it is killed when the launcher's thread ends.
struct RankProcess {
  int number = 0;
  std::string host;  ///< empty: this machine
  pid_t pid = -1;
  Descriptor ended;  ///< pidfd: readable when the process has ended; absent on kernels before 5.3
  bool running = false;
  int status = 0;                     ///< of waitpid(2), once it does not run
  std::array<LineStream, 2> streams;  ///< standard output and standard error
  std::deque<std::string> last_lines;

  /// Throws kSystem naming the rank and its host when the process cannot be started.
  void start(const RankCommand& command);
  void signal(int number_of_signal) const noexcept;
  /// Kills what is left of the group and waits for the process.
  void kill_and_wait() noexcept;
  bool has_ended() const noexcept;
};

}  // namespace tombolo::tools
