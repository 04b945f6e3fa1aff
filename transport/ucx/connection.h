// A connection over UCX: tag matching by UCP, straight from the user's buffers into the user's buffers.
//
// Of UCP's ways, tag matching is the one where UCX knows a posted receive before its message comes, so that
// small messages are copied once, and large ones (rendezvous) are moved into place by the NIC or the kernel
// without a message of ours in between. Active messages would announce a large one and wait for an answer;
// streams have no messages.
//  * Each connection has a worker of its own. One thread progresses it, so it needs no locks, but it costs
//    more memory and files than a shared worker would.
//  * Every message has its own tag (agreed.h), so that the N-th goes into the N-th receive.
//  * UCX keeps small messages that come before their receive in memory of its own. The receiver grants how
//    far the sender may run ahead, by an empty message for every kCreditEvery messages that it took.
//  * The control channel shows at once when the peer has gone; its goodbye there says how many messages it
//    had sent.
#pragma once

#include <array>
#include <memory>
#include <string_view>

#include "transport/channel/channel_connection.h"
#include "transport/channel/peer_watch.h"
#include "transport/ucx/agreed.h"

namespace tombolo::transport::ucx {

/// A sender is at most kMostAhead messages ahead of what the receiver said that it took.
inline constexpr std::uint64_t kCreditEvery = 128, kMostAhead = 512;

class UcxConnection final : public channel::ChannelConnection {
 public:
  UcxConnection(channel::ControlChannel channel, Agreed agreed);
  ~UcxConnection() override;

  std::unique_ptr<Memory> register_memory(std::span<std::byte> buffer, MemoryKind kind) override;
  std::unique_ptr<Memory> register_dma_buf(std::span<std::byte> range, int file,
                                           std::uint64_t offset) override;
  Request* post_send(std::span<const std::byte> data, Memory* memory) noexcept override;
  Request* post_receive(std::span<std::byte> buffer, Memory* memory) noexcept override;
  Outcome test(Request* request, std::size_t& bytes) noexcept override;
  bool progress() noexcept override;
  void append_wait_handles(std::vector<pollfd>& handles) const override;

  bool peer_ended() noexcept override { return closing() || error_.has_value(); }

 private:
  /// One operation of UCX under way.
  struct Operation {
    UcxConnection* owner = nullptr;
    std::uint64_t sequence = 0;
    void* handle = nullptr;  ///< null: none
    bool over = false;       ///< its callback was called, perhaps before the call that started it returned
    const UcxMemory* memory = nullptr;
  };
  /// The first failure inside UCX's callbacks, in which nothing may be closed.
  struct Trouble {
    ucs_status_t status = UCS_OK;
    bool sending = false;
    std::uint64_t sequence = 0;
    std::size_t size = 0;  ///< of the message
  };

  static void on_sent(void* request, ucs_status_t status, void* user) noexcept;
  static void on_received(void* request, ucs_status_t status, const ucp_tag_recv_info_t* info,
                          void* user) noexcept;
  static void on_credit(void* request, ucs_status_t status, const ucp_tag_recv_info_t* info,
                        void* user) noexcept;
  static void on_credit_sent(void* request, ucs_status_t status, void* functions) noexcept;

  /// Runs the work of one call. What it throws fails this connection.
  template <typename Work>
  void guarded(const Work& work) noexcept {
    transport::guarded(work, [this](Cause cause, std::string_view what) noexcept { fail_with(cause, what); });
  }
  bool advance();
  bool covered(const UcxMemory* memory, const std::byte* data, std::size_t size);
  bool send_all();
  bool start_send(std::uint64_t sequence, PostedRequest& request);
  void start_receive(std::uint64_t sequence, PostedRequest& request);
  void expect_credit() noexcept;
  bool unearned_credit() noexcept;
  bool give_credit() noexcept;
  void sent(std::uint64_t sequence, ucs_status_t status) noexcept;
  void received(std::uint64_t sequence, ucs_status_t status, std::size_t length) noexcept;
  void note(Trouble trouble) noexcept;
  void look_at_trouble();
  void look_at_channel();
  bool closing() const noexcept { return peer_.closing(); }
  void close_when_drained(bool came);
  void cancel_receives() noexcept;
  bool any_under_way() const noexcept;
  void end_operations() noexcept;
  Goodbye goodbye_for(GoodbyeReason reason) const noexcept;
  void fail_with(Cause cause, std::string_view what) noexcept;
  void fail_with(Cause cause, std::string_view what, const Goodbye& goodbye) noexcept;
  const UcxFunctions& ucx() const noexcept { return context_->ucx(); }

  Agreed agreed_;  ///< its worker is null after a failure
  std::shared_ptr<Context> context_;
  channel::PeerWatch peer_;
  std::array<Operation, kRequestsPerDirection> sending_, receiving_;
  std::uint64_t next_ = 0;  // the send that is started next
  std::uint64_t sent_ = 0, received_ = 0;
  Operation credit_;  // the receive of the next
  std::uint64_t credits_given_ = 0, credits_got_ = 0;
  Trouble trouble_;
  TimePoint trouble_since_{};
};

}  // namespace tombolo::transport::ucx
