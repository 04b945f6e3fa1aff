#include "trainer/run/back_end.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "trainer/cuda/testing/pretended_device.h"
#include "trainer/testing/expect_refusal.h"

namespace tombolo::trainer {
namespace {

std::unique_ptr<cuda::Device> pretended(int) {
  return std::make_unique<cuda::PretendedDevice>();
}

std::unique_ptr<cuda::Device> missing(int number) {
  fail(Cause::kUnsupported, "GPU {} cannot be used: there is none", number);
}

std::unique_ptr<cuda::Device> broken(int) {
  fail(Cause::kSystem, "the driver gave up");
}

StageOptions small_stage() {
  StageOptions options;
  options.shape.context = 4;
  options.shape.vocabulary = options.shape.padded_vocabulary = 8;
  options.shape.layers = options.layers = 1;
  options.shape.heads = 1;
  options.shape.width = 4;
  return options;
}

TEST(BackEnd, ChoicesHaveNames) {
  for (const DeviceChoice choice : {DeviceChoice::kCpu, DeviceChoice::kCuda, DeviceChoice::kAuto})
    EXPECT_EQ(device_choice_from_name(device_choice_name(choice)), choice);
  EXPECT_FALSE(device_choice_from_name("tpu"));
}

TEST(BackEnd, TheCpuOpensNothing) {
  const BackEnd chosen = choose_back_end(DeviceChoice::kCpu, 0, true, broken);
  EXPECT_EQ(chosen.device, DeviceChoice::kCpu);
  EXPECT_NE(chosen.make_stage(small_stage())->describe().find("CPU"), std::string::npos);
}

TEST(BackEnd, CudaTakesTheGpu) {
  const BackEnd chosen = choose_back_end(DeviceChoice::kCuda, 0, true, pretended);
  EXPECT_EQ(chosen.device, DeviceChoice::kCuda);
  EXPECT_EQ(chosen.note, "");
  EXPECT_EQ(chosen.name, "pretended device");
  EXPECT_EQ(chosen.description, "pretended device");
  EXPECT_EQ(chosen.gpu, "pretended machine, slot 0");
  const auto stage = chosen.make_stage(small_stage());
  EXPECT_NE(stage->describe().find("pretended device"), std::string::npos);
  EXPECT_NE(stage->describe().find("parameters (fp32)"), std::string::npos) << stage->describe();
}

TEST(BackEnd, AGpuIsOfTheHostThatNcclTakesItsRankToBeOn) {
  ::setenv("NCCL_HOSTID", "h1", 1);
  EXPECT_EQ(choose_back_end(DeviceChoice::kCuda, 0, true, pretended).gpu,
            "pretended machine, slot 0 of host h1");
  ::unsetenv("NCCL_HOSTID");
}

TEST(BackEnd, CudaWithoutAGpuIsAnErrorThatSaysWhatIsMissing) {
  test::expect_refusal([] { choose_back_end(DeviceChoice::kCuda, 2, true, missing); },
                       {"GPU 2", "there is none"}, Cause::kUnsupported);
}

TEST(BackEnd, AutoTakesTheCpuWhereThereIsNoGpuAndSaysWhy) {
  const BackEnd with = choose_back_end(DeviceChoice::kAuto, 0, true, pretended);
  EXPECT_EQ(with.device, DeviceChoice::kCuda);
  EXPECT_EQ(with.note, "device: pretended device");
  const BackEnd without = choose_back_end(DeviceChoice::kAuto, 0, true, missing);
  EXPECT_EQ(without.device, DeviceChoice::kCpu);
  EXPECT_EQ(without.note, "device: CPU. GPU 0 cannot be used: there is none");
}

TEST(BackEnd, AutoDoesNotHideAGpuThatFails) {
  test::expect_refusal([] { choose_back_end(DeviceChoice::kAuto, 0, true, broken); }, {"the driver gave up"},
                       Cause::kSystem);
}

}  // namespace
}  // namespace tombolo::trainer
