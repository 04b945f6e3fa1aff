// Compares the tables of one-sided operations with NCCL's own header, nccl_rma.h (in NCCL's sources
// src/include/plugin/nccl_rma.h), which the CMake variable TOMBOLO_NCCL_RMA_HEADER can name.
#include <gtest/gtest.h>

#include <cstddef>
#include <type_traits>

#include "net_plugin/abi/rma.h"

#ifdef TOMBOLO_NCCL_RMA_HEADER

namespace {

namespace abi = tombolo::net_plugin::abi;

// NCCL's header defines macros of the same names.
constexpr auto kInc = abi::NCCL_NET_SIGNAL_OP_INC, kAdd = abi::NCCL_NET_SIGNAL_OP_ADD;
constexpr auto kStrong = abi::NCCL_NET_MR_FLAG_FORCE_SO;

}  // namespace

#include TOMBOLO_NCCL_RMA_HEADER

namespace {

/// Whether two functions take the same number of arguments, of the same sizes.
template <typename Result, typename... Arguments, typename OtherResult, typename... Others>
constexpr bool alike(Result (*)(Arguments...), OtherResult (*)(Others...)) {
  if constexpr (sizeof...(Arguments) == sizeof...(Others)) {
    return ((sizeof(Arguments) == sizeof(Others) &&
             std::is_pointer_v<Arguments> == std::is_pointer_v<Others>)&&...);
  } else {
    return false;
  }
}

#define SAME_FUNCTION(type, field)                                      \
  static_assert(offsetof(::type, field) == offsetof(abi::type, field)); \
  static_assert(alike(decltype(::type::field){}, decltype(abi::type::field){}))
#define SAME_RMA(type, progress)                      \
  static_assert(sizeof(::type) == sizeof(abi::type)); \
  SAME_FUNCTION(type, init);                          \
  SAME_FUNCTION(type, devices);                       \
  SAME_FUNCTION(type, getProperties);                 \
  SAME_FUNCTION(type, listen);                        \
  SAME_FUNCTION(type, connect);                       \
  SAME_FUNCTION(type, createContext);                 \
  SAME_FUNCTION(type, regMrSym);                      \
  SAME_FUNCTION(type, regMrSymDmaBuf);                \
  SAME_FUNCTION(type, deregMrSym);                    \
  SAME_FUNCTION(type, destroyContext);                \
  SAME_FUNCTION(type, closeColl);                     \
  SAME_FUNCTION(type, closeListen);                   \
  SAME_FUNCTION(type, iput);                          \
  SAME_FUNCTION(type, iputSignal);                    \
  SAME_FUNCTION(type, iget);                          \
  SAME_FUNCTION(type, iflush);                        \
  SAME_FUNCTION(type, test);                          \
  SAME_FUNCTION(type, progress);                      \
  SAME_FUNCTION(type, queryLastError);                \
  SAME_FUNCTION(type, finalize)

#ifdef RMA_V13_H_
SAME_RMA(ncclRma_v13_t, ginProgress);
static_assert(sizeof(::ncclGinConfig_v13_t) == sizeof(abi::ncclRmaConfig_v13_t) &&
              offsetof(::ncclGinConfig_v13_t, nContexts) == offsetof(abi::ncclRmaConfig_v13_t, nContexts) &&
              offsetof(::ncclGinConfig_v13_t, trafficClass) ==
                  offsetof(abi::ncclRmaConfig_v13_t, trafficClass));
#endif
#ifdef RMA_V14_H_
SAME_RMA(ncclRma_v14_t, rmaProgress);
static_assert(sizeof(::ncclRmaConfig_v14_t) == sizeof(abi::ncclRmaConfig_v14_t) &&
              offsetof(::ncclRmaConfig_v14_t, nContexts) == offsetof(abi::ncclRmaConfig_v14_t, nContexts) &&
              offsetof(::ncclRmaConfig_v14_t, trafficClass) ==
                  offsetof(abi::ncclRmaConfig_v14_t, trafficClass));
#endif
#ifdef RMA_V15_H_
SAME_RMA(ncclRma_v15_t, rmaProgress);
#endif
static_assert(NCCL_NET_SIGNAL_OP_INC == kInc && NCCL_NET_SIGNAL_OP_ADD == kAdd &&
              NCCL_NET_MR_FLAG_FORCE_SO == kStrong);

TEST(NcclAbi, RmaTablesAreThoseOfNcclsRmaHeader) {
  SUCCEED() << "compared with " << TOMBOLO_NCCL_RMA_HEADER << " when this file was compiled";
}

}  // namespace

#else
TEST(NcclAbi, RmaTablesAreThoseOfNcclsRmaHeader) {
  GTEST_SKIP()
      << "nccl_rma.h was not found when this was configured (CMake variable TOMBOLO_NCCL_RMA_HEADER)";
}
#endif
