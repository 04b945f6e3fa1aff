// A connection that goes on over another way when the NICs of the one it uses fail: over other NICs, or over
// TCP; and that returns to them. Nothing is lost: a send whose message may not have arrived still owns its
// buffer, or a copy is kept here, and goes again.
//
// The router makes one around each connection whose route says `resumable`; others gain no layer. How the two
// ends go on:
//  * Either end notices the failure, tells the other (over the control channel, and by a stream to its
//    listener), and fences its leg (resumable.h). From then on it knows what it has received.
//  * The connecting end makes the next leg, to a listener that the accepting end keeps for this connection.
//    The legs are ordinary connections, made and authenticated like all others. Their labels number them, so
//    that a late one is recognized.
//  * Over the new leg each end first sends its record (failover_record.h). Then both know which messages are
//    still to come, and number them alike: the n-th on the leg is the n-th that the record lacks.
//  * When NICs that failed are ready again, the connecting end makes a leg over them beside the present one.
//    The accepting end leaves the present leg for it, as if that had failed, and sends its record; the
//    connecting end does so when this has come. So a leg is left with messages under way, and nobody waits
//    until it is empty, which two owners that wait for each other's messages could prevent for ever.
//  * A leg that cannot say which messages have come is not fenced then, but retires: it brings what it was
//    given, and the new one takes what follows. Each end's record says where its sends change over.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "transport/bootstrap/background_progress.h"
#include "transport/bootstrap/listener.h"
#include "transport/descriptor.h"
#include "transport/failing.h"
#include "transport/gpu_staging.h"
#include "transport/resumable.h"
#include "transport/routing/failover_memory.h"
#include "transport/routing/failover_one_sided.h"
#include "transport/routing/failover_record.h"
#include "transport/routing/failover_retiring.h"
#include "transport/routing/failover_state.h"
#include "transport/routing/failover_window.h"
#include "transport/routing/nic_pair_absences.h"
#include "transport/routing/ways.h"
#include "transport/tcp/turns.h"
#include "transport/transport.h"

namespace tombolo::transport {

/// What a connection needs to make further legs.
struct LegMaker {
  std::shared_ptr<bootstrap::Acceptor> acceptor;
  std::shared_ptr<const Ways> ways;
  Duration return_after;        ///< as in RouterOptions
  GpuStagingMaker gpu_staging;  ///< as in RouterOptions
};

/// As any Connection; register_memory() alone may be called by another thread. While the owner makes no calls
/// and does not wait, the background thread does what the peer needs in order to move. GPU memory goes
/// on over legs that reach host memory alone where the maker's staging carries it. Such a leg cannot say
/// which messages have arrived, so that its failure is the connection's. Where it does not, GPU memory stays
/// with its leg: once some was registered, the failure of the leg is that of the connection, which leaves no
/// leg for a better one either. Its destructor waits for a bounded time while it keeps messages that count as
/// sent and that the peer may not have.
class FailoverConnection final : public Connection, private bootstrap::Progressable {
 public:
  enum class Side : std::uint8_t { kConnecting, kAccepting };

  /// `first` is the first leg, which offers Resumable; `listener` takes what the peer connects to this end
  /// beside it: further legs, or streams that tell of a failure. Of the peer and the options the connecting
  /// end needs those with which it connected. `lost`: pairs of NICs that could not carry it as it began, and
  /// to which it goes once they can.
  FailoverConnection(std::unique_ptr<Connection> first, LegMaker maker, Side side,
                     std::unique_ptr<bootstrap::AuthenticatingListener> listener, Endpoint peer,
                     ConnectOptions options, const std::vector<NicPairName>& lost = {});
  ~FailoverConnection() override;
  FailoverConnection(const FailoverConnection&) = delete;
  FailoverConnection& operator=(const FailoverConnection&) = delete;

  std::unique_ptr<Memory> register_memory(std::span<std::byte> buffer, MemoryKind kind) override {
    return memories_.add(buffer, kind);
  }
  std::unique_ptr<Memory> register_dma_buf(std::span<std::byte> range, int file,
                                           std::uint64_t offset) override {
    return memories_.add_dma_buf(range, file, offset);
  }
  Request* post_send(std::span<const std::byte> data, Memory* memory) noexcept override;
  Request* post_receive(std::span<std::byte> buffer, Memory* memory) noexcept override;
  Request* post_flush(std::span<const std::byte> data, Memory* memory) noexcept override;
  Outcome test(Request* request, std::size_t& bytes) noexcept override;
  bool progress() noexcept override;
  void append_wait_handles(std::vector<pollfd>& handles) const override;
  const Error* error() const noexcept override {
    const Turns::Turn look(turns_, Turns::Of::kLook);
    return error_ ? &*error_ : nullptr;
  }
  bool peer_ended() noexcept override {
    const Turns::Turn look(turns_, Turns::Of::kLook);
    if (error_) return true;
    return state_ == FailoverState::kUp && leg_ != nullptr && leg_->error() == nullptr && leg_->peer_ended();
  }
  std::uint64_t label() const noexcept override { return label_; }
  /// That of the present leg: it changes, by the owner's calls, where the connection has moved.
  const Route& route() const noexcept override { return route_; }
  RequestWay way_of(const Request* request) const noexcept override;
  Statistics statistics() const noexcept override;
  /// Null where the first leg has none, whatever the next ones have.
  OneSided* one_sided() noexcept override { return begun_with_one_sided_ ? &one_sided_ : nullptr; }

