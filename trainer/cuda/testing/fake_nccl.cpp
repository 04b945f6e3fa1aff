// A library with NCCL's functions that does nothing but what a test tells it. Built three times: as it should
// be, too old, and with a function missing (FAKE_NCCL_VERSION, FAKE_NCCL_INCOMPLETE).
#include "trainer/cuda/testing/fake_nccl.h"

#include <cstring>

using tombolo::trainer::GroupId;
using namespace tombolo::trainer::cuda;  // NOLINT: this file is a library of its own

namespace {

FakeNccl fake;
// Never looked into: its address is all that is used.
int the_communicator = 0;

NcclResult begin(NcclResult at_once) {
  fake.looks_left = fake.looks;
  return at_once;
}

}  // namespace

extern "C" {

FakeNccl* fake_nccl() {
  return &fake;
}
NcclResult ncclGetVersion(int* version) {
  *version = FAKE_NCCL_VERSION;
  return NcclResult::kSuccess;
}
NcclResult ncclGetUniqueId(GroupId* id) {
  std::strcpy(id->bytes.data(), "fake");
  return NcclResult::kSuccess;
}
NcclResult ncclCommInitRankConfig(NcclCommunicator** communicator, int size, GroupId /*id*/, int rank,
                                  NcclConfig* config) {
  fake.size = size;
  fake.rank = rank;
  fake.blocking = config->blocking;
  fake.version = config->version;
  const bool refused = fake.init != NcclResult::kSuccess && fake.init != NcclResult::kInProgress;
  *communicator = refused ? nullptr : reinterpret_cast<NcclCommunicator*>(&the_communicator);
  return begin(fake.init);
}
NcclResult ncclAllReduce(const void* /*from*/, void* /*to*/, std::size_t count, int type, int operation,
                         NcclCommunicator* /*communicator*/, void* stream) {
  ++fake.sums;
  fake.count = count;
  fake.type = type;
  fake.operation = operation;
  fake.stream = stream;
  return begin(NcclResult::kInProgress);
}
#ifndef FAKE_NCCL_INCOMPLETE
NcclResult ncclCommGetAsyncError(NcclCommunicator* /*communicator*/, NcclResult* state) {
  *state = fake.looks_left == 0 ? fake.state : NcclResult::kInProgress;
  if (fake.looks_left > 0) --fake.looks_left;
  return NcclResult::kSuccess;
}
#endif
NcclResult ncclCommFinalize(NcclCommunicator* /*communicator*/) {
  ++fake.finalized;
  return begin(NcclResult::kInProgress);
}
NcclResult ncclCommDestroy(NcclCommunicator* /*communicator*/) {
  ++fake.destroyed;
  return NcclResult::kSuccess;
}
NcclResult ncclCommAbort(NcclCommunicator* /*communicator*/) {
  ++fake.aborted;
  return NcclResult::kSuccess;
}
const char* ncclGetErrorString(NcclResult result) {
  return result == NcclResult::kRemoteError ? "remote process exited or there was a network error"
                                            : "unhandled system error";
}
const char* ncclGetLastError(NcclCommunicator* /*communicator*/) {
  return fake.last_error;
}
}
