// Compares the tuner's tables with NCCL's own header, nccl_tuner.h (in NCCL's sources
// src/include/plugin/nccl_tuner.h), which the CMake variable TOMBOLO_NCCL_TUNER_HEADER can name.
#include <gtest/gtest.h>

#include <cstddef>

#include "net_plugin/abi/tuner.h"
#include "net_plugin/testing/nccl_header.h"

#ifdef TOMBOLO_NCCL_TUNER_HEADER

namespace {

namespace abi = tombolo::net_plugin::abi;

// NCCL's header defines macros of the same names.
constexpr int kTree = abi::NCCL_ALGO_TREE, kRing = abi::NCCL_ALGO_RING;
constexpr int kLl = abi::NCCL_PROTO_LL, kLl128 = abi::NCCL_PROTO_LL128, kSimple = abi::NCCL_PROTO_SIMPLE;
constexpr float kIgnore = abi::NCCL_ALGO_PROTO_IGNORE;

}  // namespace

#include TOMBOLO_NCCL_TUNER_HEADER

namespace {

#define SAME_TUNER(type, last)                        \
  static_assert(sizeof(::type) == sizeof(abi::type)); \
  SAME_FUNCTION(type, init);                          \
  SAME_FUNCTION(type, getCollInfo);                   \
  SAME_FUNCTION(type, last)

#ifdef TUNER_V2_H_
SAME_TUNER(ncclTuner_v2_t, destroy);
#endif
#ifdef TUNER_V3_H_
SAME_TUNER(ncclTuner_v3_t, destroy);
#endif
#ifdef TUNER_V4_H_
SAME_TUNER(ncclTuner_v4_t, destroy);
#endif
#ifdef TUNER_V5_H_
SAME_TUNER(ncclTuner_v5_t, finalize);
static_assert(sizeof(::ncclTunerConstants_v5_t) == sizeof(abi::ncclTunerConstants_v5_t));
static_assert(sizeof(::ncclNvlDomainInfo_v5_t) == sizeof(abi::ncclNvlDomainInfo_v5_t));
#endif
#ifdef TUNER_V6_H_
SAME_TUNER(ncclTuner_v6_t, finalize);
SAME_FUNCTION(ncclTuner_v6_t, getChunkSize);
#endif
static_assert(NCCL_ALGO_TREE == kTree && NCCL_ALGO_RING == kRing);
static_assert(NCCL_PROTO_LL == kLl && NCCL_PROTO_LL128 == kLl128 && NCCL_PROTO_SIMPLE == kSimple);
static_assert(static_cast<float>(NCCL_ALGO_PROTO_IGNORE) == kIgnore);
static_assert(int{::ncclFuncBroadcast} == int{abi::ncclFuncBroadcast} &&
              int{::ncclFuncAllReduce} == int{abi::ncclFuncAllReduce});

TEST(NcclAbi, TunerTablesAreThoseOfNcclsTunerHeader) {
#ifndef TUNER_V2_H_
  GTEST_SKIP() << TOMBOLO_NCCL_TUNER_HEADER
               << " does not keep each version in a file with a guard of its own";
#endif
  SUCCEED() << "compared with " << TOMBOLO_NCCL_TUNER_HEADER << " when this file was compiled";
}

}  // namespace

#else
TEST(NcclAbi, TunerTablesAreThoseOfNcclsTunerHeader) {
  GTEST_SKIP()
      << "nccl_tuner.h was not found when this was configured (CMake variable TOMBOLO_NCCL_TUNER_HEADER)";
}
#endif
