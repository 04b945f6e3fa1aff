// Threads that help one thread with pieces of its work, and sleep in between.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace tombolo::compute {

/// Belongs to one thread, which alone may use it.
class Workers {
 public:
  Workers() = default;
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  using Piece = std::function<void(int)>;
  /// Calls piece(0) to piece(count - 1), each once, each on a thread of its own (the first on the caller's),
  /// and returns when all have returned. Makes the threads that are missing; throws std::system_error where
  /// the system refuses one.
  void run(int count, const Piece& piece);

 private:
  void help(int index, std::uint32_t seen);

  std::vector<std::jthread> threads_;
  const Piece* piece_ = nullptr;  ///< null: the helpers end
  int count_ = 0;
  std::atomic<std::uint32_t> round_{0};  ///< counts up with every run
  std::atomic<int> unfinished_{0};
};

}  // namespace tombolo::compute
