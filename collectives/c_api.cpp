// The C interface. Nothing throws past here.
#include <cstring>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include "base/error.h"
#include "collectives/engine/communicator.h"
#include "collectives/rendezvous/unique_id.h"
#include "tombolo/tombolo.h"

namespace collectives = tombolo::collectives;
using collectives::Collective;
using tombolo::Cause;

struct tomboloComm {
  std::shared_ptr<collectives::StoreServer> server;  // where this process made the unique id
  std::unique_ptr<collectives::Communicator> communicator;
  std::string last_algorithm;
};

namespace {

thread_local std::string last_error;

tomboloResult_t result_of(Cause cause) noexcept {
  switch (cause) {
    case Cause::kSystem:
      return tomboloSystemError;
    case Cause::kRemote:
      return tomboloRemoteError;
    case Cause::kTimeout:
      return tomboloTimeout;
    case Cause::kAborted:
      return tomboloAborted;
    case Cause::kInvalidUsage:
      return tomboloInvalidUsage;
    case Cause::kUnsupported:
      return tomboloUnsupported;
    case Cause::kInternal:
      break;
  }
  return tomboloInternalError;
}

tomboloResult_t report(tomboloResult_t result, const char* text) noexcept {
  try {
    last_error = text;
  } catch (...) {
    last_error.clear();
  }
  return result;
}

template <typename Body>
tomboloResult_t guarded(Body&& body) noexcept {
  try {
    return body();
  } catch (const tombolo::Error& error) {
    return report(result_of(error.cause()), error.what());
  } catch (const std::bad_alloc&) {
    return report(tomboloSystemError, "out of memory");
  } catch (const std::exception& error) {
    return report(tomboloInternalError, error.what());
  }
}

bool valid(tomboloDataType_t type) noexcept {
  return type >= tomboloInt8 && type < tomboloNumTypes;
}
bool valid(tomboloRedOp_t op) noexcept {
  return op >= tomboloSum && op < tomboloNumOps;
}
static_assert(static_cast<int>(collectives::DataType::kFloat64) == tomboloFloat64);
static_assert(static_cast<int>(collectives::ReduceOp::kAverage) == tomboloAvg);
collectives::DataType type_of(tomboloDataType_t type) noexcept {
  return static_cast<collectives::DataType>(type);
}
collectives::ReduceOp op_of(tomboloRedOp_t op) noexcept {
  return static_cast<collectives::ReduceOp>(op);
}

// ---- groups

struct Group {
  int depth = 0;
  struct Message {
    tomboloComm_t comm;
    bool sending;
    void* data;
    std::size_t bytes;
    int peer;
  };
  std::vector<Message> messages;
  std::vector<std::pair<tomboloComm_t, collectives::CollectiveCall>> collectives;
};
thread_local Group group;

/// Fills in type and operator, and makes the call, or in a group checks and notes it.
tomboloResult_t carry_out(tomboloComm_t comm, tomboloDataType_t type, tomboloRedOp_t op,
                          collectives::CollectiveCall call) noexcept {
  return guarded([&] {
    if (comm == nullptr) return report(tomboloInvalidArgument, "the communicator is null");
    if (!valid(type) || !valid(op))
      return report(tomboloInvalidArgument, "data type or operator out of range");
    call.type = type_of(type);
    call.op = op_of(op);
    if (group.depth > 0) {
      comm->communicator->check(call);
      group.collectives.emplace_back(comm, call);
    } else {
      comm->communicator->run(call);
    }
    return tomboloSuccess;
  });
}

tomboloResult_t message(tomboloComm_t comm, bool sending, void* data, std::size_t count,
                        tomboloDataType_t type, int peer) noexcept {
  return guarded([&] {
    if (comm == nullptr) return report(tomboloInvalidArgument, "the communicator is null");
    if (!valid(type)) return report(tomboloInvalidArgument, "data type out of range");
    if (peer < 0 || peer >= comm->communicator->size())
      return report(tomboloInvalidArgument, "peer out of range");
    if (data == nullptr && count > 0) return report(tomboloInvalidArgument, "the buffer is null");
    std::size_t bytes = 0;
    if (__builtin_mul_overflow(count, collectives::size_of(type_of(type)), &bytes)) {
      return report(tomboloInvalidArgument, "more elements than memory can hold");
    }
    if (group.depth > 0) {
      group.messages.push_back({comm, sending, data, bytes, peer});
    } else if (sending) {
      comm->communicator->send(data, bytes, peer);
    } else {
      comm->communicator->receive(data, bytes, peer);
    }
    return tomboloSuccess;
  });
}

// ---- unique ids

static_assert(sizeof(tomboloUniqueId) == sizeof(collectives::UniqueId));

std::unique_ptr<tomboloComm> init(int ranks, const tomboloUniqueId& given, int rank) {
  collectives::UniqueId id;
  std::memcpy(id.data(), given.internal, id.size());
  const auto options = collectives::options_from(id, rank, ranks);
  auto comm = std::make_unique<tomboloComm>();
  comm->server = collectives::find_store(id);
  comm->communicator = collectives::Communicator::create(options);
  return comm;
}

}  // namespace

