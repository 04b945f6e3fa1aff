// The C interface's calls that are only started, and the works that stand for them.
#include <utility>

#include "collectives/c_api/failures.h"
#include "collectives/c_api/group.h"
#include "collectives/c_api/handles.h"
#include "collectives/c_api/types.h"
#include "collectives/c_api/uneven.h"

using namespace tombolo;
using namespace tombolo::c_api;
using tombolo::collectives::Collective;

namespace {

/// Starts by `start`, which is given the member and returns its Work.
template <typename Start>
tomboloResult_t start_work(const char* function, tomboloComm_t comm, tomboloWork_t* work,
                           const Start& start) {
  return guarded([&] {
    require_pointer(work, function, "work");
    *work = nullptr;
    const auto member = member_of(comm, function);
    refuse_in_group(function);
    auto made = std::make_shared<StartedCall>();
    made->member = member;
    made->work = start(*member);
    *work = works().add(std::move(made));
  });
}

tomboloResult_t start_collective(const char* function, tomboloComm_t comm, tomboloDataType_t type,
                                 tomboloRedOp_t op, collectives::CollectiveCall call, tomboloWork_t* work) {
  return start_work(function, comm, work, [&](const Member& member) {
    complete(call, member, type, op, function);
    return member.communicator->start(call);
  });
}

template <typename Make>
tomboloResult_t start_made(const char* function, tomboloComm_t comm, tomboloDataType_t type,
                           tomboloRedOp_t op, tomboloWork_t* work, const Make& make) {
  return start_work(function, comm, work, [&](const Member& member) {
    collectives::CollectiveCall call = make(function);
    complete(call, member, type, op, function);
    return member.communicator->start(call);
  });
}

tomboloResult_t start_message(const char* function, tomboloComm_t comm, bool sending, void* data,
                              std::size_t count, tomboloDataType_t type, int peer, tomboloWork_t* work) {
  return start_work(function, comm, work, [&](const Member& member) {
    collectives::Communicator& communicator = *member.communicator;
    const std::size_t bytes = message_bytes(function, communicator, data, count, type, peer);
    return sending ? communicator.start_send(data, bytes, peer, member.stream)
                   : communicator.start_receive(data, bytes, peer, member.stream);
  });
}

struct Found {
  std::shared_ptr<Member> member;
  collectives::Work work;
};

/// Throws InvalidArgument where there is no such work.
Found work_of(tomboloWork_t work, const char* function) {
  if (work == nullptr) refuse("{}: the work is null", function);
  const auto started = works().find(work);
  auto member = started ? started->member.lock() : nullptr;
  if (!member)
    refuse("{}: there is no such work (was it redeemed, or its communicator destroyed?)", function);
  return {std::move(member), started->work};
}

}  // namespace

tomboloResult_t tomboloAllReduceAsync(const void* sendbuff, void* recvbuff, size_t count,
                                      tomboloDataType_t datatype, tomboloRedOp_t op, tomboloComm_t comm,
                                      tomboloWork_t* work) {
  return start_collective(__func__, comm, datatype, op, {Collective::kAllReduce, sendbuff, recvbuff, count},
                          work);
}

tomboloResult_t tomboloAllReduceCompressedAsync(const float* sendbuff, float* recvbuff, size_t count,
                                                tomboloRedOp_t op, tomboloCompression_t compression,
                                                float* residual, tomboloComm_t comm, tomboloWork_t* work) {
  return start_made(__func__, comm, tomboloFloat32, op, work, [&](const char* function) {
    collectives::CollectiveCall call{Collective::kAllReduce, sendbuff, recvbuff, count};
    call.compression = compression_of(compression, function);
    call.residual = residual;
    return call;
  });
}

tomboloResult_t tomboloReduceScatterAsync(const void* sendbuff, void* recvbuff, size_t recvcount,
                                          tomboloDataType_t datatype, tomboloRedOp_t op, tomboloComm_t comm,
                                          tomboloWork_t* work) {
  return start_collective(__func__, comm, datatype, op,
                          {Collective::kReduceScatter, sendbuff, recvbuff, recvcount}, work);
}

tomboloResult_t tomboloAllGatherAsync(const void* sendbuff, void* recvbuff, size_t sendcount,
                                      tomboloDataType_t datatype, tomboloComm_t comm, tomboloWork_t* work) {
  return start_collective(__func__, comm, datatype, tomboloSum,
                          {Collective::kAllGather, sendbuff, recvbuff, sendcount}, work);
}

tomboloResult_t tomboloBroadcastAsync(const void* sendbuff, void* recvbuff, size_t count,
                                      tomboloDataType_t datatype, int root, tomboloComm_t comm,
                                      tomboloWork_t* work) {
  return start_collective(__func__, comm, datatype, tomboloSum,
                          {Collective::kBroadcast, sendbuff, recvbuff, count, {}, {}, root}, work);
}

tomboloResult_t tomboloReduceAsync(const void* sendbuff, void* recvbuff, size_t count,
                                   tomboloDataType_t datatype, tomboloRedOp_t op, int root,
                                   tomboloComm_t comm, tomboloWork_t* work) {
  return start_collective(__func__, comm, datatype, op,
                          {Collective::kReduce, sendbuff, recvbuff, count, {}, {}, root}, work);
}

tomboloResult_t tomboloGatherAsync(const void* sendbuff, void* recvbuff, size_t count,
                                   tomboloDataType_t datatype, int root, tomboloComm_t comm,
                                   tomboloWork_t* work) {
  return start_collective(__func__, comm, datatype, tomboloSum,
                          {Collective::kGather, sendbuff, recvbuff, count, {}, {}, root}, work);
}

