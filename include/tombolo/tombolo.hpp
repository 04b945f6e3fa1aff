/// @file tombolo.hpp
/// Tombolo's collective engine for C++20: the C interface (tombolo.h, which states the rules) with objects
/// that clean up, exceptions that explain, and buffers that know their type and length. Header-only; link
/// libtombolo.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <ranges>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "tombolo/tombolo.h"

namespace tombolo::api {

/// The exception that a failed call throws.
class Error : public std::runtime_error {
 public:
  Error(tomboloResult_t result, const std::string& text) : std::runtime_error(text), result_(result) {}
  tomboloResult_t result() const noexcept { return result_; }

 private:
  tomboloResult_t result_;
};

/// Throws Error, with the text of tomboloGetLastError.
inline void check(tomboloResult_t result) {
  if (result != tomboloSuccess) {
    throw Error(result, std::string(tomboloGetErrorString(result)) + ": " + tomboloGetLastError(nullptr));
  }
}

/// The data type of a C++ arithmetic type. Specialise it for a type of your own with the same bytes as one of
/// tomboloDataType_t's.
template <typename T>
struct DataTypeOf;
template <>
struct DataTypeOf<float> {
  static constexpr tomboloDataType_t value = tomboloFloat32;
};
template <>
struct DataTypeOf<double> {
  static constexpr tomboloDataType_t value = tomboloFloat64;
};
template <>
struct DataTypeOf<std::int8_t> {
  static constexpr tomboloDataType_t value = tomboloInt8;
};
template <>
struct DataTypeOf<std::uint8_t> {
  static constexpr tomboloDataType_t value = tomboloUint8;
};
template <>
struct DataTypeOf<std::int16_t> {
  static constexpr tomboloDataType_t value = tomboloInt16;
};
template <>
struct DataTypeOf<std::uint16_t> {
  static constexpr tomboloDataType_t value = tomboloUint16;
};
template <>
struct DataTypeOf<std::int32_t> {
  static constexpr tomboloDataType_t value = tomboloInt32;
};
template <>
struct DataTypeOf<std::uint32_t> {
  static constexpr tomboloDataType_t value = tomboloUint32;
};
template <>
struct DataTypeOf<std::int64_t> {
  static constexpr tomboloDataType_t value = tomboloInt64;
};
template <>
struct DataTypeOf<std::uint64_t> {
  static constexpr tomboloDataType_t value = tomboloUint64;
};

/// A std::span, or what one is made from (a vector, an array), of elements that have a DataTypeOf.
template <typename Range>
concept Buffer = std::ranges::contiguous_range<Range> && std::ranges::sized_range<Range> && requires {
  { DataTypeOf<std::ranges::range_value_t<Range>>::value } -> std::convertible_to<tomboloDataType_t>;
};
/// A Buffer that may be written to.
template <typename Range>
concept MutableBuffer =
    Buffer<Range> && !std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<Range>>>;
/// Two Buffers of the same type of element.
template <typename Left, typename Right>
concept SameElements = std::same_as<std::ranges::range_value_t<Left>, std::ranges::range_value_t<Right>>;

/// The settings of a communicator. Each takes its value from the environment unless it is set here.
inline tomboloConfig_t default_config() {
  return TOMBOLO_CONFIG_INITIALIZER;
}

/// A call that was started. It can be moved but not copied. Where it is destroyed without having been
/// redeemed by wait(), or by a test() that returned true, it waits, since the call uses its buffers until
/// then.
class [[nodiscard]] Work {
 public:
  /// Stands for nothing until another work is moved here.
  Work() = default;
  explicit Work(tomboloWork_t handle) noexcept : handle_(handle) {}
  ~Work() { end(); }
  Work(Work&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Work& operator=(Work&& other) noexcept {
    if (this != &other) {
      end();
      handle_ = std::exchange(other.handle_, nullptr);
    }
    return *this;
  }

  tomboloWork_t get() const noexcept { return handle_; }
  /// Whether it stands for a call that was not redeemed.
  explicit operator bool() const noexcept { return handle_ != nullptr; }
  /// Blocks until the call is done, by tomboloWorkWait.
  void wait() { check(tomboloWorkWait(std::exchange(handle_, nullptr))); }
  /// Whether the call is done, by tomboloWorkTest.
  bool test() {
    int done = 0;
    const tomboloResult_t result = tomboloWorkTest(handle_, &done);
    if (done == 1 || result != tomboloSuccess) handle_ = nullptr;
    check(result);
    return done == 1;
  }
  /// By tomboloWorkSetCallback.
  void set_callback(void (*callback)(tomboloResult_t result, void* argument), void* argument) const {
    check(tomboloWorkSetCallback(handle_, callback, argument));
  }

 private:
  void end() noexcept {
    if (handle_ != nullptr) tomboloWorkWait(handle_);
  }

  tomboloWork_t handle_ = nullptr;
};

/// Owns a communicator. It can be moved but not copied. Used by one thread at a time, except for abort() and
/// async_error().
///
/// The functions that take buffers throw Error (tomboloInvalidArgument) where the lengths of two buffers do
/// not fit together. On the other ranks than the root, the buffer that only the root uses may have any
/// length.
class Communicator {
 public:
  /// Owns nothing until another communicator is moved here.
  Communicator() = default;
  /// Makes a communicator by tomboloCommInitFromEnvironment.
  static Communicator from_environment() {
    Communicator made;
    check(tomboloCommInitFromEnvironment(&made.handle_));
    return made;
  }
  /// Makes a communicator by tomboloCommInitRank.
  Communicator(int ranks, const tomboloUniqueId& id, int rank) {
    check(tomboloCommInitRank(&handle_, ranks, id, rank));
  }
  /// Makes a communicator by tomboloCommInitRankConfig.
  Communicator(int ranks, const tomboloUniqueId& id, int rank, const tomboloConfig_t& config) {
    check(tomboloCommInitRankConfig(&handle_, ranks, id, rank, &config));
  }
  ~Communicator() { tomboloCommDestroy(handle_); }
  Communicator(Communicator&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Communicator& operator=(Communicator&& other) noexcept {
    if (this != &other) {
      tomboloCommDestroy(handle_);
      handle_ = std::exchange(other.handle_, nullptr);
    }
    return *this;
  }

  tomboloComm_t get() const noexcept { return handle_; }
  explicit operator bool() const noexcept { return handle_ != nullptr; }

  int rank() const {
    int value = 0;
    check(tomboloCommUserRank(handle_, &value));
    return value;
  }
  int size() const {
    int value = 0;
    check(tomboloCommCount(handle_, &value));
    return value;
  }
  std::string last_algorithm() const {
    const char* name = nullptr;
    check(tomboloCommLastAlgorithm(handle_, &name));
    return name;
  }
  /// tomboloCommExplain's JSON.
  std::string explain() const {
    const char* json = nullptr;
    check(tomboloCommExplain(handle_, &json));
    return json;
  }
  /// tomboloCommSetTuning; empty: no table.
  void set_tuning(const std::string& table) const { check(tomboloCommSetTuning(handle_, table.c_str())); }
  /// tomboloCommSetStream: a cudaStream_t or CUstream, for calls on GPU memory.
  void set_stream(void* stream) const { check(tomboloCommSetStream(handle_, stream)); }
  /// tomboloCommSetDeadline, in seconds.
  void set_deadline(double seconds) const { check(tomboloCommSetDeadline(handle_, seconds)); }
  tomboloResult_t async_error() const {
    tomboloResult_t result = tomboloSuccess;
    check(tomboloCommGetAsyncError(handle_, &result));
    return result;
  }
  /// Makes a communicator by tomboloCommSplit; empty (false) for a color below 0.
  Communicator split(int color, int key) const {
    Communicator made;
    check(tomboloCommSplit(handle_, color, key, &made.handle_));
    return made;
  }
  /// Makes a communicator by tomboloCommShrink: without `excluded`, of the ranks that come, after a failure.
  Communicator shrink(std::span<const int> excluded = {}, int flags = TOMBOLO_SHRINK_ABORT) const {
    Communicator made;
    check(
        tomboloCommShrink(handle_, excluded.data(), static_cast<int>(excluded.size()), &made.handle_, flags));
    return made;
  }
  /// By tomboloCommGetUniqueId: hand it to the ranks that are to join, and to grow().
  tomboloUniqueId unique_id() const {
    tomboloUniqueId id;
    check(tomboloCommGetUniqueId(handle_, &id));
    return id;
  }
  /// Makes a communicator by tomboloCommGrow on its members, one of which gives the id.
  Communicator grow(int ranks, const tomboloUniqueId* id = nullptr) const {
    Communicator made;
    check(tomboloCommGrow(handle_, ranks, id, -1, &made.handle_, nullptr));
    return made;
  }
  /// Makes a communicator by tomboloCommGrow on a new rank.
  static Communicator join(int ranks, const tomboloUniqueId& id, int rank,
                           const tomboloConfig_t& config = default_config()) {
    Communicator made;
    check(tomboloCommGrow(nullptr, ranks, &id, rank, &made.handle_, &config));
    return made;
  }
  void finalize() const { check(tomboloCommFinalize(handle_)); }
  void abort() const { check(tomboloCommAbort(handle_)); }

  // ---- Collectives on buffers

  template <Buffer Send, MutableBuffer Receive>
  requires SameElements<Send, Receive>
  void all_reduce(const Send& send, Receive&& receive, tomboloRedOp_t op = tomboloSum) const {
    const auto [from, to] = spans(send, receive);
    expect("all_reduce", "send", from.size(), to.size());
    all_reduce(from.data(), to.data(), to.size(), type_of(to), op);
  }
  /// In place.
  template <MutableBuffer Data>
  void all_reduce(Data&& data, tomboloRedOp_t op = tomboloSum) const {
    all_reduce(data, data, op);
  }
  template <typename T>
  void all_reduce(const T* send, T* receive, std::size_t count, tomboloRedOp_t op = tomboloSum) const {
    all_reduce(send, receive, count, DataTypeOf<T>::value, op);
  }
  /// In place, by tomboloAllReduceCompressed; `residual` is empty or as long as `data`.
  void all_reduce_compressed(std::span<float> data, tomboloCompression_t compression,
                             std::span<float> residual = {}, tomboloRedOp_t op = tomboloSum) const {
    if (!residual.empty()) expect("all_reduce_compressed", "residual", residual.size(), data.size());
    check(tomboloAllReduceCompressed(data.data(), data.data(), data.size(), op, compression,
                                     residual.empty() ? nullptr : residual.data(), handle_));
  }
  template <Buffer Send, MutableBuffer Receive>
  requires SameElements<Send, Receive>
  void reduce_scatter(const Send& send, Receive&& receive, tomboloRedOp_t op = tomboloSum) const {
    const auto [from, to] = spans(send, receive);
    expect("reduce_scatter", "send", from.size(), to.size() * ranks());
    reduce_scatter(from.data(), to.data(), to.size(), type_of(to), op);
  }
  template <Buffer Send, MutableBuffer Receive>
  requires SameElements<Send, Receive>
  void all_gather(const Send& send, Receive&& receive) const {
    const auto [from, to] = spans(send, receive);
    expect("all_gather", "receive", to.size(), from.size() * ranks());
    all_gather(from.data(), to.data(), from.size(), type_of(to));
  }
  template <Buffer Send, MutableBuffer Receive>
  requires SameElements<Send, Receive>
  void broadcast(const Send& send, Receive&& receive, int root) const {
    const auto [from, to] = spans(send, receive);
    if (rank() == root) expect("broadcast", "send", from.size(), to.size());
    broadcast(from.data(), to.data(), to.size(), type_of(to), root);
  }
  /// In place.
  template <MutableBuffer Data>
  void broadcast(Data&& data, int root) const {
    broadcast(data, data, root);
  }
  template <Buffer Send, MutableBuffer Receive>
  requires SameElements<Send, Receive>
  void reduce(const Send& send, Receive&& receive, tomboloRedOp_t op, int root) const {
    const auto [from, to] = spans(send, receive);
    if (rank() == root) expect("reduce", "receive", to.size(), from.size());
    reduce(from.data(), to.data(), from.size(), type_of(to), op, root);
  }
  template <Buffer Send, MutableBuffer Receive>
  requires SameElements<Send, Receive>
  void gather(const Send& send, Receive&& receive, int root) const {
    const auto [from, to] = spans(send, receive);
    if (rank() == root) expect("gather", "receive", to.size(), from.size() * ranks());
    gather(from.data(), to.data(), from.size(), type_of(to), root);
  }
  template <Buffer Send, MutableBuffer Receive>
  requires SameElements<Send, Receive>
  void scatter(const Send& send, Receive&& receive, int root) const {
    const auto [from, to] = spans(send, receive);
    if (rank() == root) expect("scatter", "send", from.size(), to.size() * ranks());
    scatter(from.data(), to.data(), to.size(), type_of(to), root);
  }
  template <Buffer Send, MutableBuffer Receive>
  requires SameElements<Send, Receive>
  void all_to_all(const Send& send, Receive&& receive) const {
    const auto [from, to] = spans(send, receive);
    const std::size_t part = from.size() / ranks();
    expect("all_to_all", "send", from.size(), part * ranks());
    expect("all_to_all", "receive", to.size(), from.size());
    all_to_all(from.data(), to.data(), part, type_of(to));
  }
  void barrier() const { check(tomboloBarrier(handle_)); }

  // ---- With parts of unequal size: `counts` and `offsets` by rank, as the C interface's functions whose
  // names end in V take them; without offsets the parts adjoin. On the other ranks than the root of gather_v
  // and scatter_v, what only the root uses may be empty.

  template <Buffer Send, MutableBuffer Receive>
  requires SameElements<Send, Receive>
  void all_gather_v(const Send& send, Receive&& receive, std::span<const std::size_t> counts,
                    std::span<const std::size_t> offsets = {}) const {
    const auto [from, to] = spans(send, receive);
    expect_parts("all_gather_v", "receive", to.size(), counts, offsets);
    check(tomboloAllGatherV(from.data(), from.size(), to.data(), counts.data(), pointer(offsets), type_of(to),
                            handle_));
  }
  template <Buffer Send, MutableBuffer Receive>
  requires SameElements<Send, Receive>
  void reduce_scatter_v(const Send& send, Receive&& receive, std::span<const std::size_t> counts,
                        tomboloRedOp_t op = tomboloSum, std::span<const std::size_t> offsets = {}) const {
    const auto [from, to] = spans(send, receive);
    expect_parts("reduce_scatter_v", "send", from.size(), counts, offsets);
    expect("reduce_scatter_v", "receive", to.size(), counts[static_cast<std::size_t>(rank())]);
    check(tomboloReduceScatterV(from.data(), to.data(), counts.data(), pointer(offsets), type_of(to), op,
                                handle_));
  }
  template <Buffer Send, MutableBuffer Receive>
  requires SameElements<Send, Receive>
  void gather_v(const Send& send, Receive&& receive, std::span<const std::size_t> counts, int root,
                std::span<const std::size_t> offsets = {}) const {
    const auto [from, to] = spans(send, receive);
    if (rank() == root) expect_parts("gather_v", "receive", to.size(), counts, offsets);
    check(tomboloGatherV(from.data(), from.size(), to.data(), counts.data(), pointer(offsets), type_of(to),
                         root, handle_));
  }
  template <Buffer Send, MutableBuffer Receive>
  requires SameElements<Send, Receive>
  void scatter_v(const Send& send, std::span<const std::size_t> counts, Receive&& receive, int root,
                 std::span<const std::size_t> offsets = {}) const {
    const auto [from, to] = spans(send, receive);
    if (rank() == root) expect_parts("scatter_v", "send", from.size(), counts, offsets);
    check(tomboloScatterV(from.data(), counts.data(), pointer(offsets), to.data(), to.size(), type_of(to),
                          root, handle_));
  }
  template <Buffer Send, MutableBuffer Receive>
  requires SameElements<Send, Receive>
  void all_to_all_v(const Send& send, std::span<const std::size_t> send_counts, Receive&& receive,
                    std::span<const std::size_t> receive_counts) const {
    const auto [from, to] = spans(send, receive);
    expect_parts("all_to_all_v", "send", from.size(), send_counts, {});
    expect_parts("all_to_all_v", "receive", to.size(), receive_counts, {});
    check(tomboloAllToAllV(from.data(), send_counts.data(), nullptr, to.data(), receive_counts.data(),
                           nullptr, type_of(to), handle_));
  }

  template <Buffer Data>
  void send(const Data& data, int peer) const {
    const std::span from(data);
    send(from.data(), from.size(), type_of(from), peer);
  }
  template <MutableBuffer Data>
  void receive(Data&& data, int peer) const {
    const std::span to(data);
    receive(to.data(), to.size(), type_of(to), peer);
  }

  // ---- The same, only started: the buffers belong to the work until it is redeemed

  template <Buffer Send, MutableBuffer Receive>
  requires SameElements<Send, Receive> Work all_reduce_async(const Send& send, Receive&& receive,
                                                             tomboloRedOp_t op = tomboloSum)
  const {
    const auto [from, to] = spans(send, receive);
    expect("all_reduce_async", "send", from.size(), to.size());
    return started(tomboloAllReduceAsync, from.data(), to.data(), to.size(), type_of(to), op);
  }
  /// In place.
  template <MutableBuffer Data>
  Work all_reduce_async(Data&& data, tomboloRedOp_t op = tomboloSum) const {
    return all_reduce_async(data, data, op);
  }
  template <Buffer Send, MutableBuffer Receive>
  requires SameElements<Send, Receive> Work reduce_scatter_async(const Send& send, Receive&& receive,
                                                                 tomboloRedOp_t op = tomboloSum)
  const {
    const auto [from, to] = spans(send, receive);
    expect("reduce_scatter_async", "send", from.size(), to.size() * ranks());
    return started(tomboloReduceScatterAsync, from.data(), to.data(), to.size(), type_of(to), op);
  }
  template <Buffer Send, MutableBuffer Receive>
  requires SameElements<Send, Receive> Work all_gather_async(const Send& send, Receive&& receive)
  const {
    const auto [from, to] = spans(send, receive);
    expect("all_gather_async", "receive", to.size(), from.size() * ranks());
    return started(tomboloAllGatherAsync, from.data(), to.data(), from.size(), type_of(to));
  }
  template <Buffer Send, MutableBuffer Receive>
  requires SameElements<Send, Receive> Work broadcast_async(const Send& send, Receive&& receive, int root)
  const {
    const auto [from, to] = spans(send, receive);
    if (rank() == root) expect("broadcast_async", "send", from.size(), to.size());
    return started(tomboloBroadcastAsync, from.data(), to.data(), to.size(), type_of(to), root);
  }
  template <Buffer Send, MutableBuffer Receive>
  requires SameElements<Send, Receive> Work reduce_async(const Send& send, Receive&& receive,
                                                         tomboloRedOp_t op, int root)
  const {
    const auto [from, to] = spans(send, receive);
    if (rank() == root) expect("reduce_async", "receive", to.size(), from.size());
    return started(tomboloReduceAsync, from.data(), to.data(), from.size(), type_of(to), op, root);
  }
  template <Buffer Send, MutableBuffer Receive>
  requires SameElements<Send, Receive> Work gather_async(const Send& send, Receive&& receive, int root)
  const {
    const auto [from, to] = spans(send, receive);
    if (rank() == root) expect("gather_async", "receive", to.size(), from.size() * ranks());
    return started(tomboloGatherAsync, from.data(), to.data(), from.size(), type_of(to), root);
  }
  template <Buffer Send, MutableBuffer Receive>
  requires SameElements<Send, Receive> Work scatter_async(const Send& send, Receive&& receive, int root)
  const {
    const auto [from, to] = spans(send, receive);
    if (rank() == root) expect("scatter_async", "send", from.size(), to.size() * ranks());
    return started(tomboloScatterAsync, from.data(), to.data(), to.size(), type_of(to), root);
  }
  template <Buffer Send, MutableBuffer Receive>
  requires SameElements<Send, Receive> Work all_to_all_async(const Send& send, Receive&& receive)
  const {
    const auto [from, to] = spans(send, receive);
    const std::size_t part = from.size() / ranks();
    expect("all_to_all_async", "send", from.size(), part * ranks());
    expect("all_to_all_async", "receive", to.size(), from.size());
    return started(tomboloAllToAllAsync, from.data(), to.data(), part, type_of(to));
  }
  Work barrier_async() const { return started(tomboloBarrierAsync); }
  template <Buffer Data>
  Work send_async(const Data& data, int peer) const {
    const std::span from(data);
    return started(tomboloSendAsync, from.data(), from.size(), type_of(from), peer);
  }
  template <MutableBuffer Data>
  Work receive_async(Data&& data, int peer) const {
    const std::span to(data);
    return started(tomboloRecvAsync, to.data(), to.size(), type_of(to), peer);
  }
  /// Makes what progress is possible without blocking, by tomboloCommProgress.
  void progress() const { check(tomboloCommProgress(handle_)); }

  // ---- Blocking, on untyped memory, with counts as in the C interface

  void all_reduce(const void* send, void* receive, std::size_t count, tomboloDataType_t type,
                  tomboloRedOp_t op) const {
    check(tomboloAllReduce(send, receive, count, type, op, handle_));
  }
  void reduce_scatter(const void* send, void* receive, std::size_t count, tomboloDataType_t type,
                      tomboloRedOp_t op) const {
    check(tomboloReduceScatter(send, receive, count, type, op, handle_));
  }
  void all_gather(const void* send, void* receive, std::size_t count, tomboloDataType_t type) const {
    check(tomboloAllGather(send, receive, count, type, handle_));
  }
  void broadcast(const void* send, void* receive, std::size_t count, tomboloDataType_t type, int root) const {
    check(tomboloBroadcast(send, receive, count, type, root, handle_));
  }
  void reduce(const void* send, void* receive, std::size_t count, tomboloDataType_t type, tomboloRedOp_t op,
              int root) const {
    check(tomboloReduce(send, receive, count, type, op, root, handle_));
  }
  void gather(const void* send, void* receive, std::size_t count, tomboloDataType_t type, int root) const {
    check(tomboloGather(send, receive, count, type, root, handle_));
  }
  void scatter(const void* send, void* receive, std::size_t count, tomboloDataType_t type, int root) const {
    check(tomboloScatter(send, receive, count, type, root, handle_));
  }
  void all_to_all(const void* send, void* receive, std::size_t count, tomboloDataType_t type) const {
    check(tomboloAllToAll(send, receive, count, type, handle_));
  }
  void send(const void* data, std::size_t count, tomboloDataType_t type, int peer) const {
    check(tomboloSend(data, count, type, peer, handle_));
  }
  void receive(void* data, std::size_t count, tomboloDataType_t type, int peer) const {
    check(tomboloRecv(data, count, type, peer, handle_));
  }

 private:
  template <typename Send, typename Receive>
  static auto spans(const Send& send, Receive& receive) {
    using Element = std::ranges::range_value_t<Send>;
    return std::pair(std::span<const Element>(send), std::span<Element>(receive));
  }
  template <typename T, std::size_t kExtent>
  static constexpr tomboloDataType_t type_of(std::span<T, kExtent>) noexcept {
    return DataTypeOf<std::remove_cv_t<T>>::value;
  }
  template <typename Function, typename... Arguments>
  Work started(Function function, Arguments... arguments) const {
    tomboloWork_t work = nullptr;
    check(function(arguments..., handle_, &work));
    return Work(work);
  }
  std::size_t ranks() const { return static_cast<std::size_t>(size()); }
  static const std::size_t* pointer(std::span<const std::size_t> offsets) noexcept {
    return offsets.empty() ? nullptr : offsets.data();
  }
  /// Throws where a buffer of so many elements does not hold all parts.
  void expect_parts(const char* function, const char* buffer, std::size_t found,
                    std::span<const std::size_t> counts, std::span<const std::size_t> offsets) const {
    expect(function, "counts'", counts.size(), ranks());
    if (!offsets.empty()) expect(function, "offsets'", offsets.size(), ranks());
    std::size_t extent = 0, next = 0;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      const std::size_t end = (offsets.empty() ? next : offsets[i]) + counts[i];
      next = end;
      if (counts[i] > 0 && end > extent) extent = end;
    }
    if (found < extent) expect(function, buffer, found, extent);
  }
  static void expect(const char* function, const char* buffer, std::size_t found, std::size_t expected) {
    if (found == expected) return;
    throw Error(tomboloInvalidArgument, std::string("invalid argument: ") + function + ": the " + buffer +
                                            " buffer has " + std::to_string(found) + " elements, expected " +
                                            std::to_string(expected));
  }