tomboloResult_t tomboloGetVersion(int* version) {
  if (version == nullptr) return report(tomboloInvalidArgument, "version is null");
  *version = TOMBOLO_VERSION_NUMBER;
  return tomboloSuccess;
}

const char* tomboloGetErrorString(tomboloResult_t result) {
  switch (result) {
    case tomboloSuccess:
      return "success";
    case tomboloSystemError:
      return "system error";
    case tomboloInternalError:
      return "internal error";
    case tomboloInvalidArgument:
      return "invalid argument";
    case tomboloInvalidUsage:
      return "invalid usage";
    case tomboloRemoteError:
      return "remote error";
    case tomboloTimeout:
      return "timeout";
    case tomboloAborted:
      return "aborted";
    case tomboloUnsupported:
      return "unsupported";
  }
  return "unknown result code";
}

const char* tomboloGetLastError(tomboloComm_t) {
  return last_error.c_str();
}

size_t tomboloTypeSize(tomboloDataType_t type) {
  return valid(type) ? collectives::size_of(type_of(type)) : 0;
}

tomboloResult_t tomboloGetUniqueId(tomboloUniqueId* id) {
  return guarded([&] {
    if (id == nullptr) return report(tomboloInvalidArgument, "id is null");
    const auto made = collectives::make_unique_id();
    std::memcpy(id->internal, made.data(), made.size());
    return tomboloSuccess;
  });
}

tomboloResult_t tomboloCommInitRank(tomboloComm_t* comm, int nranks, tomboloUniqueId id, int rank) {
  return guarded([&] {
    if (comm == nullptr) return report(tomboloInvalidArgument, "comm is null");
    *comm = nullptr;
    if (nranks < 1 || rank < 0 || rank >= nranks) return report(tomboloInvalidArgument, "rank out of range");
    *comm = init(nranks, id, rank).release();
    return tomboloSuccess;
  });
}

tomboloResult_t tomboloCommInitFromEnvironment(tomboloComm_t* comm) {
  return guarded([&] {
    if (comm == nullptr) return report(tomboloInvalidArgument, "comm is null");
    *comm = nullptr;
    auto made = std::make_unique<tomboloComm>();
    made->communicator = collectives::Communicator::create(collectives::Options::from_environment());
    *comm = made.release();
    return tomboloSuccess;
  });
}

tomboloResult_t tomboloCommSplit(tomboloComm_t comm, int color, int key, tomboloComm_t* newcomm) {
  return guarded([&] {
    if (comm == nullptr || newcomm == nullptr)
      return report(tomboloInvalidArgument, "comm or newcomm is null");
    *newcomm = nullptr;
    auto made = std::make_unique<tomboloComm>();
    made->server = comm->server;
    made->communicator = comm->communicator->split(color, key);
    if (made->communicator) *newcomm = made.release();
    return tomboloSuccess;
  });
}

tomboloResult_t tomboloCommDestroy(tomboloComm_t comm) {
  return guarded([&] {
    if (comm == nullptr) return tomboloSuccess;
    if (comm->server) collectives::close_store(comm->server);
    comm->communicator.reset();  // before the store that it may still need
    delete comm;
    return tomboloSuccess;
  });
}

tomboloResult_t tomboloCommAbort(tomboloComm_t comm) {
  return guarded([&] {
    if (comm == nullptr) return report(tomboloInvalidArgument, "the communicator is null");
    comm->communicator->abort("tomboloCommAbort was called");
    return tomboloSuccess;
  });
}

tomboloResult_t tomboloCommCount(tomboloComm_t comm, int* count) {
  if (comm == nullptr || count == nullptr) return report(tomboloInvalidArgument, "comm or count is null");
  *count = comm->communicator->size();
  return tomboloSuccess;
}

