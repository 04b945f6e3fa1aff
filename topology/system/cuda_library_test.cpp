// Against a pretended driver (topology/testing/pretended_cuda.h): this program is linked with it.
#include "topology/system/cuda_library.h"

#include <gtest/gtest.h>

#include <cstring>

#include "topology/testing/pretended_cuda.h"

namespace tombolo::topology {
namespace {

using test::PretendedCuda;
using test::PretendedCudaOptions;
using test::PretendedPace;

class CudaLibrary : public ::testing::Test {
 protected:
  ~CudaLibrary() override { cuda().reset(); }
  static PretendedCuda& cuda() { return PretendedCuda::instance(); }
  static void start(const PretendedCudaOptions& options = {}) { cuda().reset(options); }
};

TEST_F(CudaLibrary, IsLoadedWhereThereIsAGpu) {
  start();
  std::string problem;
  const auto functions = CudaFunctions::load(&problem);
  ASSERT_NE(functions, nullptr) << problem;
  EXPECT_EQ(functions->describe(CudaResult::kOutOfMemory), "CUDA_ERROR_OUT_OF_MEMORY (2)");
  EXPECT_EQ(functions->describe(CudaResult(12345)), "CUDA error (12345)");
}

TEST_F(CudaLibrary, SaysWhyThereIsNone) {
  PretendedCudaOptions options;
  options.gpus = 0;
  start(options);
  std::string problem;
  EXPECT_EQ(CudaFunctions::load(&problem), nullptr);
  EXPECT_EQ(problem, "the CUDA driver finds no GPU");
  options.starts = false;
  start(options);
  EXPECT_EQ(CudaFunctions::load(&problem), nullptr);
  EXPECT_EQ(problem, "the CUDA driver does not start: CUDA_ERROR_NOT_INITIALIZED (3)");
}

TEST_F(CudaLibrary, OfTheProgramIsFoundAndNotStarted) {
  PretendedCudaOptions options;
  options.starts = false;
  start(options);
  const auto functions = CudaFunctions::of_program();
  ASSERT_NE(functions, nullptr);
  CudaMemoryType type{};
  std::byte* const memory = cuda().allocate(16);
  EXPECT_EQ(functions->pointer_attribute(&type, CudaPointerAttribute::kMemoryType,
                                         reinterpret_cast<CudaFunctions::Address>(memory)),
            CudaResult::kSuccess);
  EXPECT_EQ(type, CudaMemoryType::kDevice);
}

// What the pretended driver must notice, or the tests that are built on it say nothing.
class PretendedCudaRules : public CudaLibrary {
 protected:
  PretendedCudaRules() {
    PretendedCudaOptions options;
    options.pace = PretendedPace::kNever;
    options.gpus = 2;
    start(options);
    functions_ = CudaFunctions::load(nullptr);
    EXPECT_EQ(functions_->retain_context(&context_, 0), CudaResult::kSuccess);
  }
  ~PretendedCudaRules() override { cuda().set_pace(PretendedPace::kEarly); }

  void enter() {
    functions_->push_context(context_);
    CudaCaptureMode mode = CudaCaptureMode::kRelaxed;
    functions_->exchange_capture_mode(&mode);
  }
  void make_stream_and_memory() {
    enter();
    ASSERT_EQ(functions_->create_stream(&stream_, kCudaStreamNonBlocking), CudaResult::kSuccess);
    ASSERT_EQ(functions_->create_event(&event_, kCudaEventDisableTiming), CudaResult::kSuccess);
    ASSERT_EQ(functions_->allocate_host(&host_, 4096, kCudaHostAllocPortable), CudaResult::kSuccess);
    device_ = cuda().allocate(4096);
    ASSERT_TRUE(cuda().breaches().empty());
  }
  CudaFunctions::Address device() const { return reinterpret_cast<CudaFunctions::Address>(device_); }
  void expect_breach(const char* part) const {
    const auto breaches = cuda().breaches();
    ASSERT_EQ(breaches.size(), 1U);
    EXPECT_NE(breaches[0].find(part), std::string::npos) << breaches[0];
  }

