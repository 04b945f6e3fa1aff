// Tombolo's collective engine for C++17 and later: the C interface (tombolo.h, which states the rules) with
// objects that clean up and exceptions that explain. Header-only; link libtombolo.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

#include "tombolo/tombolo.h"

namespace tombolo::api {

class Error : public std::runtime_error {
 public:
  Error(tomboloResult_t result, const std::string& text) : std::runtime_error(text), result_(result) {}
  tomboloResult_t result() const noexcept { return result_; }

 private:
  tomboloResult_t result_;
};

/// Throws Error, with the words of tomboloGetLastError.
inline void check(tomboloResult_t result) {
  if (result != tomboloSuccess) {
    throw Error(result, std::string(tomboloGetErrorString(result)) + ": " + tomboloGetLastError(nullptr));
  }
}

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

/// Owns a communicator. Moves, does not copy. One thread at a time, but for abort().
class Communicator {
 public:
  Communicator() = default;
  static Communicator from_environment() {
    Communicator made;
    check(tomboloCommInitFromEnvironment(&made.handle_));
    return made;
  }
  Communicator(int ranks, const tomboloUniqueId& id, int rank) {
    check(tomboloCommInitRank(&handle_, ranks, id, rank));
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
  /// Empty (false) for a color below 0.
  Communicator split(int color, int key) const {
    Communicator made;
    check(tomboloCommSplit(handle_, color, key, &made.handle_));
    return made;
  }
  void abort() const { check(tomboloCommAbort(handle_)); }

  template <typename T>
  void all_reduce(const T* send, T* receive, std::size_t count, tomboloRedOp_t op = tomboloSum) const {
    all_reduce(send, receive, count, DataTypeOf<T>::value, op);
  }
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
  void all_to_all(const void* send, void* receive, std::size_t count, tomboloDataType_t type) const {
    check(tomboloAllToAll(send, receive, count, type, handle_));
  }
  void barrier() const { check(tomboloBarrier(handle_)); }
  void send(const void* data, std::size_t count, tomboloDataType_t type, int peer) const {
    check(tomboloSend(data, count, type, peer, handle_));
  }
  void receive(void* data, std::size_t count, tomboloDataType_t type, int peer) const {
    check(tomboloRecv(data, count, type, peer, handle_));
  }

 private:
  tomboloComm_t handle_ = nullptr;
};

inline tomboloUniqueId make_unique_id() {
  tomboloUniqueId id;
  check(tomboloGetUniqueId(&id));
  return id;
}

/// Calls `body` between GroupStart and GroupEnd.
template <typename Body>
void group(Body&& body) {
  check(tomboloGroupStart());
  try {
    body();
  } catch (...) {
    tomboloGroupEnd();
    throw;
  }
  check(tomboloGroupEnd());
}

}  // namespace tombolo::api
