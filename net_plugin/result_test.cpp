#include "net_plugin/result.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace tombolo::net_plugin {
namespace {

TEST(NetResult, OfEachCauseIsWhatNcclMakesTheMostOf) {
  EXPECT_EQ(result_of(Cause::kSystem), abi::ncclSystemError);
  // NCCL takes these for failures of another rank, which its user may recover from.
  for (const Cause cause : {Cause::kRemote, Cause::kTimeout, Cause::kAborted})
    EXPECT_EQ(result_of(cause), abi::ncclRemoteError);
  for (const Cause cause : {Cause::kInvalidUsage, Cause::kUnsupported})
    EXPECT_EQ(result_of(cause), abi::ncclInvalidUsage);
  EXPECT_EQ(result_of(Cause::kInternal), abi::ncclInternalError);
  EXPECT_EQ(result_of(static_cast<Cause>(99)), abi::ncclInternalError);
}

TEST(Guarded, TurnsEveryExceptionIntoAResultAndALine) {
  std::string text;
  const Log log(LogLevel::kInfo, [&](LogLevel level, std::string_view line) {
    EXPECT_EQ(level, LogLevel::kError);
    text += line;
  });
  const auto run = [&](const auto& body) {
    text.clear();
    return guarded(log, "connect", body);
  };
  EXPECT_EQ(run([] {}), abi::ncclSuccess);
  EXPECT_EQ(text, "");
  EXPECT_EQ(run([] { fail(Cause::kTimeout, "no answer from {}", "b0"); }), abi::ncclRemoteError);
  EXPECT_EQ(text, "connect: no answer from b0");
  EXPECT_EQ(run([] { throw std::bad_alloc(); }), abi::ncclSystemError);
  EXPECT_EQ(text, "connect: out of memory");
  EXPECT_EQ(run([] { throw std::length_error("too long"); }), abi::ncclInternalError);
  EXPECT_EQ(text, "connect: too long");
}

TEST(Guarded, GivesTheResultAlsoWhereLoggingFails) {
  const Log log(LogLevel::kInfo, [](LogLevel, std::string_view) { throw std::bad_alloc(); });
  EXPECT_EQ(guarded(log, "listen", [] { fail(Cause::kSystem, "no descriptors"); }), abi::ncclSystemError);
}

}  // namespace
}  // namespace tombolo::net_plugin
