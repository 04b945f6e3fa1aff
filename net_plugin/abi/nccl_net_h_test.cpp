// Compares the function tables and properties with NCCL's own header of the net interface. Some NCCL packages
// install it as nccl_net.h; in NCCL's sources it is plugins/net/example/nccl/net.h, which the CMake variable
// TOMBOLO_NCCL_NET_HEADER can name.
#include <gtest/gtest.h>

#include <cstddef>

#include "net_plugin/abi/net.h"
#include "net_plugin/testing/nccl_header.h"

#ifdef TOMBOLO_NCCL_NET_HEADER

namespace {

namespace abi = tombolo::net_plugin::abi;

// NCCL's header defines macros of the same names.
constexpr std::size_t kHandleBytes = abi::NCCL_NET_HANDLE_MAXSIZE;
constexpr int kRequests = abi::NCCL_NET_MAX_REQUESTS;
constexpr int kHost = abi::NCCL_PTR_HOST, kCuda = abi::NCCL_PTR_CUDA, kDmaBuf = abi::NCCL_PTR_DMABUF;
constexpr int kOptionalCompletion = abi::NCCL_NET_OPTIONAL_RECV_COMPLETION;

}  // namespace

#include TOMBOLO_NCCL_NET_HEADER

// NCCL's sources keep each version in a file with a guard; nccl_net.h of a package has those of its release.
#if defined(NET_V6_H_) || (defined(NCCL_VERSION_CODE) && NCCL_VERSION_CODE >= 21300)
#define HAS_V6
#endif
#if defined(NET_V7_H_) || (defined(NCCL_VERSION_CODE) && NCCL_VERSION_CODE >= 21900)
#define HAS_V7
#endif
#if defined(NET_V8_H_) || (defined(NCCL_VERSION_CODE) && NCCL_VERSION_CODE >= 22000)
#define HAS_V8
#endif
#if defined(NET_V9_H_) || (defined(NCCL_VERSION_CODE) && NCCL_VERSION_CODE >= 22400)
#define HAS_V9
#endif
#if defined(NET_V10_H_) || (defined(NCCL_VERSION_CODE) && NCCL_VERSION_CODE >= 22600)
#define HAS_V10
#endif
#if defined(NET_V11_H_) || (defined(NCCL_VERSION_CODE) && NCCL_VERSION_CODE >= 22800)
#define HAS_V11
#endif
#if defined(NET_V12_H_) || (defined(NCCL_VERSION_CODE) && NCCL_VERSION_CODE >= 23000)
#define HAS_V12
#endif

