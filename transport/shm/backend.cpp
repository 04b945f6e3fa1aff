#include "transport/shm/backend.h"

#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.h"
#include "base/units.h"
#include "transport/bootstrap/exchange.h"
#include "transport/bootstrap/secret.h"
#include "transport/bytes.h"
#include "transport/shm/connection.h"

namespace tombolo::transport::shm {
namespace {

// The words on the link, all of one size:
//   connecting end -> Card     here is the segment; and a value in my memory: try to read it
//   accepting end  -> Card     I have it (or why not); whether I could read; a value of mine
//   connecting end -> Card     whether I could read
struct Card {
  static constexpr std::size_t kBytes = 256;
  static constexpr std::size_t kReasonWidth = 160;
  std::uint8_t ok = 1;
  std::uint8_t can_fetch = 0;
  std::uint32_t descriptor = 0;
  std::uint64_t process = 0;
  std::uint64_t segment_bytes = sizeof(Segment);
  std::uint64_t address = 0;  ///< of eight bytes that hold `value`
  std::uint64_t value = 0;
  std::array<std::byte, 16> token{};
  std::string reason;

  std::vector<std::byte> encode() const {
    ByteWriter writer;
    writer.number(ok);
    writer.number(can_fetch);
    writer.number(descriptor);
    writer.number(process);
    writer.number(segment_bytes);
    writer.number(address);
    writer.number(value);
    writer.raw(token);
    writer.padded_text(reason, kReasonWidth);
    auto bytes = writer.take();
    bytes.resize(kBytes);
    return bytes;
  }
  static Card decode(std::span<const std::byte> bytes) {
    ByteReader reader(bytes, "card of shared memory");
    Card card;
    card.ok = reader.number<std::uint8_t>();
    card.can_fetch = reader.number<std::uint8_t>();
    card.descriptor = reader.number<std::uint32_t>();
    card.process = reader.number<std::uint64_t>();
    card.segment_bytes = reader.number<std::uint64_t>();
    card.address = reader.number<std::uint64_t>();
    card.value = reader.number<std::uint64_t>();
    std::ranges::copy(reader.raw(card.token.size()), card.token.begin());
    card.reason = reader.padded_text(kReasonWidth);
    return card;
  }
};

bool can_read(const Card& card) {
  std::uint64_t got = 0;
  iovec mine{&got, sizeof got}, theirs{reinterpret_cast<void*>(card.address), sizeof got};
  return process_vm_readv(static_cast<pid_t>(card.process), &mine, 1, &theirs, 1, 0) == sizeof got &&
         got == card.value;
}

class Establishing final : public Connecting {
 public:
  Establishing(bootstrap::ControlChannel channel, bool fetch)
      : channel_(std::move(channel)),
        description_(describe("shm", channel_.route, channel_.peer_name)),
        may_fetch_(fetch) {
    random_bytes(std::as_writable_bytes(std::span(&value_, 1)));
    if (!channel_.connecting) return;
    Card card = mine();
    agreed_.mapping = Mapping::create(file_);
    random_bytes(card.token);
    agreed_.mapping->token = card.token;
    card.descriptor = static_cast<std::uint32_t>(file_.get());
    say(card);
  }

  std::unique_ptr<Connection> poll() override {
    if (writer_.write(socket()) == bootstrap::Step::kError) give_up(Cause::kRemote, "the link broke");
    while (!done_) {
      switch (reader_.read(socket(), Card::kBytes)) {
        case bootstrap::Step::kAgain:
          if (channel_.deadline.passed()) give_up(Cause::kTimeout, "the peer did not answer in time");
          return nullptr;
        case bootstrap::Step::kDone:
          break;
        default:
          give_up(Cause::kRemote, "the peer closed the link before shared memory was agreed on");
      }
      const Card card = Card::decode(reader_.bytes());
      reader_.clear();
      hear(card);
      if (writer_.write(socket()) == bootstrap::Step::kError) give_up(Cause::kRemote, "the link broke");
    }
    channel_.log.info("{}: messages above 32 KiB are {}", description_,
                      agreed_.fetch
                          ? "fetched from the sender's memory (one copy)"
                          : "copied through the ring, since one end may not read the other's memory "
                            "(TOMBOLO_SHM_FETCH=off, kernel.yama.ptrace_scope, or different users)");
    return std::make_unique<ShmConnection>(std::move(channel_), std::move(agreed_));
  }
  void append_wait_handles(std::vector<pollfd>& handles) const override {
    handles.push_back({channel_.socket.get(), POLLIN, 0});
  }

 private:
  int socket() const noexcept { return channel_.socket.get(); }
  [[noreturn]] void give_up(Cause cause, std::string_view why) const {
    fail(cause, "{}: {}", description_, why);
  }
  void say(const Card& card) { writer_.set(card.encode()); }
  Card mine() const {
    Card card;
    card.process = static_cast<std::uint64_t>(::getpid());
    card.address = reinterpret_cast<std::uint64_t>(&value_);
    card.value = value_;
    return card;
  }

  void hear(const Card& card) {
    if (card.ok == 0) give_up(Cause::kUnsupported, fmt::format("the peer says: {}", card.reason));
    agreed_.peer_process = static_cast<std::int64_t>(peer_process_ != 0 ? peer_process_ : card.process);
    if (channel_.connecting) {
      Card last = mine();
      last.can_fetch = may_fetch_ && can_read(card) ? 1 : 0;
      agreed_.fetch = last.can_fetch != 0 && card.can_fetch != 0;
      say(last);
      file_ = Descriptor();  // the mappings keep it
      done_ = true;
      return;
    }
    if (peer_process_ != 0) {
      agreed_.fetch = can_fetch_ && card.can_fetch != 0;
      done_ = true;
      return;
    }
    Card answer = mine();
    try {
      if (card.segment_bytes != sizeof(Segment))
        give_up(Cause::kUnsupported, "the peer's segment has another layout");
      agreed_.mapping =
          Mapping::open(static_cast<std::int64_t>(card.process), static_cast<int>(card.descriptor));
      if (agreed_.mapping->token != card.token)
        give_up(Cause::kUnsupported, "that is another process's segment");
    } catch (const Error& error) {
      answer.ok = 0;
      answer.reason = error.what();
      say(answer);
      writer_.write(socket());
      throw;
    }
    peer_process_ = card.process;
    can_fetch_ = may_fetch_ && can_read(card);
    answer.can_fetch = can_fetch_ ? 1 : 0;
    say(answer);
  }

  bootstrap::ControlChannel channel_;
  Agreed agreed_;
  std::string description_;
  Descriptor file_;
  std::uint64_t value_ = 0;
  std::uint64_t peer_process_ = 0;  // accepting end: once heard
  bool may_fetch_, can_fetch_ = false, done_ = false;
  bootstrap::MessageReader reader_;
  bootstrap::MessageWriter writer_;
};

}  // namespace

std::unique_ptr<Connecting> ShmBackend::set_up(bootstrap::ControlChannel channel) {
  return std::make_unique<Establishing>(std::move(channel), fetch_);
}

}  // namespace tombolo::transport::shm
