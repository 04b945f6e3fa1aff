// The C interface's collectives and messages, one function each.
#include "collectives/c_api/group.h"
#include "collectives/c_api/types.h"
#include "collectives/c_api/uneven.h"

using namespace tombolo::c_api;
using tombolo::collectives::Collective;
using tombolo::collectives::CollectiveCall;

tomboloResult_t tomboloAllReduce(const void* sendbuff, void* recvbuff, size_t count,
                                 tomboloDataType_t datatype, tomboloRedOp_t op, tomboloComm_t comm) {
  return carry_out(__func__, comm, datatype, op, {Collective::kAllReduce, sendbuff, recvbuff, count});
}

tomboloResult_t tomboloAllReduceCompressed(const float* sendbuff, float* recvbuff, size_t count,
                                           tomboloRedOp_t op, tomboloCompression_t compression,
                                           float* residual, tomboloComm_t comm) {
  return carry_out(__func__, comm, tomboloFloat32, op, [&, function = __func__] {
    CollectiveCall call{Collective::kAllReduce, sendbuff, recvbuff, count};
    call.compression = compression_of(compression, function);
    call.residual = residual;
    return call;
  });
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

tomboloResult_t tomboloAllGatherV(const void* sendbuff, size_t sendcount, void* recvbuff,
                                  const size_t* recvcounts, const size_t* offsets, tomboloDataType_t datatype,
                                  tomboloComm_t comm) {
  return carry_out(__func__, comm, datatype, tomboloSum, [&, function = __func__] {
    return all_gather_v(function, comm, sendbuff, sendcount, recvbuff, {recvcounts, offsets});
  });
}

tomboloResult_t tomboloReduceScatterV(const void* sendbuff, void* recvbuff, const size_t* recvcounts,
                                      const size_t* offsets, tomboloDataType_t datatype, tomboloRedOp_t op,
                                      tomboloComm_t comm) {
  return carry_out(__func__, comm, datatype, op, [&, function = __func__] {
    return reduce_scatter_v(function, comm, sendbuff, recvbuff, {recvcounts, offsets});
  });
}

tomboloResult_t tomboloGatherV(const void* sendbuff, size_t sendcount, void* recvbuff,
                               const size_t* recvcounts, const size_t* offsets, tomboloDataType_t datatype,
                               int root, tomboloComm_t comm) {
  return carry_out(__func__, comm, datatype, tomboloSum, [&, function = __func__] {
    return gather_v(function, comm, sendbuff, sendcount, recvbuff, {recvcounts, offsets}, root);
  });
}

tomboloResult_t tomboloScatterV(const void* sendbuff, const size_t* sendcounts, const size_t* offsets,
                                void* recvbuff, size_t recvcount, tomboloDataType_t datatype, int root,
                                tomboloComm_t comm) {
  return carry_out(__func__, comm, datatype, tomboloSum, [&, function = __func__] {
    return scatter_v(function, comm, sendbuff, {sendcounts, offsets}, recvbuff, recvcount, root);
  });
}

tomboloResult_t tomboloAllToAllV(const void* sendbuff, const size_t* sendcounts, const size_t* sendoffsets,
                                 void* recvbuff, const size_t* recvcounts, const size_t* recvoffsets,
                                 tomboloDataType_t datatype, tomboloComm_t comm) {
  return carry_out(__func__, comm, datatype, tomboloSum, [&, function = __func__] {
    return all_to_all_v(function, comm, sendbuff, {sendcounts, sendoffsets}, recvbuff,
                        {recvcounts, recvoffsets});
  });
}

tomboloResult_t tomboloSend(const void* sendbuff, size_t count, tomboloDataType_t datatype, int peer,
                            tomboloComm_t comm) {
  return message(__func__, comm, true, const_cast<void*>(sendbuff), count, datatype, peer);
}

tomboloResult_t tomboloRecv(void* recvbuff, size_t count, tomboloDataType_t datatype, int peer,
                            tomboloComm_t comm) {
  return message(__func__, comm, false, recvbuff, count, datatype, peer);
}