  FailoverState state() const noexcept {
    const Turns::Turn look(turns_, Turns::Of::kLook);
    return state_;
  }
  /// How often the connection has gone over to another leg.
  std::uint64_t moves() const noexcept {
    const Turns::Turn look(turns_, Turns::Of::kLook);
    return moves_;
  }

 private:
  // The label of a leg is its number, and a bit where the present one goes on working until the peer's record
  // has come; that of a stream that tells of a failure has a bit for each pair of NICs that failed.
  static constexpr std::uint64_t kNumberBits = 0xffffffff, kBesideBit = std::uint64_t{1} << 63;
  static constexpr unsigned kFailedPairsShift = 32;
  // That of a stream by which the connecting end says of a leg that failed as it was made whether this end
  // has gone over to it: the lowest bits of the place where its sends change over then, and a bit.
  static constexpr std::uint64_t kNoticeBit = std::uint64_t{1} << 62, kWentOverBit = std::uint64_t{1} << 61;
  static constexpr std::uint64_t kEndBits = (std::uint64_t{1} << 29) - 1;
  static constexpr unsigned kEndShift = 32;
  static constexpr const char* kReturns = "NICs that had failed are ready again";
  // The accepting end asks so often whether the other one is still at it.
  static constexpr Duration kAskAgain = std::chrono::seconds(1);
  // What has come over a leg whose failure is the connection's may be copied for so long.
  static constexpr Duration kLastWords = std::chrono::seconds(10);

  /// A flush outlives its leg: what NICs have written is flushed as the leg is left.
  struct Flush final : Request {
    enum class State : std::uint8_t {
      kFree,
      kOnLeg,
      kLost,  ///< the leg has failed with it, and is not left yet
      kDone,
    };
    State state = State::kFree;
    Request* on_leg = nullptr;  ///< kOnLeg
  };

  friend class FailoverOneSided;
  using Message = FailoverMessage;
  using Turns = tcp::Turns;

  /// A call of the owner's that moves the connection.
  class Call : public Turns::Turn {
   public:
    explicit Call(FailoverConnection& connection) noexcept : Turn(connection.turns_) {
      connection.waits_ = false;
      if (connection.moved_) connection.show_route();
    }
  };
  void show_route() noexcept;
  Duration progress_in_background() noexcept override;
  const bootstrap::Local& local() const noexcept { return *maker_.acceptor->local(); }
  bool connecting() const noexcept { return side_ == Side::kConnecting; }
  void become(FailoverEvent event);

  // failover_connection.cpp
  bool feed_sends() noexcept;
  bool feed_kept(std::uint64_t sequence) noexcept;
  void look_at_kept() noexcept;
  bool feed_receives() noexcept;
  /// The leg for the next receive; null: none now.
  Connection* leg_of_receive(std::uint64_t sequence) const noexcept;
  Memory* memory_on(Connection& leg, const Message& message);
  Flush* flush_of(const Request* request) noexcept;
  Outcome test_flush(Flush& flush) noexcept;
  void finish_send(Message& message) noexcept;
  void finish_receive(Message& message, std::size_t bytes) noexcept;
  void deliver_early(Message& message);
  void take_from_leg(Message& message, bool is_send) noexcept;
  bool still_brings(Message::State on) noexcept;
  bool look_due() noexcept;
  bool turn(bool moved) noexcept;
  bool move() noexcept;

  // failover_legs.cpp
  /// A failure of the action is the connection's.
  template <typename Action>
  void guarded(Action&& action) noexcept;
  const Route* keep_way(const Route& route);
  void begin_leg(std::unique_ptr<Connection> leg, Request* record_received = nullptr);
  bool hear_record();
  void take_record(std::size_t bytes);
  void agree(const FailoverRecord& record);
  void agreed(std::uint64_t again);
  FailoverRecord record();
  void leg_failed();
  std::string why_it_stays();
  void lose_leg(Cause cause, const std::string& why);
  void leave_leg(const std::string& why);
  void note_failed_nics(const std::vector<Resumable::PairOfNics>& pairs, bool known);
  void drop_leg() noexcept;
  static void add_to(Statistics& all, const Statistics& leg) noexcept;
  void end_flushes() noexcept;
  void collect(FailoverWindow& window) noexcept;
  void collect_kept() noexcept;
  void place_early(const std::vector<NumberedMessage>& early);
  void keep_early(std::uint64_t place, std::span<const std::byte> bytes);
  void give_up(Cause cause, std::string_view why) noexcept;

  // failover_retiring.cpp
  bool may_retire_leg() const noexcept;
  void retire_leg();
  void agree_on_ends(const FailoverRecord& heard);
  void retire_from(std::uint64_t end);
  void take_leg_back();
  void notify(std::uint64_t number, bool went_over);
  bool serve_notice();
  void hear_notice(std::uint64_t label);
  bool serve_retiring() noexcept;
  bool say_farewell() noexcept;
  void drop_retiring() noexcept;