  std::shared_ptr<const CudaFunctions> functions_;
  CudaFunctions::Context context_ = nullptr;
  CudaFunctions::Stream stream_ = nullptr;
  CudaFunctions::Event event_ = nullptr;
  void* host_ = nullptr;
  std::byte* device_ = nullptr;
};

TEST_F(PretendedCudaRules, CopiesHappenLateAndAnEventTellsWhen) {
  make_stream_and_memory();
  cuda().write(device_, std::vector<std::byte>(4096, std::byte{7}));
  ASSERT_EQ(functions_->copy_from_device(host_, device(), 4096, stream_), CudaResult::kSuccess);
  ASSERT_EQ(functions_->record_event(event_, stream_), CudaResult::kSuccess);
  EXPECT_EQ(functions_->query_event(event_), CudaResult::kNotReady);
  EXPECT_NE(static_cast<std::byte*>(host_)[0], std::byte{7}) << "not before its event";
  cuda().set_pace(PretendedPace::kRandom);
  for (int i = 0; functions_->query_event(event_) == CudaResult::kNotReady; ++i) ASSERT_LT(i, 10'000);
  EXPECT_EQ(static_cast<std::byte*>(host_)[4095], std::byte{7});
  EXPECT_TRUE(cuda().breaches().empty());
}

TEST_F(PretendedCudaRules, TheDefaultStreamIsABreach) {
  make_stream_and_memory();
  EXPECT_NE(functions_->copy_to_device(device(), host_, 16, nullptr), CudaResult::kSuccess);
  expect_breach("default stream");
}

TEST_F(PretendedCudaRules, AStreamOfTheProgramsTellsWhenItsWorkHasRunAndTakesNoCopies) {
  make_stream_and_memory();
  cuda().set_pace(PretendedPace::kRandom);
  void* const stream = cuda().make_program_stream();
  cuda().hold(stream, true);
  cuda().launch_write(stream, device_, std::vector<std::byte>(4096, std::byte{3}));
  ASSERT_EQ(functions_->record_event(event_, stream), CudaResult::kSuccess);
  for (int i = 0; i < 100; ++i) ASSERT_EQ(functions_->query_event(event_), CudaResult::kNotReady);
  cuda().hold(stream, false);
  for (int i = 0; functions_->query_event(event_) == CudaResult::kNotReady; ++i) ASSERT_LT(i, 10'000);
  EXPECT_EQ(cuda().read(device_, 4096), std::vector<std::byte>(4096, std::byte{3}));
  cuda().capture(true);
  EXPECT_EQ(functions_->record_event(event_, stream), CudaResult::kCaptureUnsafe);
  EXPECT_TRUE(cuda().breaches().empty());
  EXPECT_NE(functions_->copy_to_device(device(), host_, 16, stream), CudaResult::kSuccess);
  expect_breach("a stream of the program's");
}

TEST_F(PretendedCudaRules, MemoryThatIsNotPinnedIsABreach) {
  make_stream_and_memory();
  std::array<std::byte, 16> plain{};
  EXPECT_NE(functions_->copy_to_device(device(), plain.data(), 16, stream_), CudaResult::kSuccess);
  expect_breach("not pinned");
}

TEST_F(PretendedCudaRules, AnotherGpusContextIsABreach) {
  make_stream_and_memory();
  CudaFunctions::Context other = nullptr;
  functions_->retain_context(&other, 1);
  functions_->push_context(other);
  EXPECT_NE(functions_->copy_to_device(device(), host_, 16, stream_), CudaResult::kSuccess);
  functions_->pop_context(&other);
  expect_breach("of another context");
}

TEST_F(PretendedCudaRules, ACallThatWouldBreakACaptureIsABreach) {
  functions_->push_context(context_);
  EXPECT_NE(functions_->allocate_host(&host_, 16, kCudaHostAllocPortable), CudaResult::kSuccess);
  expect_breach("breaks a capture");
}

TEST_F(PretendedCudaRules, MakingAfterSetUpIsABreach) {
  enter();
  cuda().forbid_making(true);
  EXPECT_NE(functions_->allocate_host(&host_, 16, kCudaHostAllocPortable), CudaResult::kSuccess);
  expect_breach("after set-up");
}

TEST_F(PretendedCudaRules, FreeingUnderACopyIsABreach) {
  make_stream_and_memory();
  ASSERT_EQ(functions_->copy_to_device(device(), host_, 16, stream_), CudaResult::kSuccess);
  EXPECT_NE(functions_->free_host(host_), CudaResult::kSuccess);
  expect_breach("freed while a copy");
}

/// A kernel that adds one to bytes.
struct AddOne {
  std::byte* at = nullptr;
  std::size_t bytes = 0;

  static AddOne given(const void* parameter) { return *static_cast<const AddOne*>(parameter); }
  static test::PretendedKernel kernel() {
    return {"add_one", sizeof(AddOne),
            [](const void* parameter) {
              return std::vector<std::span<const std::byte>>{{given(parameter).at, given(parameter).bytes}};
            },
            [](const void* parameter, unsigned, unsigned) {
              const AddOne one = given(parameter);
              for (std::size_t i = 0; i < one.bytes; ++i)
                one.at[i] = static_cast<std::byte>(int(one.at[i]) + 1);
            }};
  }
};

class PretendedCudaKernels : public PretendedCudaRules {
 protected:
  void load() {
    cuda().add_kernel(AddOne::kernel());
    make_stream_and_memory();
    ASSERT_EQ(functions_->load_module(&module_, "an image"), CudaResult::kSuccess);
    ASSERT_EQ(functions_->function(&function_, module_, "add_one"), CudaResult::kSuccess);
    ASSERT_EQ(functions_->allocate_host(&mapped_, 4096, kCudaHostAllocPortable | kCudaHostAllocDeviceMap),
              CudaResult::kSuccess);
    std::memset(mapped_, 1, 4096);
  }
  CudaResult launch(void* at) {
    AddOne one{static_cast<std::byte*>(at), 4096};
    void* parameters[] = {&one};
    return functions_->launch(function_, 1, 1, 1, 32, 1, 1, 0, stream_, parameters, nullptr);
  }

  CudaFunctions::Module module_ = nullptr;
  CudaFunctions::Function function_ = nullptr;
  void* mapped_ = nullptr;
};

TEST_F(PretendedCudaKernels, RunLateAndAnEventTellsWhen) {
  load();
  CudaFunctions::Address address = 0;
  ASSERT_EQ(functions_->device_address(&address, mapped_, 0), CudaResult::kSuccess);
  ASSERT_EQ(launch(reinterpret_cast<void*>(address)), CudaResult::kSuccess);
  ASSERT_EQ(functions_->record_event(event_, stream_), CudaResult::kSuccess);
  EXPECT_EQ(functions_->query_event(event_), CudaResult::kNotReady);
  EXPECT_EQ(*static_cast<std::byte*>(mapped_), std::byte{1});
  cuda().set_pace(PretendedPace::kRandom);
  for (int i = 0; functions_->query_event(event_) == CudaResult::kNotReady; ++i) ASSERT_LT(i, 10'000);
  EXPECT_EQ(static_cast<std::byte*>(mapped_)[4095], std::byte{2});
  EXPECT_EQ(cuda().launches(), 1u);
  EXPECT_TRUE(cuda().breaches().empty());
}

TEST_F(PretendedCudaKernels, OnMemoryThatIsNotMappedAreABreach) {
  load();
  EXPECT_NE(launch(host_), CudaResult::kSuccess);
  expect_breach("not mapped");
}

TEST_F(PretendedCudaKernels, OfAModuleThatWasUnloadedAreABreach) {
  load();
  ASSERT_EQ(functions_->unload_module(module_), CudaResult::kSuccess);
  EXPECT_NE(launch(mapped_), CudaResult::kSuccess);
  expect_breach("unloaded");
}

TEST_F(PretendedCudaKernels, UnloadingAModuleUnderOneIsABreach) {
  load();
  ASSERT_EQ(launch(mapped_), CudaResult::kSuccess);
  EXPECT_NE(functions_->unload_module(module_), CudaResult::kSuccess);
  expect_breach("unloaded under a kernel");
}

TEST_F(PretendedCudaKernels, FreeingMemoryUnderOneIsABreach) {
  load();
  ASSERT_EQ(launch(mapped_), CudaResult::kSuccess);
  EXPECT_NE(functions_->free_host(mapped_), CudaResult::kSuccess);
  expect_breach("freed while a copy or kernel");
}

TEST_F(PretendedCudaKernels, OfAnotherGpusContextAreABreach) {
  load();
  CudaFunctions::Context other = nullptr;
  functions_->retain_context(&other, 1);
  functions_->push_context(other);
  EXPECT_NE(launch(mapped_), CudaResult::kSuccess);
  functions_->pop_context(&other);
  expect_breach("of another context");
}

TEST_F(PretendedCudaRules, AThreadThatIsNotAsItWasIsABreach) {
  functions_->push_context(context_);
  cuda().check_thread();
  expect_breach("left on the thread");
}

}  // namespace
}  // namespace tombolo::topology