namespace {

#define SAME_SIZE(type) static_assert(sizeof(::type) == sizeof(abi::type))

#define SAME_PROPERTIES_V6(type) \
  SAME_SIZE(type);               \
  SAME_FIELD(type, name);        \
  SAME_FIELD(type, pciPath);     \
  SAME_FIELD(type, guid);        \
  SAME_FIELD(type, ptrSupport);  \
  SAME_FIELD(type, speed);       \
  SAME_FIELD(type, port);        \
  SAME_FIELD(type, latency);     \
  SAME_FIELD(type, maxComms);    \
  SAME_FIELD(type, maxRecvs)
#define SAME_PROPERTIES_V7(type)   \
  SAME_PROPERTIES_V6(type);        \
  SAME_FIELD(type, netDeviceType); \
  SAME_FIELD(type, netDeviceVersion)
#define SAME_PROPERTIES_V8(type) \
  SAME_PROPERTIES_V7(type);      \
  SAME_FIELD(type, regIsGlobal)
#define SAME_PROPERTIES_V9(type)  \
  SAME_PROPERTIES_V8(type);       \
  SAME_FIELD(type, forceFlush);   \
  SAME_FIELD(type, vProps.ndevs); \
  SAME_FIELD(type, vProps.devs);  \
  SAME_FIELD(type, maxP2pBytes);  \
  SAME_FIELD(type, maxCollBytes)
#define SAME_PROPERTIES_V11(type) \
  SAME_PROPERTIES_V9(type);       \
  SAME_FIELD(type, maxMultiRequestSize)
#define SAME_PROPERTIES_V12(type) \
  SAME_PROPERTIES_V11(type);      \
  SAME_FIELD(type, railId);       \
  SAME_FIELD(type, planeId)

#define SAME_TABLE_V6(type)           \
  SAME_SIZE(type);                    \
  SAME_FIELD(type, name);             \
  SAME_FUNCTION(type, init);          \
  SAME_FUNCTION(type, devices);       \
  SAME_FUNCTION(type, getProperties); \
  SAME_FUNCTION(type, listen);        \
  SAME_FUNCTION(type, connect);       \
  SAME_FUNCTION(type, accept);        \
  SAME_FUNCTION(type, regMr);         \
  SAME_FUNCTION(type, regMrDmaBuf);   \
  SAME_FUNCTION(type, deregMr);       \
  SAME_FUNCTION(type, isend);         \
  SAME_FUNCTION(type, irecv);         \
  SAME_FUNCTION(type, iflush);        \
  SAME_FUNCTION(type, test);          \
  SAME_FUNCTION(type, closeSend);     \
  SAME_FUNCTION(type, closeRecv);     \
  SAME_FUNCTION(type, closeListen)
#define SAME_TABLE_V7(type)         \
  SAME_TABLE_V6(type);              \
  SAME_FUNCTION(type, getDeviceMr); \
  SAME_FUNCTION(type, irecvConsumed)
#define SAME_TABLE_V9(type) \
  SAME_TABLE_V7(type);      \
  SAME_FUNCTION(type, makeVDevice)
#define SAME_TABLE_V11(type)     \
  SAME_TABLE_V9(type);           \
  SAME_FUNCTION(type, finalize); \
  SAME_FUNCTION(type, setNetAttr)

static_assert(NCCL_NET_HANDLE_MAXSIZE == kHandleBytes);
static_assert(NCCL_NET_MAX_REQUESTS >= 8 && NCCL_NET_MAX_REQUESTS <= kRequests);
static_assert(NCCL_PTR_HOST == kHost && NCCL_PTR_CUDA == kCuda && NCCL_PTR_DMABUF == kDmaBuf);
#ifdef NCCL_NET_OPTIONAL_RECV_COMPLETION
static_assert(NCCL_NET_OPTIONAL_RECV_COMPLETION == kOptionalCompletion);
#endif
static_assert(int{::NCCL_LOG_WARN} == int{abi::NCCL_LOG_WARN} &&
              int{::NCCL_LOG_INFO} == int{abi::NCCL_LOG_INFO} &&
              int{::NCCL_LOG_TRACE} == int{abi::NCCL_LOG_TRACE});
static_assert(int{::NCCL_INIT} == int{abi::NCCL_INIT} && int{::NCCL_NET} == int{abi::NCCL_NET} &&
              int{::NCCL_ALL} == int{abi::NCCL_ALL});

#ifdef HAS_V6
SAME_PROPERTIES_V6(ncclNetProperties_v6_t);
SAME_TABLE_V6(ncclNet_v6_t);
#endif
#ifdef HAS_V7
static_assert(int{::NCCL_NET_DEVICE_HOST} == int{abi::NCCL_NET_DEVICE_HOST});
SAME_SIZE(ncclNetDeviceHandle_v7_t);
SAME_FIELD(ncclNetDeviceHandle_v7_t, needsProxyProgress);
SAME_PROPERTIES_V7(ncclNetProperties_v7_t);
SAME_TABLE_V7(ncclNet_v7_t);
#endif
#ifdef HAS_V8
SAME_PROPERTIES_V8(ncclNetProperties_v8_t);
SAME_TABLE_V7(ncclNet_v8_t);
#endif
#ifdef HAS_V9
SAME_PROPERTIES_V9(ncclNetProperties_v9_t);
SAME_TABLE_V9(ncclNet_v9_t);
#endif
#ifdef HAS_V10
SAME_SIZE(ncclNetCommConfig_v10_t);
SAME_PROPERTIES_V9(ncclNetProperties_v10_t);
SAME_TABLE_V9(ncclNet_v10_t);
#endif
#ifdef HAS_V11
SAME_SIZE(ncclNetAttr_v11_t);
SAME_FIELD(ncclNetAttr_v11_t, recvCommAttr.minFlowsPerPeer);
SAME_FIELD(ncclNetAttr_v11_t, proto);
SAME_PROPERTIES_V11(ncclNetProperties_v11_t);
SAME_TABLE_V11(ncclNet_v11_t);
#endif
#ifdef HAS_V12
SAME_PROPERTIES_V12(ncclNetProperties_v12_t);
SAME_TABLE_V11(ncclNet_v12_t);
#endif

TEST(NcclAbi, TablesAreThoseOfNcclsNetHeader) {
  SUCCEED() << "compared with " << TOMBOLO_NCCL_NET_HEADER << " when this file was compiled";
}

}  // namespace

#else
TEST(NcclAbi, TablesAreThoseOfNcclsNetHeader) {
  GTEST_SKIP()
      << "nccl_net.h was not found when this was configured (CMake variable TOMBOLO_NCCL_NET_HEADER)";
}
#endif
