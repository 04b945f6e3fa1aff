// The device that is a GPU, and the function by which the library gives it away.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/units.h"
#include "trainer/cuda/cuda_library.h"
#include "trainer/cuda/data_sheet.h"
#include "trainer/cuda/device.h"
#include "trainer/cuda/gpu/attention_library.h"
#include "trainer/cuda/gpu/cuda_check.h"
#include "trainer/cuda/gpu/launches.h"
#include "trainer/cuda/gpu/products.h"
#include "trainer/cuda/gpu/refusal.h"
#include "trainer/cuda/group/nccl_group.h"
#include "trainer/cuda/operations/operation_shape.h"
#include "trainer/cuda/parameters.h"

namespace tombolo::trainer::cuda::gpu {
namespace {

/// The oldest whose Tensor Cores know bf16, and whose copies to shared memory are asynchronous.
constexpr int kOldestMajor = 8;
/// Throws kUnsupported where there is no such GPU that we can use.
cudaDeviceProp properties_of(int number) {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess)
    fail(Cause::kUnsupported, "CUDA finds no usable GPU: {} ({}); this library needs a driver for CUDA {}.{}",
         cudaGetErrorString(status), cudaGetErrorName(status), CUDART_VERSION / 1000,
         CUDART_VERSION % 1000 / 10);
  if (number < 0 || number >= count)
    fail(Cause::kUnsupported, "there is no GPU {}: CUDA shows {}, from 0 on (CUDA_VISIBLE_DEVICES)", number,
         count);
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, number), "properties of the GPU");
  if (properties.major < kOldestMajor)
    fail(Cause::kUnsupported, "{} has compute capability {}.{}, but {}.0 or later is needed", properties.name,
         properties.major, properties.minor, kOldestMajor);
  return properties;
}

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(int number) : number_(number), properties_(properties_of(number)) {
    make_current();
    // Sums over ranks go first: they need few of the GPU's processors, and other ranks wait for them.
    int lowest = 0, highest = 0;
    check(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "priorities of the GPU's streams");
    for (std::size_t index = 0; index < streams_.size(); ++index)
      check(cudaStreamCreateWithPriority(&streams_[index], cudaStreamNonBlocking,
                                         index == index_of(Stream::kReduce) ? highest : lowest),
            "a stream of the GPU");
    products_ = std::make_unique<Products>();
    choose_attention();
  }

  ~CudaDevice() override {
    // Nothing can be done about errors here; the process ends soon.
    static_cast<void>(cudaSetDevice(number_));
    static_cast<void>(cudaDeviceSynchronize());
    attention_.reset();
    products_.reset();
    for (const cudaGraphExec_t graph : graphs_) static_cast<void>(cudaGraphExecDestroy(graph));
    for (const cudaEvent_t event : events_) static_cast<void>(cudaEventDestroy(event));
    for (const cudaStream_t stream : streams_) static_cast<void>(cudaStreamDestroy(stream));
    for (void* memory : memory_) static_cast<void>(cudaFree(memory));
    for (void* memory : host_memory_) static_cast<void>(cudaFreeHost(memory));
  }
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  std::string name() const override { return properties_.name; }
  std::string describe() const override {
    return fmt::format("{}, compute capability {}.{}, {} SMs, {:.1f} GiB, attention: {}{}", properties_.name,
                       properties_.major, properties_.minor, properties_.multiProcessorCount,
                       static_cast<double>(properties_.totalGlobalMem) / static_cast<double>(kGiB),
                       attention_ ? attention_->name() : "own",
                       why_own_attention_.empty() ? std::string() : " (" + why_own_attention_ + ")");
  }
  double peak(Element element) const override { return data_sheet_peak(properties_.name, element); }

  std::byte* allocate(std::size_t bytes, std::string_view what) override {
    make_current();
    void* memory = nullptr;
    const cudaError_t status = cudaMalloc(&memory, std::max<std::size_t>(bytes, 1));
    if (status != cudaSuccess) {
      std::size_t free = 0, total = 0;
      static_cast<void>(cudaGetLastError());
      static_cast<void>(cudaMemGetInfo(&free, &total));
      fail(Cause::kSystem,
           "GPU {} ({}): no memory for {}: {} asked, {} of {} free: {}; fewer rows per micro-batch, or more "
           "stages, take less",
           number_, properties_.name, what, format_size(bytes), format_size(free), format_size(total),
           cudaGetErrorString(status));
    }
    const std::scoped_lock lock(mutex_);
    memory_.push_back(memory);
    verify(cudaMemset(memory, 0, bytes), what);
    verify(cudaDeviceSynchronize(), what);  // the streams do not wait for the default one
    return static_cast<std::byte*>(memory);
  }

  std::byte* allocate_host(std::size_t bytes, std::string_view what) override {
    make_current();
    void* memory = nullptr;
    const cudaError_t status = cudaHostAlloc(&memory, std::max<std::size_t>(bytes, 1), cudaHostAllocPortable);
    if (status != cudaSuccess) {
      static_cast<void>(cudaGetLastError());
      fail(Cause::kSystem, "{} of page-locked memory of this host for {}: {}", format_size(bytes), what,
           cudaGetErrorString(status));
    }
    std::memset(memory, 0, bytes);
    const std::scoped_lock lock(mutex_);
    host_memory_.push_back(memory);
    return static_cast<std::byte*>(memory);
  }

  std::size_t attention_scratch(const Attention& attention) const override {
    make_current();
    if (attention_ && attention_->takes(attention)) return attention_->backward_scratch(attention);
    return own_attention_scratch(attention);
  }

  std::size_t workspace(const Attention& attention) const override {
    make_current();
    const bool by_library = attention_ && attention_->takes(attention);
    return std::max(kProductWorkspace, by_library ? attention_->forward_scratch(attention) : 0);
  }
  void lend_workspace(Stream stream, std::span<std::byte> memory) override {
    workspaces_[index_of(stream)] = memory;
  }

  void run(Stream stream, const Operation& operation) override {
    make_current();
    try {
      std::visit([&](const auto& one) { put(stream, one); }, operation);
      check(cudaGetLastError(), "launch");
    } catch (const Error& error) {
      fail(error.cause(), "GPU {} ({}): {} ({}): {}", number_, properties_.name, operation_name(operation),
           operation_shape(operation), error.what());
    }
  }

  void copy(Stream stream, void* to, const void* from, std::size_t bytes) override {
    make_current();
    verify(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, of(stream)),
           fmt::format("copy of {}", format_size(bytes)));
  }
  void clear(Stream stream, void* at, std::size_t bytes) override {
    make_current();
    verify(cudaMemsetAsync(at, 0, bytes, of(stream)), fmt::format("clearing {}", format_size(bytes)));
  }

  Event make_event() override { return add_event(cudaEventDisableTiming); }
  Event make_timed_event() override { return add_event(cudaEventDefault); }
  void record(Stream stream, Event event) override {
    make_current();
    verify(cudaEventRecordWithFlags(of(event), of(stream),
                                    capturing(stream) ? cudaEventRecordExternal : cudaEventRecordDefault),
           "recording an event");
  }
  void wait(Stream stream, Event event) override {
    make_current();
    verify(cudaStreamWaitEvent(of(stream), of(event),
                               capturing(stream) ? cudaEventWaitExternal : cudaEventWaitDefault),
           "waiting for an event");
  }
  bool done(Event event) override {
    make_current();
    const cudaError_t status = cudaEventQuery(of(event));
    if (status == cudaErrorNotReady) {
      static_cast<void>(cudaGetLastError());  // it is no failure that a later call should find
      return false;
    }
    verify(status, "an earlier operation");
    return true;
  }
  void synchronize(Event event) override {
    // A wait for a layer is short, and a sleep is at least 50 us; so the first look is often enough.
    constexpr int kLooks = 1000;
    constexpr auto kSleep = std::chrono::microseconds(20);
    const Deadline deadline = Deadline::after(kDeviceDeadline);
    for (int look = 0; !done(event); ++look) {
      if (look < kLooks) continue;
      if (deadline.passed())
        fail(Cause::kTimeout, "GPU {} ({}): what it was told is not done after {}", number_, properties_.name,
             format_seconds(to_seconds(deadline.allowed())));
      std::this_thread::sleep_for(kSleep);
    }
  }

  double seconds_between(Event begin, Event end) override {
    make_current();
    constexpr double kMilli = 1e-3;
    float milliseconds = 0;
    verify(cudaEventElapsedTime(&milliseconds, of(begin), of(end)), "the time between two events");
    return kMilli * static_cast<double>(milliseconds);
  }

  void begin_graph(Stream stream) override {
    make_current();
    // Other threads go on with calls of their own.
    verify(cudaStreamBeginCapture(of(stream), cudaStreamCaptureModeThreadLocal), "beginning a graph");
    capturing_[index_of(stream)] = true;
  }
  Graph end_graph(Stream stream) override {
    make_current();
    capturing_[index_of(stream)] = false;
    cudaGraph_t graph = nullptr;
    verify(cudaStreamEndCapture(of(stream), &graph), "ending a graph");
    cudaGraphExec_t instance = nullptr;
    const cudaError_t status = cudaGraphInstantiate(&instance, graph, 0);
    static_cast<void>(cudaGraphDestroy(graph));
    verify(status, "instantiating a graph");
    const std::scoped_lock lock(mutex_);
    graphs_.push_back(instance);
    return {static_cast<int>(graphs_.size()) - 1};
  }
  void launch(Stream stream, Graph graph) override {
    make_current();
    cudaGraphExec_t instance = nullptr;
    {
      const std::scoped_lock lock(mutex_);
      instance = graphs_.at(static_cast<std::size_t>(graph.index));
    }
    verify(cudaGraphLaunch(instance, of(stream)), "launching a graph");
  }

  std::string address() const override {
    std::string machine;
    std::ifstream("/proc/sys/kernel/random/boot_id") >> machine;
    return fmt::format("{} {:04x}:{:02x}:{:02x}", machine, properties_.pciDomainID, properties_.pciBusID,
                       properties_.pciDeviceID);
  }
  std::string group_library() override { return nccl().describe(); }
  GroupId make_group_id() override {
    make_current();
    GroupId id;
    nccl().check(nccl().get_unique_id(&id), fmt::format("{}: an id for a group", label()));
    return id;
  }
  std::unique_ptr<DeviceGroup> join_group(const GroupId& id, const GroupMember& member) override {
    return std::make_unique<NcclGroup>(nccl(), id, member, of(Stream::kReduce), label(),
                                       [this] { make_current(); });
  }

 private:
  /// Loaded once, and never unloaded: its threads may run until the process ends.
  static const NcclLibrary& nccl() {
    static const auto* library = new NcclLibrary(kNcclLibraryParameter.text());
    return *library;
  }
  /// As errors call it.
  std::string label() const { return fmt::format("GPU {} ({})", number_, properties_.name); }
  Event add_event(unsigned flags) {
    make_current();
    cudaEvent_t event = nullptr;
    verify(cudaEventCreateWithFlags(&event, flags), "an event");
    const std::scoped_lock lock(mutex_);
    events_.push_back(event);
    return {static_cast<int>(events_.size()) - 1};
  }
  static std::size_t index_of(Stream stream) { return static_cast<std::size_t>(stream); }
  cudaStream_t of(Stream stream) const { return streams_[index_of(stream)]; }
  cudaEvent_t of(Event event) {
    const std::scoped_lock lock(mutex_);
    return events_.at(static_cast<std::size_t>(event.index));
  }
  bool capturing(Stream stream) const { return capturing_[index_of(stream)]; }
  Launcher launcher(Stream stream) const { return {of(stream), properties_.multiProcessorCount}; }

  /// Every thread has a current GPU of its own.
  void make_current() const { check(cudaSetDevice(number_), "choosing the GPU"); }

  void verify(cudaError_t status, std::string_view what) const {
    if (status == cudaSuccess) return;
    static_cast<void>(cudaGetLastError());
    fail(Cause::kSystem, "GPU {} ({}): {}: {} ({})", number_, properties_.name, what,
         cudaGetErrorString(status), cudaGetErrorName(status));
  }

  /// cuDNN's attention where it is there and wanted.
  void choose_attention() {
    const std::string wanted = kCudaAttentionParameter.choice();
    if (wanted == "own") return;
    attention_ = open_cudnn_attention(why_own_attention_);
    if (!attention_ && wanted == "cudnn")
      fail(Cause::kUnsupported, "{}=cudnn, but {}", kCudaAttentionParameter.name, why_own_attention_);
    attention_is_forced_ = wanted == "cudnn";
  }

  /// Operations on one stream come one after the other, so that all may use the same.
  std::byte* lent_workspace(Stream stream, std::size_t bytes) const {
    const std::span<std::byte> lent = workspaces_[index_of(stream)];
    if (lent.size() < bytes)
      fail(Cause::kInternal, "the stream was lent a workspace of {}, but {} are needed",
           format_size(lent.size()), format_size(bytes));
    return lent.data();
  }

  template <typename One>
  void put(Stream stream, const One& operation) {
    if (const char* why = refusal(operation)) fail(Cause::kUnsupported, "{}", why);
    if constexpr (std::is_same_v<One, Product>)
      products_->run(launcher(stream), operation, lent_workspace(stream, kProductWorkspace));
    else if constexpr (std::is_same_v<One, Attention> || std::is_same_v<One, AttentionBackward>)
      put_attention(stream, operation);
    else
      launch_operation(launcher(stream), operation);
  }

  /// True where the library runs it; throws where it was forced and does not.
  bool by_library(const Attention& shape) {
    if (!attention_) return false;
    if (attention_->takes(shape)) return true;
    if (attention_is_forced_)
      fail(Cause::kUnsupported, "{}=cudnn, but {} does not run it", kCudaAttentionParameter.name,
           attention_->name());
    return false;
  }
  void put_attention(Stream stream, const Attention& attention) {
    if (!by_library(attention)) return launch_operation(launcher(stream), attention);
    attention_->run(launcher(stream), attention,
                    lent_workspace(stream, attention_->forward_scratch(attention)));
  }
  void put_attention(Stream stream, const AttentionBackward& attention) {
    const Attention shape{attention.out,   attention.qkv,      nullptr, attention.rows, attention.context,
                          attention.heads, attention.head_size};
    if (!by_library(shape)) return launch_operation(launcher(stream), attention);
    attention_->run(launcher(stream), attention);
  }

  const int number_;
  const cudaDeviceProp properties_;
  std::array<cudaStream_t, kStreams> streams_{};
  std::array<bool, kStreams> capturing_{};
  std::array<std::span<std::byte>, kStreams> workspaces_{};
  std::unique_ptr<Products> products_;
  std::unique_ptr<AttentionLibrary> attention_;
  std::string why_own_attention_;  ///< where no library was to be had
  bool attention_is_forced_ = false;

  std::mutex mutex_;  ///< of what follows
  std::vector<cudaEvent_t> events_;
  std::vector<cudaGraphExec_t> graphs_;
  std::vector<void*> memory_, host_memory_;
};

}  // namespace
}  // namespace tombolo::trainer::cuda::gpu

extern "C" __attribute__((visibility("default"))) tombolo::trainer::cuda::Device* tombolo_cuda_open_device(
    int version, int number, char* error, std::size_t error_bytes) noexcept {
  using namespace tombolo;
  using namespace tombolo::trainer::cuda;
  std::string text;
  try {
    if (version == kCudaLibraryVersion) return new gpu::CudaDevice(number);
    text = fmt::format("the program and {} are of different builds: version {} and {}", kCudaLibraryName,
                       version, kCudaLibraryVersion);
  } catch (const std::exception& failure) {
    text = failure.what();
  }
  if (error_bytes > 0) {
    const std::size_t length = std::min(text.size(), error_bytes - 1);
    std::memcpy(error, text.data(), length);
    error[length] = '\0';
  }
  return nullptr;
}
static_assert(
    std::is_same_v<decltype(&tombolo_cuda_open_device), tombolo::trainer::cuda::OpenDeviceFunction*>);
