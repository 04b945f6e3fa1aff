// For tests: ranks as real processes, which run the C program c_ranks with the variables that a launcher
// sets.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/unused_port_test.h"
#include "tombolo/tombolo.hpp"

namespace tombolo::test {

using Clock = std::chrono::steady_clock;
inline constexpr auto kPatience = std::chrono::seconds(60);

/// As c_ranks makes it.
inline int exit_code(tomboloResult_t result) {
  return result < tomboloTimeout ? 100 + result : 200 + result - tomboloTimeout;
}

using Variables = std::map<std::string, std::string>;

/// One child with its output. The destructor kills and reaps a child that still runs.
class Rank {
 public:
  /// Starts the program as a launcher does; `more` replaces variables of the same names.
  Rank(int rank, int size, int port, std::vector<std::string> words, const Variables& more)
      : Rank(std::move(words), replaced({{"RANK", std::to_string(rank)},
                                         {"WORLD_SIZE", std::to_string(size)},
                                         {"LOCAL_RANK", std::to_string(rank)},
                                         {"MASTER_ADDR", "127.0.0.1"},
                                         {"MASTER_PORT", std::to_string(port)},
                                         {"TOMBOLO_SECRET", "process test"}},
                                        more)) {}
  Rank(std::vector<std::string> words, const Variables& variables) {
    int pipe[2];
    EXPECT_EQ(0, ::pipe2(pipe, O_CLOEXEC));
    std::vector<std::string> environment;
    for (const auto& [name, value] : variables) environment.push_back(name + "=" + value);
    const auto pointers_to = [](std::vector<std::string>& texts) {
      std::vector<char*> pointers;
      for (auto& one : texts) pointers.push_back(one.data());
      pointers.push_back(nullptr);
      return pointers;
    };
    const std::string program = TOMBOLO_C_RANKS;
    words.insert(words.begin(), program);
    const auto arguments = pointers_to(words), pointers = pointers_to(environment);
    process_ = ::fork();
    if (process_ == 0) {
      ::dup2(pipe[1], 1);
      ::dup2(pipe[1], 2);
      ::execve(program.c_str(), arguments.data(), pointers.data());
      ::_exit(127);
    }
    ::close(pipe[1]);
    output_ = pipe[0];
  }
  ~Rank() {
    if (process_ > 0) {
      ::kill(process_, SIGKILL);
      ::waitpid(process_, nullptr, 0);
    }
    ::close(output_);
  }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  void kill(int signal) { ::kill(process_, signal); }

  /// Reads until `word` has come; false at the end of the output or after kPatience.
  bool read_until(const std::string& word, Clock::time_point deadline) {
    while (text_.find(word) == std::string::npos) {
      if (!read_some(deadline)) return false;
    }
    return true;
  }

  /// The exit code, 128 + signal, or -1 when it still runs at the deadline.
  int wait(Clock::time_point deadline) {
    while (read_some(deadline)) {
    }
    int status = 0;
    for (;;) {
      const pid_t ended = ::waitpid(process_, &status, WNOHANG);
      if (ended == process_) break;
      if (Clock::now() > deadline) return -1;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    process_ = -1;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }

  const std::string& text() const { return text_; }

 private:
  static Variables replaced(Variables variables, const Variables& more) {
    for (const auto& [name, value] : more) variables[name] = value;
    return variables;
  }
  bool read_some(Clock::time_point deadline) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd one{output_, POLLIN, 0};
    if (left <= 0 || ::poll(&one, 1, static_cast<int>(left)) <= 0) return false;
    char buffer[4096];
    const ssize_t got = ::read(output_, buffer, sizeof(buffer));
    if (got <= 0) return false;
    text_.append(buffer, static_cast<std::size_t>(got));
    return true;
  }

  pid_t process_ = -1;
  int output_ = -1;
  std::string text_;
};

inline std::vector<std::unique_ptr<Rank>> start(int size, const std::vector<std::string>& words,
                                                const Variables& more = {}) {
  const int port = unused_port();
  std::vector<std::unique_ptr<Rank>> ranks;
  for (int rank = 0; rank < size; ++rank)
    ranks.push_back(std::make_unique<Rank>(rank, size, port, words, more));
  return ranks;
}

}  // namespace tombolo::test
