#include "bench/perf/flags.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "bench/perf/exit_codes.h"

namespace tombolo::bench {
namespace {

CommandLine parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "all_reduce_perf");
  return parse_command_line("all_reduce", static_cast<int>(arguments.size()), arguments.data());
}

/// The error that a command line prints; empty where it is accepted.
std::string refusal(const std::vector<const char*>& arguments) {
  ::testing::internal::CaptureStderr();
  const CommandLine line = parse(arguments);
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(line.exit_code, text.empty() ? std::nullopt : std::optional(kExitBadFlags)) << text;
  return text;
}

TEST(PerfFlags, DefaultsAreNcclTests) {
  const Flags flags = parse({}).flags;
  EXPECT_EQ(flags.minimum_bytes, 32U << 20);
  EXPECT_EQ(flags.maximum_bytes, 32U << 20);
  EXPECT_EQ(flags.step_bytes, 1U << 20);
  EXPECT_EQ(flags.step_factor, 1U);
  EXPECT_EQ(flags.iterations, 20);
  EXPECT_EQ(flags.warmup_iterations, 1);
  EXPECT_EQ(flags.checks, 1);
  EXPECT_EQ(flags.types, std::vector{tomboloFloat32});
  EXPECT_EQ(flags.ops, std::vector{tomboloSum});
  EXPECT_EQ(flags.root, 0);
  EXPECT_EQ(flags.average, Average::kMean);
}

TEST(PerfFlags, ShortAndLongNamesAreTheSame) {
  const Flags brief = parse({"-b8", "-e", "1M", "-i", "64", "-f", "2",   "-n", "3",    "-m", "4",     "-w",
                             "5",   "-N", "6",  "-c", "7",  "-o", "max", "-d", "half", "-r", "-1",    "-z",
                             "3",   "-a", "2",  "-p", "1",  "-C", "1",   "-S", "1",    "-I", "1",     "-K",
                             "2",   "-T", "9",  "-u", "10", "-t", "2",   "-g", "3",    "-J", "x.json"})
                          .flags;
  const Flags full = parse({"--minbytes=8",
                            "--maxbytes",
                            "1M",
                            "--stepbytes",
                            "64",
                            "--stepfactor",
                            "2",
                            "--iters",
                            "3",
                            "--agg_iters",
                            "4",
                            "--warmup_iters",
                            "5",
                            "--run_cycles",
                            "6",
                            "--check",
                            "7",
                            "--op",
                            "max",
                            "--datatype",
                            "half",
                            "--root",
                            "all",
                            "--blocking",
                            "3",
                            "--average",
                            "2",
                            "--parallel_init",
                            "1",
                            "--report_cputime",
                            "1",
                            "--report_timestamps",
                            "1",
                            "--per_iter_timing",
                            "1",
                            "--per_iter_skip",
                            "2",
                            "--timeout",
                            "9",
                            "--unalign",
                            "10",
                            "--nthreads",
                            "2",
                            "--ngpus",
                            "3",
                            "--output_file",
                            "x.json"})
                         .flags;
  for (const Flags* flags : {&brief, &full}) {
    EXPECT_EQ(flags->minimum_bytes, 8U);
    EXPECT_EQ(flags->maximum_bytes, 1U << 20);
    EXPECT_EQ(flags->step_bytes, 64U);
    EXPECT_EQ(flags->step_factor, 2U);
    EXPECT_EQ(flags->iterations, 3);
    EXPECT_EQ(flags->aggregated, 4);
    EXPECT_EQ(flags->warmup_iterations, 5);
    EXPECT_EQ(flags->cycles, 6);
    EXPECT_EQ(flags->checks, 7);
    EXPECT_EQ(flags->ops, std::vector{tomboloMax});
    EXPECT_EQ(flags->types, std::vector{tomboloFloat16});
    EXPECT_EQ(flags->root, std::nullopt);
    EXPECT_EQ(flags->blocking, Blocking::kBarrierEachIteration);
    EXPECT_EQ(flags->average, Average::kLeast);
    EXPECT_TRUE(flags->parallel_init && flags->cpu_time && flags->timestamps && flags->per_iteration);
    EXPECT_EQ(flags->per_iteration_skip, 2);
    EXPECT_EQ(flags->timeout_seconds, 9);
    EXPECT_EQ(flags->unalign, 10U);
    EXPECT_EQ(flags->ranks_here(), 6);
    EXPECT_EQ(flags->output_file, "x.json");
  }
}

TEST(PerfFlags, AllIsEveryTypeAndOperator) {
  const Flags flags = parse({"-d", "all", "-o", "all"}).flags;
  EXPECT_EQ(flags.types.size(), 14U);
  for (const auto type : {tomboloInt8, tomboloInt16, tomboloUint16, tomboloFloat64, tomboloBfloat16,
                          tomboloFloat8e4m3, tomboloFloat8e5m2})
    EXPECT_EQ(std::count(flags.types.begin(), flags.types.end(), type), 1) << type;
  EXPECT_EQ(flags.ops.size(), std::size_t{tomboloNumOps} + 1);
}

