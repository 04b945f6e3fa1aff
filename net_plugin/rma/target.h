// The operations of one other rank on this rank's memory: carries out what arrives on a connection, in order,
// and answers.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "net_plugin/rma/messages.h"
#include "transport/one_sided.h"
#include "transport/transport.h"

namespace tombolo::net_plugin::rma {

/// What a target asks its group for.
class Windows {
 public:
  virtual ~Windows() = default;
  /// Null where there is none of that number.
  virtual const Window* find(std::uint32_t number) const noexcept = 0;
  /// Whether a window of that number is still to be registered: this rank is behind the one that asks.
  virtual bool is_to_come(std::uint32_t number) const noexcept = 0;
  /// For how long an operation may wait for that.
  virtual Duration patience() const noexcept = 0;
  /// Whether the NICs of other ranks may reach windows of this one.
  virtual bool by_nic() const noexcept = 0;
  /// For the log.
  virtual void note(const std::string& what) const noexcept = 0;
  /// Signals of all ranks go one after the other, because on a GPU adding is reading, adding and writing.
  /// False where another owner has the turn.
  virtual bool take_turn(const void* owner) noexcept = 0;
  virtual void end_turn(const void* owner) noexcept = 0;
};

/// Used under its group's lock.
class Target {
 public:
  Target(std::uint32_t rank, std::unique_ptr<transport::Connection> connection, Windows& windows,
         CopyPieces& pieces);
  ~Target();

  bool progress() noexcept;
  /// Whether it has ended: the other rank has closed its group, or error() says what went wrong.
  bool over() const noexcept { return over_; }
  const std::string& error() const noexcept { return error_; }
  /// Whether answers are still on their way. progress() moves them also after stop().
  bool answering() const noexcept { return connection_ != nullptr && !replies_.idle(); }
  /// From now on nothing more is carried out.
  void stop() noexcept { stopped_ = true; }
  /// Whether an operation that is being carried out uses the window.
  bool uses(const Window& window) const noexcept;
  /// The window, which no operation uses, is deregistered: the other rank's NICs reach it no more.
  void forget(const Window& window) noexcept { open_.erase(window.number); }
  /// Ends the connection, so that the memory of windows is touched no more.
  void abandon(const std::string& why) noexcept;

 private:
  enum class State : std::uint8_t {
    kWaiting,  ///< for a request
    kHeld,     ///< until its window has been registered here
    kPutting,  ///< bytes of the frame
    kPartsIn,
    kTurn,     ///< for the signal
    kReading,  ///< the signal's word on a GPU
    kWriting,
    kGathering,  ///< bytes for the reply
    kAnswering,
    kPartsOut,
    kRefused,
  };

  bool step();
  bool ask();
  bool examine();
  void put();
  void signal();
  bool get();
  bool tell_window();
  transport::RemoteWindow remote_of(std::uint32_t number);
  bool answer();
  void refuse(Answer why, const Window* window) noexcept;
  bool await(transport::Outcome outcome, State next);

  std::uint32_t rank_;
  Windows& windows_;
  State state_ = State::kWaiting;
  Deadline held_ = Deadline::after(Duration{0});  // an operation that waits for its window
  RequestFrame request_;
  std::span<const std::byte> bytes_;  // that came in its frame
  const Window* window_ = nullptr;
  const Window* signal_ = nullptr;
  std::uint64_t word_ = 0;
  ReplyFrame reply_;
  std::size_t inline_bytes_ = 0;  // of the reply
  bool stopped_ = false, over_ = false;
  std::string error_;
  FrameReceiver requests_;
  FrameSender replies_;
  Parts parts_in_, parts_out_;
  Transfer transfer_;
  std::map<std::uint32_t, std::unique_ptr<transport::OpenWindow>> open_;  // to the other rank's NICs
  std::unique_ptr<transport::Connection> connection_;                     // ends first
};

}  // namespace tombolo::net_plugin::rma
