#include "topology/testing/pretended_cuda.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>

namespace tombolo::topology::test {
namespace {

// CUDA's values, spelled here anew: the test is that both sides know them alike.
constexpr int kDone = 0, kInvalidValue = 1, kOutOfMemory = 2, kNotInitialized = 3, kInvalidDevice = 101,
              kInvalidContext = 201, kNotReady = 600, kCaptureUnsafe = 900;
constexpr int kRelaxed = 2;
constexpr std::size_t kPage = 4096;
constexpr std::byte kPoison{0xa5};

struct Context {
  int gpu = 0;
  int retained = 0;
  bool is_primary = true;
};

struct Event;
struct Command {
  enum class Kind : std::uint8_t { kToHost, kToDevice, kRecord } kind = Kind::kRecord;
  std::byte* host = nullptr;
  std::byte* device = nullptr;
  std::size_t bytes = 0;
  Event* event = nullptr;
  std::uint64_t recording = 0;
};

struct Stream {
  const Context* context = nullptr;
  std::deque<Command> queue;
};

struct Event {
  const Context* context = nullptr;
  std::uint64_t recorded = 0, happened = 0;
};

struct DeviceMemory {
  std::size_t bytes = 0, mapped = 0;
  int gpu = 0;
  PretendedCuda::MemoryOf of = PretendedCuda::MemoryOf::kNoContext;
  std::byte* alias = nullptr;  // the same pages, readable and writable
};

struct Thread {
  std::vector<Context*> contexts;
  int capture_mode = 0;
};
thread_local Thread this_thread;

struct Driver {
  std::mutex lock;
  PretendedCudaOptions options;
  std::mt19937_64 random{1};
  bool initialised = false, making_forbidden = false, program_waits = false;
  int failure = 0, allocations_retained = 0;
  std::uint64_t copies = 0, questions = 0;
  std::size_t most_to_host = 0, most_to_device = 0;
  std::vector<std::string> breaches;
  std::vector<std::unique_ptr<Context>> contexts;
  std::vector<std::unique_ptr<Stream>> streams;
  std::vector<std::unique_ptr<Event>> events;
  std::map<std::byte*, DeviceMemory> device_memory;
  std::map<std::byte*, std::size_t> host_memory;

