// The records of one TLS session between the session and its socket: what is to be written, and what was
// read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

struct bio_st;

namespace tombolo::transport::sockets {

/// OpenSSL puts whole records here and takes them from here (put() and get() are a BIO's functions); the
/// socket is written by flush() only, and read where get() finds nothing left. Used by one thread at a time.
/// Does not own the socket.
class SealedBytes {
 public:
  // Payload bytes per record, as TLS allows at most, and what a record adds to them at most.
  static constexpr std::size_t kRecord = 16 * 1024, kOverhead = 256;
  // A call writes as many records as a plain stream's write carries at once.
  static constexpr std::size_t kOut = 16 * (kRecord + kOverhead), kIn = 256 * 1024;
  /// So much of a peer that has proved nothing yet is read by one call.
  static constexpr std::size_t kHandshakeIn = 16 * 1024;

  explicit SealedBytes(int socket);
  SealedBytes(const SealedBytes&) = delete;
  SealedBytes& operator=(const SealedBytes&) = delete;

  /// Of a BIO whose data is a SealedBytes.
  static int put(bio_st* bio, const char* data, int size);
  static int get(bio_st* bio, char* data, int size);
  static long control(bio_st* bio, int command, long number, void* pointer);

  /// How much a call reads of the socket at most: a handshake's peer has proved nothing yet.
  enum class Reads : std::uint8_t { kNothing, kHandshake, kMuch };
  /// A call begins in which get() may read the socket, until that is found empty.
  void begin_call(Reads reads) noexcept {
    may_receive_ = reads != Reads::kNothing;
    most_received_ = reads == Reads::kMuch ? kIn : kHandshakeIn;
  }

  /// Writes what is pending. Returns 0 once nothing is; else -1 with errno, which may be EAGAIN.
  int flush() noexcept;
  bool pending() const noexcept { return out_begin_ != out_end_; }
  std::span<const std::byte> unwritten() const noexcept {
    return {out_.get() + out_begin_, out_end_ - out_begin_};
  }
  /// Whether another record fits, behind a key update that may precede it.
  bool has_room() const noexcept { return kOut - out_end_ >= kRecord + 2 * kOverhead; }
  /// The last bytes follow, for which there is room whatever is pending.
  void use_reserve() noexcept { out_limit_ = kOut + kReserve; }
  /// Counts of bytes for the socket: made so far, and written.
  std::uint64_t produced() const noexcept { return written_ + (out_end_ - out_begin_); }
  std::uint64_t written() const noexcept { return written_; }

  /// Whether the socket's end was read.
  bool ended() const noexcept { return ended_; }
  /// errno of the socket; 0 while it works.
  int error() const noexcept { return error_; }
  void set_error(int error_number) noexcept { error_ = error_number; }

 private:
  // Room that only the last bytes use, so that a goodbye follows whatever is pending.
  static constexpr std::size_t kReserve = 1024;

  int socket_;
  std::unique_ptr<std::byte[]> out_, in_;
  std::size_t out_begin_ = 0, out_end_ = 0, in_begin_ = 0, in_end_ = 0;
  std::size_t out_limit_ = kOut, most_received_ = kIn;
  std::uint64_t written_ = 0;
  bool may_receive_ = true;  // the socket was not found empty in this call
  bool ended_ = false;
  int error_ = 0;
};

}  // namespace tombolo::transport::sockets