  // failover_next.cpp
  void look_for_arrivals();
  void take_arrival();
  void hear_of_failure(std::uint64_t label);
  bool make_next_leg();
  void begin_attempt();
  /// One to the peer's listener that says no more than its label; null: there is no way to say it.
  std::unique_ptr<Connecting> stream_that_tells(std::uint64_t label, Duration time);
  std::vector<bootstrap::Way> ways_that_tell(const ConnectOptions& options) const;
  void tell_peer();
  bool return_to_lost_nics();
  bool begin_return(TimePoint now);
  bool look_at_beside();
  void drop_beside() noexcept;

  LegMaker maker_;
  Side side_;
  // The listener for further legs: at the connecting end from the beginning, unless the peer is of a build
  // that says it in its record alone; at the accepting end once the peer's record has come.
  Endpoint peer_;
  bool peer_known_ = false;
  ConnectOptions options_;
  std::uint64_t label_;
  Route route_;
  std::string description_;
  FailureTexts texts_;
  std::list<Route> ways_;       // of legs, each once
  const Route* way_ = nullptr;  // the present leg's

  FailoverState state_ = FailoverState::kUp;
  std::optional<Error> error_;
  std::string history_;            // the legs that failed, and why
  std::uint64_t leg_number_ = 0;   // of the present leg, or of the last
  std::uint64_t most_number_ = 0;  // connecting end: given to an attempt
  std::uint64_t moves_ = 0;
  std::string moved_because_;
  NicPairAbsences absences_;
  bool peer_knows_ = false;                  // that the leg has failed
  TimePoint since_{}, stopped_{}, begun_{};  // when the last leg failed and was fenced, and this one began
  Deadline patience_;                        // kMoving, kAgreeing
  std::optional<Deadline> last_words_;       // of a leg that has failed, and with it the connection
  TimePoint try_again_{}, look_again_{};

  std::unique_ptr<bootstrap::AuthenticatingListener> listener_;
  // The next leg, or at the accepting end the stream that tells the peer.
  std::unique_ptr<Connecting> attempt_;
  std::uint64_t failed_label_ = 0;  // what that stream says
  /// The pair of NICs for which attempt_ or beside_ was made, while the present leg works.
  std::optional<NicPairName> returning_;
  /// The next leg beside the present one, until the peer's record has come over it; null: none.
  std::unique_ptr<Connection> beside_;
  Request* beside_record_ = nullptr;
  Deadline beside_patience_;
  /// Accepting end: the next leg, until the present one can be left for it.
  std::unique_ptr<Connection> arrived_;
  std::uint64_t least_number_ = 0;  ///< up to this one the peer has given its legs up
  FailoverWindow sends_, receives_;
  /// Messages that count as sent, whose owner has their buffers, and which the peer may not have.
  struct Kept {
    std::vector<std::byte> bytes;
    Request* on_leg = nullptr;
  };
  std::map<std::uint64_t, Kept> kept_;
  FailoverRecord heard_;  // by which the messages on the leg are numbered
  struct Early {
    std::vector<std::byte> bytes;
    const Route* way = nullptr;
  };
  std::map<std::uint64_t, Early> early_;  // messages that came before their receive
  std::vector<std::byte> record_out_, record_in_, beside_in_;
  Request* record_sent_ = nullptr;
  Request* record_received_ = nullptr;
  std::uint64_t receives_on_leg_ = 0;    // posted on it, the record's among them
  std::unique_ptr<GpuStaging> staging_;  // null: there is none
  std::vector<Flush> flushes_;
  FailoverMemories memories_;
  std::unique_ptr<Connection> leg_;  // null in kMoving and kFailed
  std::optional<RetiringLeg> retiring_;
  std::optional<FailoverNotice> notice_;
  FailoverOneSided one_sided_{*this};
  bool begun_with_one_sided_;
  Statistics counts_;  // of payload; what the legs count beside it is added from there
  unsigned calls_ = 0;
  TimePoint looked_{};
  mutable bool waits_ = false;  // the owner, on the handles
  mutable bool slept_ = false;  // it did since the last turn
  bool moved_ = false;          // route_ is that of an earlier leg
  mutable Turns turns_;         // of owner and background thread
  Descriptor timer_;            // ends a sleep while the connection moves
};

template <typename Action>
void FailoverConnection::guarded(Action&& action) noexcept {
  transport::guarded(action, [this](Cause cause, std::string_view why) noexcept { give_up(cause, why); });
}

/// Each connection that can go on over another way does so; others are returned as they are.
std::unique_ptr<Connecting> failing_over(std::unique_ptr<BestConnecting> connecting, LegMaker maker,
                                         const Endpoint& peer, const ConnectOptions& options);
std::unique_ptr<Listener> failing_over(std::unique_ptr<bootstrap::AuthenticatingListener> listener,
                                       LegMaker maker);

}  // namespace tombolo::transport