  int breach(int result, std::string text) {
    breaches.push_back(std::move(text));
    return result;
  }
  /// The thread's context, or null and a breach.
  const Context* checked(const char* function) {
    const auto refused = [&](const char* why) {
      breaches.push_back(std::string(function) + why);
      return nullptr;
    };
    if (!initialised) return refused(" before cuInit");
    if (this_thread.capture_mode != kRelaxed)
      return refused(" breaks a capture in another thread: the mode is not relaxed");
    if (this_thread.contexts.empty()) return refused(" without a context");
    if (program_waits && this_thread.contexts.back()->is_primary)
      return refused(" would wait for the program");
    return this_thread.contexts.back();
  }
  DeviceMemory* find_device(const std::byte* at, std::size_t bytes, std::byte** begin = nullptr) {
    auto after = device_memory.upper_bound(const_cast<std::byte*>(at));
    if (after == device_memory.begin()) return nullptr;
    --after;
    if (at + bytes > after->first + after->second.bytes) return nullptr;
    if (begin != nullptr) *begin = after->first;
    return &after->second;
  }
  bool is_pinned(const std::byte* at, std::size_t bytes) {
    auto after = host_memory.upper_bound(const_cast<std::byte*>(at));
    if (after == host_memory.begin()) return false;
    --after;
    return at + bytes <= after->first + after->second;
  }
  bool is_touched(const std::byte* begin, std::size_t bytes) const {
    for (const auto& stream : streams)
      for (const Command& command : stream->queue)
        for (const std::byte* at : {command.host, command.device})
          if (at != nullptr && at < begin + bytes && at + command.bytes > begin) return true;
    return false;
  }
  void carry_out(Stream& stream) {
    const Command command = stream.queue.front();
    stream.queue.pop_front();
    if (command.kind == Command::Kind::kRecord) {
      command.event->happened = std::max(command.event->happened, command.recording);
      return;
    }
    std::byte* begin = nullptr;
    DeviceMemory* memory = find_device(command.device, command.bytes, &begin);
    if (memory == nullptr) {
      breaches.emplace_back("a copy touches device memory that was released");
      return;
    }
    std::byte* alias = memory->alias + (command.device - begin);
    if (command.kind == Command::Kind::kToHost) std::memcpy(command.host, alias, command.bytes);
    if (command.kind == Command::Kind::kToDevice) std::memcpy(alias, command.host, command.bytes);
  }
  void drain() {
    for (const auto& stream : streams)
      while (!stream->queue.empty()) carry_out(*stream);
  }
  void advance() {
    if (options.pace == PretendedPace::kNever || streams.empty()) return;
    if (options.pace == PretendedPace::kEarly) return drain();
    if (options.pace == PretendedPace::kLate && ++questions % 16 != 0) return;
    const std::size_t most = options.pace == PretendedPace::kLate ? 1 : random() % 4;
    for (std::size_t i = 0; i < most; ++i) {
      Stream& stream = *streams[random() % streams.size()];
      if (!stream.queue.empty()) carry_out(stream);
    }
  }
  std::size_t queued(Command::Kind kind) const {
    std::size_t count = 0;
    for (const auto& stream : streams)
      count += static_cast<std::size_t>(
          std::ranges::count_if(stream->queue, [kind](const Command& one) { return one.kind == kind; }));
    return count;
  }
  Stream* find(const void* stream) {
    for (const auto& one : streams)
      if (one.get() == stream) return one.get();
    return nullptr;
  }
  Event* find_event(const void* event) {
    for (const auto& one : events)
      if (one.get() == event) return one.get();
    return nullptr;
  }
  int copy(const char* function, Command command, void* on) {
    const Context* context = checked(function);
    if (context == nullptr) return kInvalidContext;
    if (failure != 0) return failure;
    Stream* stream = find(on);
    if (stream == nullptr) return breach(kInvalidValue, std::string(function) + " on the default stream");
    if (stream->context != context)
      return breach(kInvalidContext, std::string(function) + " on a stream of another context");
    const DeviceMemory* memory = find_device(command.device, command.bytes);
    if (memory == nullptr || memory->gpu != context->gpu)
      return breach(kInvalidValue, std::string(function) + " of memory that is not this GPU's");
    if (memory->of == PretendedCuda::MemoryOf::kPrimaryContext && !context->is_primary)
      return breach(kInvalidContext,
                    std::string(function) + " of the primary context's memory in another waits unseen");
    if (!is_pinned(command.host, command.bytes))
      return breach(kInvalidValue, std::string(function) + " with memory that is not pinned would wait");
    if (command.kind == Command::Kind::kToHost)
      std::memset(command.host, static_cast<int>(kPoison), command.bytes);
    ++copies;
    stream->queue.push_back(command);
    most_to_host = std::max(most_to_host, queued(Command::Kind::kToHost));
    most_to_device = std::max(most_to_device, queued(Command::Kind::kToDevice));
    if (options.pace == PretendedPace::kEarly) drain();
    return kDone;
  }
  void forget_device(std::byte* memory) {
    const auto found = device_memory.find(memory);
    ::munmap(memory, found->second.mapped);
    ::munmap(found->second.alias, found->second.mapped);
    device_memory.erase(found);
  }
};

Driver& driver() {
  static Driver* one = new Driver;  // the library that uses it may be unloaded after this one's destructors
  return *one;
}

}  // namespace

PretendedCuda& PretendedCuda::instance() {
  static PretendedCuda one;
  return one;
}

void PretendedCuda::reset(const PretendedCudaOptions& options) {
  Driver& all = driver();
  const std::lock_guard guard(all.lock);
  all.drain();
  while (!all.device_memory.empty()) all.forget_device(all.device_memory.begin()->first);
  for (const auto& [at, bytes] : all.host_memory) std::free(at);
  all.host_memory.clear();
  all.streams.clear();
  all.events.clear();
  all.contexts.clear();
  all.options = options;
  all.random.seed(options.seed);
  all.initialised = all.making_forbidden = all.program_waits = false;
  all.failure = 0;
  all.copies = all.questions = 0;
  all.most_to_host = all.most_to_device = 0;
  all.breaches.clear();
  this_thread = {};
}

void PretendedCuda::set_pace(PretendedPace pace) {
  const std::lock_guard guard(driver().lock);
  driver().options.pace = pace;
}

std::byte* PretendedCuda::allocate(std::size_t bytes, int gpu, MemoryOf of) {
  Driver& all = driver();
  const std::lock_guard guard(all.lock);
  DeviceMemory made;
  made.bytes = std::max<std::size_t>(bytes, 1);
  made.gpu = gpu;
  made.of = of;
  made.mapped = (made.bytes + kPage - 1) / kPage * kPage;
  const int file = ::memfd_create("pretended GPU memory", MFD_CLOEXEC);
  if (file < 0 || ::ftruncate(file, static_cast<off_t>(made.mapped)) != 0) std::abort();
  void* address = ::mmap(nullptr, made.mapped, PROT_NONE, MAP_SHARED, file, 0);
  void* alias = ::mmap(nullptr, made.mapped, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  if (address == MAP_FAILED || alias == MAP_FAILED) std::abort();
  made.alias = static_cast<std::byte*>(alias);
  std::memset(alias, static_cast<int>(kPoison), made.mapped);
  all.device_memory.emplace(static_cast<std::byte*>(address), made);
  return static_cast<std::byte*>(address);
}

void PretendedCuda::release(std::byte* memory) {
  Driver& all = driver();
  const std::lock_guard guard(all.lock);
  if (!all.device_memory.contains(memory)) return;  // forgotten
  if (all.is_touched(memory, all.device_memory.at(memory).bytes))
    all.breaches.emplace_back("device memory was released while a copy of it was queued");
  all.forget_device(memory);
}

void PretendedCuda::write(std::byte* device, std::span<const std::byte> bytes) {
  Driver& all = driver();
  const std::lock_guard guard(all.lock);
  std::byte* begin = nullptr;
  DeviceMemory* memory = all.find_device(device, bytes.size(), &begin);
  if (memory == nullptr) std::abort();
  if (!bytes.empty()) std::memcpy(memory->alias + (device - begin), bytes.data(), bytes.size());
}

std::vector<std::byte> PretendedCuda::read(const std::byte* device, std::size_t bytes) {
  Driver& all = driver();
  const std::lock_guard guard(all.lock);
  std::byte* begin = nullptr;
  DeviceMemory* memory = all.find_device(device, bytes, &begin);
  if (memory == nullptr) std::abort();
  const std::byte* from = memory->alias + (device - begin);
  return {from, from + bytes};
}

void PretendedCuda::forbid_making(bool forbidden) {
  const std::lock_guard guard(driver().lock);
  driver().making_forbidden = forbidden;
}

void PretendedCuda::let_program_wait(bool waits) {
  const std::lock_guard guard(driver().lock);
  driver().program_waits = waits;
}

void PretendedCuda::fail_with(int result) {
  const std::lock_guard guard(driver().lock);
  driver().failure = result;
  if (result == 0) return;
  for (const auto& stream : driver().streams) stream->queue.clear();
  for (const auto& event : driver().events) event->happened = event->recorded;
}

void PretendedCuda::check_thread() {
  const std::lock_guard guard(driver().lock);
  if (!this_thread.contexts.empty()) driver().breaches.emplace_back("a context was left on the thread");
  if (this_thread.capture_mode != 0) driver().breaches.emplace_back("the thread's capture mode was changed");
}

std::vector<std::string> PretendedCuda::breaches() const {
  const std::lock_guard guard(driver().lock);
  return driver().breaches;
}

PretendedCudaHoldings PretendedCuda::holdings() const {
  Driver& all = driver();
  const std::lock_guard guard(all.lock);
  PretendedCudaHoldings held;
  for (const auto& context : all.contexts) held.contexts += context->retained;
  held.allocations = all.allocations_retained;
  held.streams = static_cast<int>(all.streams.size());
  held.events = static_cast<int>(all.events.size());
  held.host_allocations = static_cast<int>(all.host_memory.size());
  for (const auto& [at, bytes] : all.host_memory) held.host_bytes += bytes;
  return held;
}

std::size_t PretendedCuda::most_copies_to_host() const {
  const std::lock_guard guard(driver().lock);
  return driver().most_to_host;
}

std::size_t PretendedCuda::most_copies_to_device() const {
  const std::lock_guard guard(driver().lock);
  return driver().most_to_device;
}

std::uint64_t PretendedCuda::copies() const {
  const std::lock_guard guard(driver().lock);
  return driver().copies;
}

extern "C" {

int cuInit(unsigned flags) {
  Driver& all = driver();
  const std::lock_guard guard(all.lock);
  if (!all.options.starts || flags != 0) return kNotInitialized;
  all.initialised = true;
  return kDone;
}

int cuDriverGetVersion(int* version) {
  *version = 13000;
  return kDone;
}

int cuDeviceGetCount(int* count) {
  const std::lock_guard guard(driver().lock);
  *count = driver().options.gpus;
  return kDone;
}

int cuDeviceGet(int* device, int ordinal) {
  const std::lock_guard guard(driver().lock);
  if (ordinal < 0 || ordinal >= driver().options.gpus) return kInvalidDevice;
  *device = ordinal;
  return kDone;
}

int cuDeviceGetAttribute(int* value, int attribute, int) {
  const std::lock_guard guard(driver().lock);
  if (attribute == 116) {
    *value = driver().options.gpu_direct_rdma ? 1 : 0;
  } else if (attribute == 124) {
    *value = driver().options.dma_buf ? 1 : 0;
  } else {
    return kInvalidValue;
  }
  return kDone;
}

int cuDevicePrimaryCtxRetain(void** context, int device) {
  Driver& all = driver();
  const std::lock_guard guard(all.lock);
  if (device < 0 || device >= all.options.gpus) return kInvalidDevice;
  for (const auto& one : all.contexts) {
    if (one->gpu != device || !one->is_primary) continue;
    ++one->retained;
    *context = one.get();
    return kDone;
  }
  all.contexts.push_back(std::make_unique<Context>(Context{device, 1}));
  *context = all.contexts.back().get();
  return kDone;
}

int cuCtxCreate_v2(void** context, unsigned flags, int device) {
  Driver& all = driver();
  const std::lock_guard guard(all.lock);
  if (flags != 0 || device < 0 || device >= all.options.gpus) return kInvalidValue;
  if (!all.options.contexts) return kOutOfMemory;
  all.contexts.push_back(std::make_unique<Context>(Context{device, 1, false}));
  *context = all.contexts.back().get();
  this_thread.contexts.push_back(all.contexts.back().get());
  return kDone;
}

int cuCtxDestroy_v2(void* context) {
  Driver& all = driver();
  const std::lock_guard guard(all.lock);
  const auto is_it = [&](const auto& one) { return one.get() == context && !one->is_primary; };
  if (std::ranges::none_of(all.contexts, is_it))
    return all.breach(kInvalidContext, "a context was destroyed that was not made");
  const auto in_it = [&](const auto& one) { return one->context == context; };
  if (std::ranges::any_of(all.streams, in_it) || std::ranges::any_of(all.events, in_it))
    all.breaches.emplace_back("a context was destroyed with its streams or events");
  std::erase_if(all.contexts, is_it);
  return kDone;
}

int cuDevicePrimaryCtxRelease_v2(int device) {
  Driver& all = driver();
  const std::lock_guard guard(all.lock);
  for (const auto& one : all.contexts)
    if (one->gpu == device && one->is_primary && one->retained-- > 0) return kDone;
  return all.breach(kInvalidContext, "a context was released that was not retained");
}

int cuCtxGetDevice(int* device) {
  if (this_thread.contexts.empty()) return kInvalidContext;
  *device = this_thread.contexts.back()->gpu;
  return kDone;
}

int cuCtxPushCurrent_v2(void* context) {
  this_thread.contexts.push_back(static_cast<Context*>(context));
  return kDone;
}

int cuCtxPopCurrent_v2(void** context) {
  if (this_thread.contexts.empty()) {
    const std::lock_guard guard(driver().lock);
    return driver().breach(kInvalidContext, "a context was popped that nobody pushed");
  }
  if (context != nullptr) *context = this_thread.contexts.back();
  this_thread.contexts.pop_back();
  return kDone;
}

int cuThreadExchangeStreamCaptureMode(int* mode) {
  std::swap(this_thread.capture_mode, *mode);
  return kDone;
}

int cuStreamCreate(void** stream, unsigned flags) {
  Driver& all = driver();
  const std::lock_guard guard(all.lock);
  const Context* context = all.checked("cuStreamCreate");
  if (context == nullptr) return kInvalidContext;
  if (flags != 1) return all.breach(kInvalidValue, "a stream that waits for the default stream");
  if (all.making_forbidden) return all.breach(kOutOfMemory, "a stream was made after set-up");
  all.streams.push_back(std::make_unique<Stream>());
  all.streams.back()->context = context;
  *stream = all.streams.back().get();
  return kDone;
}

int cuStreamDestroy_v2(void* stream) {
  Driver& all = driver();
  const std::lock_guard guard(all.lock);
  if (all.checked("cuStreamDestroy") == nullptr) return kInvalidContext;
  Stream* found = all.find(stream);
  if (found == nullptr) return all.breach(kInvalidValue, "a stream was destroyed that does not exist");
  while (!found->queue.empty()) all.carry_out(*found);  // the driver lets a stream finish
  std::erase_if(all.streams, [&](const auto& one) { return one.get() == stream; });
  return kDone;
}

int cuEventCreate(void** event, unsigned flags) {
  Driver& all = driver();
  const std::lock_guard guard(all.lock);
  const Context* context = all.checked("cuEventCreate");
  if (context == nullptr) return kInvalidContext;
  if (flags != 2) return all.breach(kInvalidValue, "an event that keeps time, and is slow");
  if (all.making_forbidden) return all.breach(kOutOfMemory, "an event was made after set-up");
  all.events.push_back(std::make_unique<Event>());
  all.events.back()->context = context;
  *event = all.events.back().get();
  return kDone;
}

int cuEventRecord(void* event, void* stream) {
  Driver& all = driver();
  const std::lock_guard guard(all.lock);
  const Context* context = all.checked("cuEventRecord");
  if (context == nullptr) return kInvalidContext;
  if (all.failure != 0) return all.failure;
  Event* found = all.find_event(event);
  Stream* on = all.find(stream);
  if (found == nullptr || on == nullptr || found->context != context || on->context != context)
    return all.breach(kInvalidValue,
                      "an event was recorded on a stream of another context, or the default one");
  if (found->recorded != found->happened)
    return all.breach(kInvalidValue, "an event was recorded anew before it had happened");
  Command command;
  command.event = found;
  command.recording = ++found->recorded;
  on->queue.push_back(command);
  if (all.options.pace == PretendedPace::kEarly) all.drain();
  return kDone;
}

int cuEventQuery(void* event) {
  Driver& all = driver();
  const std::lock_guard guard(all.lock);
  if (this_thread.capture_mode != kRelaxed)
    return all.breach(kCaptureUnsafe,
                      "cuEventQuery breaks a capture in another thread: the mode is not relaxed");
  if (all.failure != 0) return all.failure;
  Event* found = all.find_event(event);
  if (found == nullptr) return all.breach(kInvalidValue, "an event was asked that does not exist");
  all.advance();
  return found->happened == found->recorded ? kDone : kNotReady;
}

int cuEventDestroy_v2(void* event) {
  Driver& all = driver();
  const std::lock_guard guard(all.lock);
  if (all.checked("cuEventDestroy") == nullptr) return kInvalidContext;
  const Event* found = all.find_event(event);
  if (found == nullptr) return all.breach(kInvalidValue, "an event was destroyed that does not exist");
  if (found->happened != found->recorded)
    all.breaches.emplace_back("an event was destroyed before it had happened");
  std::erase_if(all.events, [&](const auto& one) { return one.get() == event; });
  return kDone;
}

int cuMemHostAlloc(void** memory, std::size_t bytes, unsigned flags) {
  Driver& all = driver();
  const std::lock_guard guard(all.lock);
  if (all.checked("cuMemHostAlloc") == nullptr) return kInvalidContext;
  if (flags != 1) return all.breach(kInvalidValue, "pinned memory that other contexts do not know");
  if (all.making_forbidden) return all.breach(kOutOfMemory, "pinned memory was allocated after set-up");
  *memory = std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage);
  if (*memory == nullptr) return kOutOfMemory;
  all.host_memory.emplace(static_cast<std::byte*>(*memory), bytes);
  return kDone;
}

int cuMemFreeHost(void* memory) {
  Driver& all = driver();
  const std::lock_guard guard(all.lock);
  if (all.checked("cuMemFreeHost") == nullptr) return kInvalidContext;
  const auto found = all.host_memory.find(static_cast<std::byte*>(memory));
  if (found == all.host_memory.end()) return all.breach(kInvalidValue, "memory was freed that is not pinned");
  if (all.is_touched(found->first, found->second))
    return all.breach(kInvalidValue, "pinned memory was freed while a copy of it was queued");
  std::free(memory);
  all.host_memory.erase(found);
  return kDone;
}

int cuMemcpyDtoHAsync_v2(void* to, unsigned long long from, std::size_t bytes, void* stream) {
  const std::lock_guard guard(driver().lock);
  return driver().copy("cuMemcpyDtoHAsync",
                       {Command::Kind::kToHost, static_cast<std::byte*>(to),
                        reinterpret_cast<std::byte*>(from), bytes, nullptr, 0},
                       stream);
}

int cuMemcpyHtoDAsync_v2(unsigned long long to, const void* from, std::size_t bytes, void* stream) {
  const std::lock_guard guard(driver().lock);
  return driver().copy("cuMemcpyHtoDAsync",
                       {Command::Kind::kToDevice, static_cast<std::byte*>(const_cast<void*>(from)),
                        reinterpret_cast<std::byte*>(to), bytes, nullptr, 0},
                       stream);
}

int cuPointerGetAttribute(void* value, int attribute, unsigned long long pointer) {
  Driver& all = driver();
  const std::lock_guard guard(all.lock);
  auto* at = reinterpret_cast<std::byte*>(pointer);
  const DeviceMemory* memory = all.find_device(at, 1);
  if (memory == nullptr && !all.is_pinned(at, 1)) return kInvalidValue;
  if (attribute == 2) {
    *static_cast<unsigned*>(value) = memory != nullptr ? 2 : 1;
  } else if (attribute == 9) {
    *static_cast<int*>(value) = memory != nullptr ? memory->gpu : 0;
  } else {
    return kInvalidValue;
  }
  return kDone;
}

int cuMemRetainAllocationHandle(unsigned long long* handle, void* address) {
  Driver& all = driver();
  const std::lock_guard guard(all.lock);
  std::byte* begin = nullptr;
  const DeviceMemory* memory = all.find_device(static_cast<std::byte*>(address), 1, &begin);
  if (memory == nullptr || memory->of != PretendedCuda::MemoryOf::kNoContext) return kInvalidValue;
  ++all.allocations_retained;
  *handle = reinterpret_cast<std::uintptr_t>(begin);
  return kDone;
}

int cuMemRelease(unsigned long long) {
  Driver& all = driver();
  const std::lock_guard guard(all.lock);
  if (all.allocations_retained == 0)
    return all.breach(kInvalidValue, "an allocation was released that was not retained");
  --all.allocations_retained;
  return kDone;
}

int cuGetErrorName(int error, const char** name) {
  switch (error) {
    case kInvalidValue:
      *name = "CUDA_ERROR_INVALID_VALUE";
      break;
    case kOutOfMemory:
      *name = "CUDA_ERROR_OUT_OF_MEMORY";
      break;
    case kNotInitialized:
      *name = "CUDA_ERROR_NOT_INITIALIZED";
      break;
    case kInvalidContext:
      *name = "CUDA_ERROR_INVALID_CONTEXT";
      break;
    case 719:
      *name = "CUDA_ERROR_LAUNCH_FAILED";
      break;
    default:
      *name = nullptr;
      return kInvalidValue;
  }
  return kDone;
}

}  // extern "C"

}  // namespace tombolo::topology::test
