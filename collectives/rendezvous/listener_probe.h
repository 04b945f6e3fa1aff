// Whether a process still listens somewhere, without a word to it: the kernel of its host answers for it.
#pragma once

#include <cstdint>
#include <string>

#include "transport/descriptor.h"

namespace tombolo::collectives {

/// Asks by a connection of its own, which it keeps, so that the end of the process is seen. One thread at a
/// time.
class ListenerProbe {
 public:
  enum class Answer {
    kNone,     ///< so far: its host may be gone, or slow
    kListens,  ///< or did a moment ago
    kGone,     ///< the host says that nobody listens there. Final
  };

  /// `address` is in digits. Asks nothing before the first look().
  ListenerProbe(std::string address, std::uint16_t port) : address_(std::move(address)), port_(port) {}
  /// What is known now; never blocks.
  Answer look();

 private:
  void connect();
  Answer outcome();

  std::string address_;
  std::uint16_t port_;
  transport::Descriptor socket_;
  Answer last_ = Answer::kNone;
};

}  // namespace tombolo::collectives
