// The C interface's collectives and messages, one function each.
#include "collectives/c_api/group.h"

using namespace tombolo::c_api;
using tombolo::collectives::Collective;

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