tomboloResult_t tomboloCommUserRank(tomboloComm_t comm, int* rank) {
  if (comm == nullptr || rank == nullptr) return report(tomboloInvalidArgument, "comm or rank is null");
  *rank = comm->communicator->rank();
  return tomboloSuccess;
}

tomboloResult_t tomboloCommLastAlgorithm(tomboloComm_t comm, const char** name) {
  return guarded([&] {
    if (comm == nullptr || name == nullptr) return report(tomboloInvalidArgument, "comm or name is null");
    comm->last_algorithm = comm->communicator->last_algorithm();
    *name = comm->last_algorithm.c_str();
    return tomboloSuccess;
  });
}

tomboloResult_t tomboloAllReduce(const void* sendbuff, void* recvbuff, size_t count,
                                 tomboloDataType_t datatype, tomboloRedOp_t op, tomboloComm_t comm) {
  return carry_out(comm, datatype, op, {Collective::kAllReduce, sendbuff, recvbuff, count});
}

tomboloResult_t tomboloReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                                     tomboloDataType_t datatype, tomboloRedOp_t op, tomboloComm_t comm) {
  return carry_out(comm, datatype, op, {Collective::kReduceScatter, sendbuff, recvbuff, recvcount});
}

tomboloResult_t tomboloAllGather(const void* sendbuff, void* recvbuff, size_t sendcount,
                                 tomboloDataType_t datatype, tomboloComm_t comm) {
  return carry_out(comm, datatype, tomboloSum, {Collective::kAllGather, sendbuff, recvbuff, sendcount});
}

tomboloResult_t tomboloBroadcast(const void* sendbuff, void* recvbuff, size_t count,
                                 tomboloDataType_t datatype, int root, tomboloComm_t comm) {
  return carry_out(comm, datatype, tomboloSum,
                   {Collective::kBroadcast, sendbuff, recvbuff, count, {}, {}, root});
}

tomboloResult_t tomboloReduce(const void* sendbuff, void* recvbuff, size_t count, tomboloDataType_t datatype,
                              tomboloRedOp_t op, int root, tomboloComm_t comm) {
  return carry_out(comm, datatype, op, {Collective::kReduce, sendbuff, recvbuff, count, {}, {}, root});
}

tomboloResult_t tomboloAllToAll(const void* sendbuff, void* recvbuff, size_t count,
                                tomboloDataType_t datatype, tomboloComm_t comm) {
  return carry_out(comm, datatype, tomboloSum, {Collective::kAllToAll, sendbuff, recvbuff, count});
}

tomboloResult_t tomboloBarrier(tomboloComm_t comm) {
  return carry_out(comm, tomboloInt8, tomboloSum, {Collective::kBarrier});
}

tomboloResult_t tomboloSend(const void* sendbuff, size_t count, tomboloDataType_t datatype, int peer,
                            tomboloComm_t comm) {
  return message(comm, true, const_cast<void*>(sendbuff), count, datatype, peer);
}

tomboloResult_t tomboloRecv(void* recvbuff, size_t count, tomboloDataType_t datatype, int peer,
                            tomboloComm_t comm) {
  return message(comm, false, recvbuff, count, datatype, peer);
}

tomboloResult_t tomboloGroupStart() {
  ++group.depth;
  return tomboloSuccess;
}

tomboloResult_t tomboloGroupEnd() {
  if (group.depth == 0) return report(tomboloInvalidUsage, "tomboloGroupEnd without tomboloGroupStart");
  if (--group.depth > 0) return tomboloSuccess;
  return guarded([] {
    const auto messages = std::exchange(group.messages, {});
    const auto later = std::exchange(group.collectives, {});
    std::vector<std::pair<collectives::Communicator*, collectives::Work>> works;
    works.reserve(messages.size());
    // Whatever fails, all that was started ends before the caller has its buffers back. (What a communicator
    // that has failed had started ended with its connections.)
    std::exception_ptr first;
    const auto attempt = [&](auto&& action) {
      try {
        action();
      } catch (...) {
        if (!first) first = std::current_exception();
      }
    };
    for (const auto& one : messages) {
      attempt([&] {
        auto& communicator = *one.comm->communicator;
        works.emplace_back(&communicator, one.sending
                                              ? communicator.start_send(one.data, one.bytes, one.peer)
                                              : communicator.start_receive(one.data, one.bytes, one.peer));
      });
    }
    for (const auto& one : later) attempt([&] { one.first->communicator->run(one.second); });
    for (const auto& one : works) attempt([&] { one.first->wait(one.second); });
    if (first) std::rethrow_exception(first);
    return tomboloSuccess;
  });
}