TEST(PerfFlags, EightBitFloatsHaveNcclTestsNamesAndTheUsualOnes) {
  for (const char* name : {"f8e4m3", "fp8e4m3"})
    EXPECT_EQ(parse({"-d", name}).flags.types, std::vector{tomboloFloat8e4m3}) << name;
  for (const char* name : {"f8e5m2", "fp8e5m2"})
    EXPECT_EQ(parse({"-d", name}).flags.types, std::vector{tomboloFloat8e5m2}) << name;
  EXPECT_EQ(type_name(tomboloFloat8e4m3), "f8e4m3");
  EXPECT_EQ(type_name(tomboloFloat8e5m2), "f8e5m2");
  for (const char* name : {"fp8", "f8", "fp8e3m4", "fp8f8e4m3", "fp8int8", "e4m3"})
    EXPECT_NE(refusal({"-d", name}).find(name), std::string::npos) << name;
}

TEST(PerfFlags, WhatMeansOffIsTaken) {
  EXPECT_EQ(refusal({"-G", "0", "-R", "0", "-y", "0", "-x", "0", "-D", "0", "-V", "16",
                     "-M", "0", "-t", "1", "-g", "1", "-T", "0", "-K", "0", "-f", "1"}),
            "");
}

TEST(PerfFlags, WhatHostMemoryCannotDoIsRefusedWithAReason) {
  EXPECT_NE(refusal({"-G", "1"}).find("CUDA graph"), std::string::npos);
  EXPECT_NE(refusal({"--cudagraph", "10"}).find("CUDA graph"), std::string::npos);
  EXPECT_NE(refusal({"-R", "2"}).find("nothing to register"), std::string::npos);
  EXPECT_NE(refusal({"-y", "1"}).find("has no streams"), std::string::npos);
  EXPECT_NE(refusal({"-x", "1"}).find("GPU"), std::string::npos);
  EXPECT_NE(refusal({"-D", "1"}).find("GPU"), std::string::npos);
  EXPECT_NE(refusal({"-V", "8"}).find("GPU"), std::string::npos);
  EXPECT_NE(refusal({"-M", "1"}).find("GPU"), std::string::npos);
  EXPECT_NE(refusal({"-z", "0"}).find("calls block"), std::string::npos);
  EXPECT_NE(refusal({"-o", "premulsum"}).find("premulsum"), std::string::npos);
  EXPECT_NE(refusal({"-d", "float8"}).find("float8"), std::string::npos);
}

TEST(PerfFlags, WhatCannotBeRightIsRefused) {
  EXPECT_NE(refusal({"-b", "2M", "-e", "1M"}).find("-b 2097152 is above -e 1048576"), std::string::npos);
  EXPECT_NE(refusal({"-b", "1", "-e", "2", "-i", "0"}).find("-i 0"), std::string::npos);
  EXPECT_NE(refusal({"-b", "0", "-e", "2", "-f", "2"}).find("-b 0"), std::string::npos);
  EXPECT_NE(refusal({"-K", "1"}).find("-K 1"), std::string::npos);
  EXPECT_NE(refusal({"-I", "1", "-n", "5", "-K", "5"}).find("-K 5"), std::string::npos);
  EXPECT_NE(refusal({"-N", "0", "-J", "x.json"}).find("-N 0"), std::string::npos);
  EXPECT_NE(refusal({"-J", "x.txt"}).find(".json"), std::string::npos);
  EXPECT_NE(refusal({"-r", "first"}).find("'first'"), std::string::npos);
  EXPECT_NE(refusal({"-n", "0"}), "");
  EXPECT_NE(refusal({"-a", "4"}), "");
  EXPECT_NE(refusal({"--nonsense"}), "");
  EXPECT_NE(refusal({"word"}), "");
}

TEST(PerfFlags, SizesAreInPowersOf1024) {
  EXPECT_EQ(parse_bytes("8"), 8U);
  EXPECT_EQ(parse_bytes("64K"), 65536U);
  EXPECT_EQ(parse_bytes("1.5m"), 3U << 19);
  EXPECT_EQ(parse_bytes("2G"), std::size_t{2} << 30);
  EXPECT_EQ(parse_bytes("0"), 0U);
  for (const char* const bad : {"", "K", "-1", "8X", "8 K", "1e3", "nan", "inf", "99999999999G", "4MB"}) {
    EXPECT_THROW(parse_bytes(bad), Error) << bad;
  }
}

TEST(PerfFlags, SizesStepOrMultiply) {
  const auto sizes = [](const Flags& flags) {
    std::vector<std::size_t> all;
    for (std::optional<std::size_t> bytes = flags.minimum_bytes; bytes; bytes = next_size(flags, *bytes)) {
      all.push_back(*bytes);
    }
    return all;
  };
  EXPECT_EQ(sizes(parse({"-b", "8", "-e", "70", "-f", "2"}).flags),
            (std::vector<std::size_t>{8, 16, 32, 64}));
  EXPECT_EQ(sizes(parse({"-b", "8", "-e", "24", "-i", "8"}).flags), (std::vector<std::size_t>{8, 16, 24}));
  EXPECT_EQ(sizes(parse({"-b", "0", "-e", "0", "-i", "0"}).flags), (std::vector<std::size_t>{0}));
}

TEST(PerfFlags, HelpIsNoFailure) {
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(parse({"--help"}).exit_code, kExitOk);
  EXPECT_NE(::testing::internal::GetCapturedStdout().find("--stepfactor"), std::string::npos);
}

}  // namespace
}  // namespace tombolo::bench
