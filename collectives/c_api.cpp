// The C interface. Nothing throws past here.
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "collectives/engine/communicator.h"
#include "collectives/rendezvous/unique_id.h"
#include "tombolo/tombolo.h"

namespace collectives = tombolo::collectives;
using collectives::Collective;
using tombolo::Cause;
using tombolo::fail;

static_assert(TOMBOLO_VERSION_CODE == TOMBOLO_VERSION_NUMBER,
              "tombolo.h and CMakeLists.txt name different versions");

namespace {

/// What a handle stands for.
struct Member {
  std::shared_ptr<collectives::StoreServer> server;  // where this process made the unique id
  std::unique_ptr<collectives::Communicator> communicator;
  std::string last_algorithm;
};

/// The live handles of this process. Handles are numbers that are never used twice, so that one that was
/// destroyed is recognised and never followed.
class Handles {
 public:
  tomboloComm_t add(std::shared_ptr<Member> member) {
    const std::lock_guard lock(mutex_);
    const auto handle = reinterpret_cast<tomboloComm_t>(++last_);
    members_.emplace(handle, std::move(member));
    return handle;
  }
  /// Null where the handle is none, or was destroyed.
  std::shared_ptr<Member> find(tomboloComm_t handle) const {
    const std::lock_guard lock(mutex_);
    const auto found = members_.find(handle);
    return found == members_.end() ? nullptr : found->second;
  }
  std::shared_ptr<Member> remove(tomboloComm_t handle) {
    const std::lock_guard lock(mutex_);
    const auto node = members_.extract(handle);
    return node.empty() ? nullptr : std::move(node.mapped());
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<tomboloComm_t, std::shared_ptr<Member>> members_;
  std::uintptr_t last_ = 0;
};

/// Never destroyed: other objects of static lifetime may still use their communicators.
Handles& handles() {
  static auto* all = new Handles;
  return *all;
}

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

/// Thrown for tomboloInvalidArgument, which the engine has no cause for.
struct InvalidArgument {
  std::string text;
};
template <typename... Arguments>
[[noreturn]] void refuse(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  throw InvalidArgument{fmt::format(format, std::forward<Arguments>(arguments)...)};
}

template <typename Body>
tomboloResult_t guarded(Body&& body) noexcept {
  try {
    body();
    return tomboloSuccess;
  } catch (const InvalidArgument& error) {
    return report(tomboloInvalidArgument, error.text.c_str());
  } catch (const tombolo::Error& error) {
    return report(result_of(error.cause()), error.what());
  } catch (const std::bad_alloc&) {
    return report(tomboloSystemError, "out of memory");
  } catch (const std::exception& error) {
    return report(tomboloInternalError, error.what());
  }
}

/// Throws where there is no such communicator.
std::shared_ptr<Member> member_of(tomboloComm_t comm, const char* function) {
  if (comm == nullptr) refuse("{}: the communicator is null", function);
  auto member = handles().find(comm);
  if (!member) refuse("{}: there is no such communicator (was it destroyed?)", function);
  return member;
}

template <typename T>
void require_pointer(const T* pointer, const char* function, const char* name) {
  if (pointer == nullptr) refuse("{}: {} is null", function, name);
}

collectives::DataType type_of(tomboloDataType_t type, const char* function) {
  using collectives::DataType;
  switch (static_cast<int>(type)) {
    case tomboloInt8:
      return DataType::kInt8;
    case tomboloUint8:
      return DataType::kUint8;
    case tomboloInt32:
      return DataType::kInt32;
    case tomboloUint32:
      return DataType::kUint32;
    case tomboloInt64:
      return DataType::kInt64;
    case tomboloUint64:
      return DataType::kUint64;
    case tomboloFloat16:
      return DataType::kFloat16;
    case tomboloFloat32:
      return DataType::kFloat32;
    case tomboloFloat64:
      return DataType::kFloat64;
    case tomboloBfloat16:
      return DataType::kBfloat16;
    case tomboloFloat8e4m3:
      return DataType::kFloat8E4m3;
    case tomboloFloat8e5m2:
      return DataType::kFloat8E5m2;
    case tomboloInt16:
      return DataType::kInt16;
    case tomboloUint16:
      return DataType::kUint16;
    default:
      refuse("{}: there is no data type {}", function, static_cast<int>(type));
  }
}

collectives::ReduceOp op_of(tomboloRedOp_t op, const char* function) {
  using collectives::ReduceOp;
  switch (static_cast<int>(op)) {
    case tomboloSum:
      return ReduceOp::kSum;
    case tomboloProd:
      return ReduceOp::kProduct;
    case tomboloMax:
      return ReduceOp::kMax;
    case tomboloMin:
      return ReduceOp::kMin;
    case tomboloAvg:
      return ReduceOp::kAverage;
    default:
      refuse("{}: there is no reduction operator {}", function, static_cast<int>(op));
  }
}

// ---- groups

/// What this thread has recorded between tomboloGroupStart and the outermost tomboloGroupEnd. Handles, not
/// members: a communicator may be destroyed meanwhile.
struct Group {
  struct Message {
    tomboloComm_t comm;
    bool sending;
    void* data;
    std::size_t bytes;
    int peer;
  };
  struct Call {
    tomboloComm_t comm;
    collectives::CollectiveCall call;
  };
  /// How much had been recorded when a group was opened.
  struct Start {
    std::size_t messages, calls;
  };
  std::vector<Start> open;  // innermost last
  std::vector<Message> messages;
  std::vector<Call> calls;
};
thread_local Group group;

/// For functions that are collective themselves, and would run before what the group has recorded.
void refuse_in_group(const char* function) {
  if (group.open.empty()) return;
  fail(Cause::kInvalidUsage, "{}: not possible between tomboloGroupStart and tomboloGroupEnd", function);
}

/// Fills in type and operator, and makes the call, or in a group checks and records it.
tomboloResult_t carry_out(const char* function, tomboloComm_t comm, tomboloDataType_t type, tomboloRedOp_t op,
                          collectives::CollectiveCall call) noexcept {
  return guarded([&] {
    const auto member = member_of(comm, function);
    call.type = type_of(type, function);
    call.op = op_of(op, function);
    if (group.open.empty()) return member->communicator->run(call);
    member->communicator->check(call);
    group.calls.push_back({comm, call});
  });
}

tomboloResult_t message(const char* function, tomboloComm_t comm, bool sending, void* data, std::size_t count,
                        tomboloDataType_t type, int peer) noexcept {
  return guarded([&] {
    const auto member = member_of(comm, function);
    auto& communicator = *member->communicator;
    const std::size_t element = collectives::size_of(type_of(type, function));
    if (peer < 0 || peer >= communicator.size())
      refuse("{}: there is no rank {} among {}", function, peer, communicator.size());
    if (count > 0) require_pointer(data, function, "the buffer");
    std::size_t bytes = 0;
    if (__builtin_mul_overflow(count, element, &bytes))
      refuse("{}: {} elements are more than memory can hold", function, count);
    if (!group.open.empty()) {
      group.messages.push_back({comm, sending, data, bytes, peer});
    } else if (sending) {
      communicator.send(data, bytes, peer);
    } else {
      communicator.receive(data, bytes, peer);
    }
  });
}

/// Carries out what a group has recorded. Whatever fails, all that was started ends before this throws,
/// because the caller has its buffers back then. (What a communicator that failed had started ended with its
/// connections.)
void carry_out_group(const std::vector<Group::Message>& messages, const std::vector<Group::Call>& calls) {
  struct Started {
    std::shared_ptr<Member> member;
    collectives::Work work;
  };
  std::vector<Started> works;
  works.reserve(messages.size());
  std::exception_ptr first;
  const auto attempt = [&](auto&& action) {
    try {
      action();
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  };
  const auto live = [](tomboloComm_t comm) {
    auto member = handles().find(comm);
    if (!member) {
      fail(Cause::kInvalidUsage,
           "tomboloGroupEnd: a communicator was destroyed after the group had recorded calls on it; they are "
           "dropped");
    }
    return member;
  };
  for (const auto& one : messages) {
    attempt([&] {
      auto member = live(one.comm);
      auto& communicator = *member->communicator;
      const auto work = one.sending ? communicator.start_send(one.data, one.bytes, one.peer)
                                    : communicator.start_receive(one.data, one.bytes, one.peer);
      works.push_back({std::move(member), work});
    });
  }
  for (const auto& one : calls) attempt([&] { live(one.comm)->communicator->run(one.call); });
  for (const auto& one : works) attempt([&] { one.member->communicator->wait(one.work); });
  if (first) std::rethrow_exception(first);
}

// ---- configuration

void apply(const tomboloConfig_t& given, const char* function, collectives::Options& options) {
  if (given.magic != TOMBOLO_CONFIG_MAGIC) {
    refuse("{}: the configuration was not initialised with TOMBOLO_CONFIG_INITIALIZER", function);
  }
  if (given.size != sizeof(tomboloConfig_t)) {
    refuse("{}: the configuration has {} bytes (header version {}), this library's has {} (version {})",
           function, given.size, given.version, sizeof(tomboloConfig_t), TOMBOLO_VERSION_CODE);
  }
  if (given.blocking != TOMBOLO_CONFIG_UNDEF_INT && given.blocking != 1) {
    refuse("{}: config.blocking={}: calls block, only 1 is possible", function, given.blocking);
  }
  if (given.deadline != TOMBOLO_CONFIG_UNDEF_SECONDS) {
    options.deadline = collectives::deadline_from(given.deadline, "config.deadline");
  }
  if (given.algorithm != TOMBOLO_CONFIG_UNDEF_PTR) options.algorithm = given.algorithm;
  if (given.routing != TOMBOLO_CONFIG_UNDEF_PTR) {
    options.routing = collectives::routing_from_name(given.routing, "config.routing");
  }
}

// ---- unique ids

static_assert(sizeof(tomboloUniqueId) == sizeof(collectives::UniqueId));

tomboloResult_t init(const char* function, tomboloComm_t* comm, int ranks, const tomboloUniqueId& given,
                     int rank, const tomboloConfig_t* config) noexcept {
  return guarded([&] {
    require_pointer(comm, function, "comm");
    *comm = nullptr;
    refuse_in_group(function);
    if (ranks < 1 || rank < 0 || rank >= ranks) {
      refuse("{}: rank {} of {}: ranks go from 0 to nranks - 1", function, rank, ranks);
    }
    collectives::UniqueId id;
    std::memcpy(id.data(), given.internal, id.size());
    auto options = collectives::options_from(id, rank, ranks);
    if (config != nullptr) apply(*config, function, options);
    auto member = std::make_shared<Member>();
    member->server = collectives::find_store(id);
    member->communicator = collectives::Communicator::create(options);
    *comm = handles().add(std::move(member));
  });
}

}  // namespace

tomboloResult_t tomboloGetVersion(int* version) {
  return guarded([&] {
    require_pointer(version, "tomboloGetVersion", "version");
    *version = TOMBOLO_VERSION_CODE;
  });
}

const char* tomboloGetErrorString(tomboloResult_t result) {
  switch (result) {
    case tomboloSuccess:
      return "success";
    case tomboloUnhandledCudaError:
      return "unhandled CUDA error";
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
    case tomboloInProgress:
      return "in progress";
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
  try {
    return collectives::size_of(type_of(type, "tomboloTypeSize"));
  } catch (...) {
    return 0;
  }
}

tomboloResult_t tomboloGetUniqueId(tomboloUniqueId* id) {
  return guarded([&] {
    require_pointer(id, "tomboloGetUniqueId", "id");
    const auto made = collectives::make_unique_id();
    std::memcpy(id->internal, made.data(), made.size());
  });
}

tomboloResult_t tomboloCommInitRank(tomboloComm_t* comm, int nranks, tomboloUniqueId id, int rank) {
  return init(__func__, comm, nranks, id, rank, nullptr);
}

tomboloResult_t tomboloCommInitRankConfig(tomboloComm_t* comm, int nranks, tomboloUniqueId id, int rank,
                                          const tomboloConfig_t* config) {
  return init(__func__, comm, nranks, id, rank, config);
}

tomboloResult_t tomboloCommInitFromEnvironment(tomboloComm_t* comm) {
  const char* const function = __func__;
  return guarded([&] {
    require_pointer(comm, function, "comm");
    *comm = nullptr;
    refuse_in_group(function);
    auto member = std::make_shared<Member>();
    member->communicator = collectives::Communicator::create(collectives::Options::from_environment());
    *comm = handles().add(std::move(member));
  });
}

tomboloResult_t tomboloCommSplit(tomboloComm_t comm, int color, int key, tomboloComm_t* newcomm) {
  const char* const function = __func__;
  return guarded([&] {
    require_pointer(newcomm, function, "newcomm");
    *newcomm = nullptr;
    const auto parent = member_of(comm, function);
    refuse_in_group(function);
    auto member = std::make_shared<Member>();
    member->server = parent->server;
    member->communicator = parent->communicator->split(color, key);
    if (member->communicator) *newcomm = handles().add(std::move(member));
  });
}

tomboloResult_t tomboloCommFinalize(tomboloComm_t comm) {
  const char* const function = __func__;
  return guarded([&] {
    const auto member = member_of(comm, function);
    refuse_in_group(function);
    member->communicator->finalize();
  });
}

tomboloResult_t tomboloCommDestroy(tomboloComm_t comm) {
  return guarded([&] {
    if (comm == nullptr) return;
    const auto member = handles().remove(comm);
    if (!member) refuse("tomboloCommDestroy: there is no such communicator (was it destroyed before?)");
    if (member->server) collectives::close_store(member->server);
  });
}

tomboloResult_t tomboloCommAbort(tomboloComm_t comm) {
  const char* const function = __func__;
  return guarded([&] { member_of(comm, function)->communicator->abort("tomboloCommAbort was called"); });
}

tomboloResult_t tomboloCommGetAsyncError(tomboloComm_t comm, tomboloResult_t* asyncError) {
  const char* const function = __func__;
  return guarded([&] {
    require_pointer(asyncError, function, "asyncError");
    const auto cause = member_of(comm, function)->communicator->failure_cause();
    *asyncError = cause ? result_of(*cause) : tomboloSuccess;
  });
}

tomboloResult_t tomboloCommCount(tomboloComm_t comm, int* count) {
  const char* const function = __func__;
  return guarded([&] {
    require_pointer(count, function, "count");
    *count = member_of(comm, function)->communicator->size();
  });
}

tomboloResult_t tomboloCommUserRank(tomboloComm_t comm, int* rank) {
  const char* const function = __func__;
  return guarded([&] {
    require_pointer(rank, function, "rank");
    *rank = member_of(comm, function)->communicator->rank();
  });
}

tomboloResult_t tomboloCommLastAlgorithm(tomboloComm_t comm, const char** name) {
  const char* const function = __func__;
  return guarded([&] {
    require_pointer(name, function, "name");
    const auto member = member_of(comm, function);
    member->last_algorithm = member->communicator->last_algorithm();
    *name = member->last_algorithm.c_str();
  });
}

tomboloResult_t tomboloAllReduce(const void* sendbuff, void* recvbuff, size_t count,
                                 tomboloDataType_t datatype, tomboloRedOp_t op, tomboloComm_t comm) {
  return carry_out(__func__, comm, datatype, op, {Collective::kAllReduce, sendbuff, recvbuff, count});
}

tomboloResult_t tomboloReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                                     tomboloDataType_t datatype, tomboloRedOp_t op, tomboloComm_t comm) {
  return carry_out(__func__, comm, datatype, op, {Collective::kReduceScatter, sendbuff, recvbuff, recvcount});
}

tomboloResult_t tomboloAllGather(const void* sendbuff, void* recvbuff, size_t sendcount,
                                 tomboloDataType_t datatype, tomboloComm_t comm) {
  return carry_out(__func__, comm, datatype, tomboloSum,
                   {Collective::kAllGather, sendbuff, recvbuff, sendcount});
}

tomboloResult_t tomboloBroadcast(const void* sendbuff, void* recvbuff, size_t count,
                                 tomboloDataType_t datatype, int root, tomboloComm_t comm) {
  return carry_out(__func__, comm, datatype, tomboloSum,
                   {Collective::kBroadcast, sendbuff, recvbuff, count, {}, {}, root});
}

tomboloResult_t tomboloReduce(const void* sendbuff, void* recvbuff, size_t count, tomboloDataType_t datatype,
                              tomboloRedOp_t op, int root, tomboloComm_t comm) {
  return carry_out(__func__, comm, datatype, op,
                   {Collective::kReduce, sendbuff, recvbuff, count, {}, {}, root});
}

tomboloResult_t tomboloGather(const void* sendbuff, void* recvbuff, size_t count, tomboloDataType_t datatype,
                              int root, tomboloComm_t comm) {
  return carry_out(__func__, comm, datatype, tomboloSum,
                   {Collective::kGather, sendbuff, recvbuff, count, {}, {}, root});
}

tomboloResult_t tomboloScatter(const void* sendbuff, void* recvbuff, size_t count, tomboloDataType_t datatype,
                               int root, tomboloComm_t comm) {
  return carry_out(__func__, comm, datatype, tomboloSum,
                   {Collective::kScatter, sendbuff, recvbuff, count, {}, {}, root});
}

tomboloResult_t tomboloAllToAll(const void* sendbuff, void* recvbuff, size_t count,
                                tomboloDataType_t datatype, tomboloComm_t comm) {
  return carry_out(__func__, comm, datatype, tomboloSum, {Collective::kAllToAll, sendbuff, recvbuff, count});
}

tomboloResult_t tomboloBarrier(tomboloComm_t comm) {
  return carry_out(__func__, comm, tomboloInt8, tomboloSum, {Collective::kBarrier});
}

tomboloResult_t tomboloSend(const void* sendbuff, size_t count, tomboloDataType_t datatype, int peer,
                            tomboloComm_t comm) {
  return message(__func__, comm, true, const_cast<void*>(sendbuff), count, datatype, peer);
}

tomboloResult_t tomboloRecv(void* recvbuff, size_t count, tomboloDataType_t datatype, int peer,
                            tomboloComm_t comm) {
  return message(__func__, comm, false, recvbuff, count, datatype, peer);
}

tomboloResult_t tomboloGroupStart() {
  return guarded([] { group.open.push_back({group.messages.size(), group.calls.size()}); });
}

tomboloResult_t tomboloGroupEnd() {
  return guarded([] {
    if (group.open.empty()) fail(Cause::kInvalidUsage, "tomboloGroupEnd without tomboloGroupStart");
    group.open.pop_back();
    if (!group.open.empty()) return;
    const auto messages = std::exchange(group.messages, {});
    const auto calls = std::exchange(group.calls, {});
    carry_out_group(messages, calls);
  });
}

tomboloResult_t tomboloGroupDiscard() {
  return guarded([] {
    if (group.open.empty()) fail(Cause::kInvalidUsage, "tomboloGroupDiscard without tomboloGroupStart");
    const Group::Start start = group.open.back();
    group.open.pop_back();
    group.messages.erase(group.messages.begin() + static_cast<std::ptrdiff_t>(start.messages),
                         group.messages.end());
    group.calls.erase(group.calls.begin() + static_cast<std::ptrdiff_t>(start.calls), group.calls.end());
  });
}
