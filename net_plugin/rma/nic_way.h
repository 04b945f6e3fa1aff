// Which operations of this rank on another one the NICs carry out, and what the windows of both ends are to
// them.
//
// The NICs move the bytes of what carries bytes; those of a short put with a signal go with its message,
// which saves a round trip. Signals are messages, and the other rank's processor adds them: a NIC's own
// fetch-and-add is atomic among the queue pairs of that NIC alone, so that sums to which ranks add over other
// NICs, TCP or shared memory would be wrong; and when a NIC fails nobody can tell whether it was carried out.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "net_plugin/rma/operation.h"
#include "transport/one_sided.h"
#include "transport/transport.h"

namespace tombolo::net_plugin::rma {

/// Used under its group's lock, by the initiator whose connection it is.
class NicWay {
 public:
  /// `wanted`: false keeps everything on messages.
  explicit NicWay(bool wanted) noexcept : wanted_(wanted) {}

  enum class Choice : std::uint8_t {
    kMessage,
    kNic,
    kAsk,  ///< first the other rank must be asked for its window
    kWait  ///< for its answer
  };
  Choice choose(transport::Connection& connection, const Operation& operation) const noexcept;
  /// The operation that asks for the window, which stays this object's.
  Operation& ask(std::uint32_t rank, std::uint32_t window);
  void hear(std::uint32_t window, const transport::RemoteWindow& remote) { remote_[window] = remote; }

  /// Of an operation for which choose() answered kNic. kNever: by a message.
  transport::OneSided::Begun begin(transport::Connection& connection, Operation& operation);

  /// The window is deregistered.
  void forget(const Window& window) noexcept {
    here_.erase(window.number);
    remote_.erase(window.number);
    asking_.erase(window.number);
  }

 private:
  bool wanted_;
  std::map<std::uint32_t, std::unique_ptr<transport::OpenWindow>> here_;    // null: the NICs refuse it
  std::map<std::uint32_t, std::optional<transport::RemoteWindow>> remote_;  // nothing: asked for
  std::map<std::uint32_t, std::unique_ptr<Operation>> asking_;
};

/// Whether a put or get that the NICs are to carry out may begin although `earlier` is not done: what the
/// other rank sees must be as if they had gone one after the other. Bytes may overtake signals before them.
bool may_overtake(const Operation& operation, const Operation& earlier) noexcept;

}  // namespace tombolo::net_plugin::rma