tomboloResult_t tomboloScatterAsync(const void* sendbuff, void* recvbuff, size_t count,
                                    tomboloDataType_t datatype, int root, tomboloComm_t comm,
                                    tomboloWork_t* work) {
  return start_collective(__func__, comm, datatype, tomboloSum,
                          {Collective::kScatter, sendbuff, recvbuff, count, {}, {}, root}, work);
}

tomboloResult_t tomboloAllToAllAsync(const void* sendbuff, void* recvbuff, size_t count,
                                     tomboloDataType_t datatype, tomboloComm_t comm, tomboloWork_t* work) {
  return start_collective(__func__, comm, datatype, tomboloSum,
                          {Collective::kAllToAll, sendbuff, recvbuff, count}, work);
}

tomboloResult_t tomboloBarrierAsync(tomboloComm_t comm, tomboloWork_t* work) {
  return start_collective(__func__, comm, tomboloInt8, tomboloSum, {Collective::kBarrier}, work);
}

tomboloResult_t tomboloAllGatherVAsync(const void* sendbuff, size_t sendcount, void* recvbuff,
                                       const size_t* recvcounts, const size_t* offsets,
                                       tomboloDataType_t datatype, tomboloComm_t comm, tomboloWork_t* work) {
  return start_made(__func__, comm, datatype, tomboloSum, work, [&](const char* function) {
    return all_gather_v(function, comm, sendbuff, sendcount, recvbuff, {recvcounts, offsets});
  });
}

tomboloResult_t tomboloReduceScatterVAsync(const void* sendbuff, void* recvbuff, const size_t* recvcounts,
                                           const size_t* offsets, tomboloDataType_t datatype,
                                           tomboloRedOp_t op, tomboloComm_t comm, tomboloWork_t* work) {
  return start_made(__func__, comm, datatype, op, work, [&](const char* function) {
    return reduce_scatter_v(function, comm, sendbuff, recvbuff, {recvcounts, offsets});
  });
}

tomboloResult_t tomboloGatherVAsync(const void* sendbuff, size_t sendcount, void* recvbuff,
                                    const size_t* recvcounts, const size_t* offsets,
                                    tomboloDataType_t datatype, int root, tomboloComm_t comm,
                                    tomboloWork_t* work) {
  return start_made(__func__, comm, datatype, tomboloSum, work, [&](const char* function) {
    return gather_v(function, comm, sendbuff, sendcount, recvbuff, {recvcounts, offsets}, root);
  });
}

tomboloResult_t tomboloScatterVAsync(const void* sendbuff, const size_t* sendcounts, const size_t* offsets,
                                     void* recvbuff, size_t recvcount, tomboloDataType_t datatype, int root,
                                     tomboloComm_t comm, tomboloWork_t* work) {
  return start_made(__func__, comm, datatype, tomboloSum, work, [&](const char* function) {
    return scatter_v(function, comm, sendbuff, {sendcounts, offsets}, recvbuff, recvcount, root);
  });
}

tomboloResult_t tomboloAllToAllVAsync(const void* sendbuff, const size_t* sendcounts,
                                      const size_t* sendoffsets, void* recvbuff, const size_t* recvcounts,
                                      const size_t* recvoffsets, tomboloDataType_t datatype,
                                      tomboloComm_t comm, tomboloWork_t* work) {
  return start_made(__func__, comm, datatype, tomboloSum, work, [&](const char* function) {
    return all_to_all_v(function, comm, sendbuff, {sendcounts, sendoffsets}, recvbuff,
                        {recvcounts, recvoffsets});
  });
}

tomboloResult_t tomboloSendAsync(const void* sendbuff, size_t count, tomboloDataType_t datatype, int peer,
                                 tomboloComm_t comm, tomboloWork_t* work) {
  return start_message(__func__, comm, true, const_cast<void*>(sendbuff), count, datatype, peer, work);
}

tomboloResult_t tomboloRecvAsync(void* recvbuff, size_t count, tomboloDataType_t datatype, int peer,
                                 tomboloComm_t comm, tomboloWork_t* work) {
  return start_message(__func__, comm, false, recvbuff, count, datatype, peer, work);
}

tomboloResult_t tomboloWorkWait(tomboloWork_t work) {
  const char* const function = __func__;
  return guarded([&] {
    const Found found = work_of(work, function);
    refuse_in_group(function);
    refuse_in_callback(*found.member, function);
    works().remove(work);
    found.member->communicator->wait(found.work);
  });
}

tomboloResult_t tomboloWorkTest(tomboloWork_t work, int* done) {
  const char* const function = __func__;
  return guarded([&] {
    require_pointer(done, function, "done");
    *done = 0;
    const Found found = work_of(work, function);
    refuse_in_callback(*found.member, function);
    try {
      *done = found.member->communicator->test(found.work) ? 1 : 0;
    } catch (...) {
      works().remove(work);
      throw;
    }
    if (*done == 1) works().remove(work);
  });
}

tomboloResult_t tomboloWorkSetCallback(tomboloWork_t work, void (*callback)(tomboloResult_t, void*),
                                       void* argument) {
  const char* const function = __func__;
  return guarded([&] {
    require_pointer(reinterpret_cast<const void*>(callback), function, "callback");
    const Found found = work_of(work, function);
    found.member->communicator->when_done(found.work, [callback, argument](const Error* error) {
      callback(error == nullptr ? tomboloSuccess : result_of(error->cause()), argument);
    });
  });
}

tomboloResult_t tomboloCommProgress(tomboloComm_t comm) {
  const char* const function = __func__;
  return guarded([&] { member_of(comm, function)->communicator->progress(); });
}
