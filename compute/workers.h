// Helper threads that compute pieces of one thread's work, and sleep in between.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace tombolo::compute {

/// Belongs to one thread, and only that one may use it.
class Workers {
 public:
  Workers() = default;
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  using Piece = std::function<void(int)>;
  /// Calls piece(0) to piece(count - 1), each once, and returns when all have returned: the first on the
  /// caller's thread, the others on one thread each, which is made when first needed. Where the system
  /// refuses a thread the caller computes that piece too. A piece must not throw.
  void run(int count, const Piece& piece) noexcept;

 private:
  bool add_thread() noexcept;
  void help(int index, std::uint32_t seen);

  const Piece* piece_ = nullptr;  ///< null: the helpers end
  int count_ = 0;
  std::atomic<std::uint32_t> round_{0};  ///< counts up with every run
  std::atomic<int> unfinished_{0};
  // declared last, so that they are joined before what they use is destroyed
  std::vector<std::jthread> threads_;
};

}  // namespace tombolo::compute
