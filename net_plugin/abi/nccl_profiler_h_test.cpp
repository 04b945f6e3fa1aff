// Compares the profiler's tables, and what is read of its descriptions, with NCCL's own header: the CMake
// variable TOMBOLO_NCCL_PROFILER_HEADER can name plugins/profiler/example/nccl/profiler.h of NCCL's sources.
#include <gtest/gtest.h>

#include <cstddef>

#include "net_plugin/abi/net_events.h"
#include "net_plugin/abi/profiler.h"
#include "net_plugin/testing/nccl_header.h"

#ifdef TOMBOLO_NCCL_PROFILER_HEADER

namespace {

namespace abi = tombolo::net_plugin::abi;

// NCCL's header has names and macros that are the same.
constexpr int kColl = abi::ncclProfileColl, kP2p = abi::ncclProfileP2p;
constexpr int kProxyOp = abi::ncclProfileProxyOp, kProxyStep = abi::ncclProfileProxyStep;
constexpr int kNetPlugin = abi::ncclProfileNetPlugin;
constexpr long kIb = abi::NCCL_PROFILER_NET_TYPE_IB, kSocket = abi::NCCL_PROFILER_NET_TYPE_SOCK;
constexpr int kVersionBits = abi::NCCL_PROFILER_NET_VER_BITS;

}  // namespace

#include TOMBOLO_NCCL_PROFILER_HEADER

namespace {

#define SAME_DETAIL(version, field)                                                 \
  static_assert(offsetof(::ncclProfilerEventDescr_##version##_t, field) ==          \
                offsetof(abi::ncclProfilerEventDescr_##version##_t, detail.field)); \
  static_assert(sizeof(::ncclProfilerEventDescr_##version##_t::field) ==            \
                sizeof(abi::ncclProfilerEventDetail::field))
#define SAME_PROFILER(version)                                                                    \
  static_assert(sizeof(::ncclProfiler_##version##_t) == sizeof(abi::ncclProfiler_##version##_t)); \
  SAME_FUNCTION(ncclProfiler_##version##_t, init);                                                \
  SAME_FUNCTION(ncclProfiler_##version##_t, startEvent);                                          \
  SAME_FUNCTION(ncclProfiler_##version##_t, stopEvent);                                           \
  SAME_FUNCTION(ncclProfiler_##version##_t, recordEventState);                                    \
  SAME_FUNCTION(ncclProfiler_##version##_t, finalize);                                            \
  static_assert(sizeof(::ncclProfilerEventDescr_##version##_t::type) ==                           \
                sizeof(abi::ncclProfilerEventDescr_##version##_t::type));                         \
  static_assert(offsetof(::ncclProfilerEventDescr_##version##_t, parentObj) ==                    \
                offsetof(abi::ncclProfilerEventDescr_##version##_t, parentObj));                  \
  static_assert(offsetof(::ncclProfilerEventDescr_##version##_t, rank) ==                         \
                offsetof(abi::ncclProfilerEventDescr_##version##_t, rank));                       \
  SAME_DETAIL(version, proxyOp.channelId);                                                        \
  SAME_DETAIL(version, proxyOp.peer);                                                             \
  SAME_DETAIL(version, proxyOp.isSend);                                                           \
  SAME_DETAIL(version, proxyStep.step)
#define SAME_NETWORK(version)         \
  SAME_DETAIL(version, netPlugin.id); \
  SAME_DETAIL(version, netPlugin.data)
#define SAME_COLLECTIVES(version)                                                     \
  static_assert(offsetof(::ncclProfilerEventDescr_##version##_t, coll.func) ==        \
                    offsetof(abi::ncclProfilerEventDescr_##version##_t, coll.func) && \
                offsetof(::ncclProfilerEventDescr_##version##_t, p2p.func) ==         \
                    offsetof(abi::ncclProfilerEventDescr_##version##_t, p2p.func))
#define SAME_UPDATE(version)                                                            \
  static_assert(offsetof(::ncclProfilerEventStateArgs_##version##_t, netPlugin.data) == \
                offsetof(abi::ncclProfilerEventStateArgs_##version##_t, netPlugin.data))

#ifdef PROFILER_V1_H_
SAME_PROFILER(v1);
#endif
#ifdef PROFILER_V2_H_
SAME_PROFILER(v2);
SAME_COLLECTIVES(v2);
#endif
#ifdef PROFILER_V3_H_
SAME_PROFILER(v3);
SAME_COLLECTIVES(v3);
SAME_NETWORK(v3);
static_assert(int{::ncclProfileNetPlugin} == kNetPlugin);
static_assert(NCCL_PROFILER_NET_VER_BITS == kVersionBits);
static_assert(static_cast<long>(NCCL_PROFILER_NET_TYPE_IB) == kIb &&
              static_cast<long>(NCCL_PROFILER_NET_TYPE_SOCK) == kSocket);
#endif
#ifdef PROFILER_V4_H_
SAME_PROFILER(v4);
SAME_COLLECTIVES(v4);
SAME_NETWORK(v4);
SAME_UPDATE(v4);
static_assert(int{::ncclProfilerProxyStepSendPeerWait_v4} == int{abi::ncclProfilerProxyStepSendPeerWait_v4} &&
              int{::ncclProfilerNetPluginUpdate} == int{abi::ncclProfilerNetPluginUpdate});
#endif
#ifdef PROFILER_V5_H_
SAME_PROFILER(v5);
SAME_COLLECTIVES(v5);
SAME_NETWORK(v5);
SAME_UPDATE(v5);
#endif
#ifdef PROFILER_V6_H_
SAME_PROFILER(v6);
SAME_COLLECTIVES(v6);
SAME_NETWORK(v6);
SAME_UPDATE(v6);
#endif
#ifdef PROFILER_V7_H_
SAME_PROFILER(v7);
SAME_COLLECTIVES(v7);
SAME_NETWORK(v7);
SAME_UPDATE(v7);
#endif
static_assert(int{::ncclProfileColl} == kColl && int{::ncclProfileP2p} == kP2p);
static_assert(int{::ncclProfileProxyOp} == kProxyOp && int{::ncclProfileProxyStep} == kProxyStep);
static_assert(int{::ncclProfilerProxyStepSendGPUWait} == int{abi::ncclProfilerProxyStepSendGPUWait} &&
              int{::ncclProfilerProxyStepRecvGPUWait} == int{abi::ncclProfilerProxyStepRecvGPUWait});

TEST(NcclAbi, ProfilerTablesAreThoseOfNcclsProfilerHeader) {
#ifndef PROFILER_V1_H_
  GTEST_SKIP() << TOMBOLO_NCCL_PROFILER_HEADER
               << " does not keep each version in a file with a guard of its own";
#endif
  SUCCEED() << "compared with " << TOMBOLO_NCCL_PROFILER_HEADER << " when this file was compiled";
}

}  // namespace

#else
TEST(NcclAbi, ProfilerTablesAreThoseOfNcclsProfilerHeader) {
  GTEST_SKIP() << "nccl_profiler.h was not found when this was configured (CMake variable "
                  "TOMBOLO_NCCL_PROFILER_HEADER)";
}
#endif