  tomboloComm_t handle_ = nullptr;
};

/// Owns an operator that multiplies the caller's elements by a factor and sums, by
/// tomboloRedOpCreatePreMulSum; usable wherever an operator is. It may outlive its communicator, but not
/// serve another one.
class PreMulSum {
 public:
  template <typename T>
  PreMulSum(T factor, const Communicator& communicator)
      : PreMulSum(&factor, DataTypeOf<T>::value, communicator) {}
  PreMulSum(const void* factor, tomboloDataType_t type, const Communicator& communicator)
      : communicator_(communicator.get()) {
    check(tomboloRedOpCreatePreMulSum(&op_, factor, type, communicator_));
  }
  ~PreMulSum() { tomboloRedOpDestroy(op_, communicator_); }
  PreMulSum(const PreMulSum&) = delete;
  PreMulSum& operator=(const PreMulSum&) = delete;

  operator tomboloRedOp_t() const noexcept { return op_; }

 private:
  tomboloComm_t communicator_ = nullptr;
  tomboloRedOp_t op_ = tomboloSum;
};

/// Starts a store and returns its id, by tomboloGetUniqueId.
inline tomboloUniqueId make_unique_id() {
  tomboloUniqueId id;
  check(tomboloGetUniqueId(&id));
  return id;
}

/// An open group. If it is destroyed without end(), as by an exception, what was recorded since it was made
/// is forgotten.
class Group {
 public:
  Group() { check(tomboloGroupStart()); }
  ~Group() {
    if (open_) tomboloGroupDiscard();
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  /// Closes the group by tomboloGroupEnd, which carries out what was recorded.
  void end() {
    open_ = false;
    check(tomboloGroupEnd());
  }

 private:
  bool open_ = true;
};

/// Calls `body` in a group. If it throws, nothing that it recorded is carried out.
template <typename Body>
void group(Body&& body) {
  Group group;
  std::forward<Body>(body)();
  group.end();
}

}  // namespace tombolo::api
