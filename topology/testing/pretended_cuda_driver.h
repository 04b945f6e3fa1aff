// What the pretended CUDA driver knows, for its calls and for the test that controls it.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "topology/testing/pretended_cuda.h"

namespace tombolo::topology::test::cuda_driver {

// CUDA's values, spelled here anew: the test is that both sides know them alike.
inline constexpr int kDone = 0, kInvalidValue = 1, kOutOfMemory = 2, kNotInitialized = 3,
                     kInvalidDevice = 101, kInvalidImage = 200, kInvalidContext = 201, kNotFound = 500,
                     kNotReady = 600, kCaptureUnsafe = 900;
inline constexpr int kRelaxed = 2;
inline constexpr std::size_t kPage = 4096;
inline constexpr std::byte kPoison{0xa5};

struct Context {
  int gpu = 0;
  int retained = 0;
  bool is_primary = true;
};

struct Event;
struct Module {
  const Context* context = nullptr;
  std::map<std::string, PretendedKernel> kernels;
};

struct Command {
  /// kKernel is the program's, kLaunch the caller's.
  enum class Kind : std::uint8_t { kToHost, kToDevice, kRecord, kKernel, kLaunch } kind = Kind::kRecord;
  std::byte* host = nullptr;
  std::byte* device = nullptr;
  std::size_t bytes = 0;
  Event* event = nullptr;
  std::uint64_t recording = 0;
  std::vector<std::byte> written = {};  // by a kernel, to `device`
  const PretendedKernel* kernel = nullptr;
  std::vector<std::byte> parameter = {};
  std::vector<std::span<const std::byte>> touched = {};  // by a launch
  unsigned blocks = 0, threads = 0;
};

struct Stream {
  const Context* context = nullptr;
  bool is_programs = false, is_default = false, is_held = false;
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

struct HostMemory {
  std::size_t bytes = 0;
  bool is_mapped = false;  // for kernels
};

struct Thread {
  std::vector<Context*> contexts;
  int capture_mode = 0;
};
inline thread_local Thread this_thread;

struct Driver {
  std::mutex lock;
  PretendedCudaOptions options;
  std::mt19937_64 random{1};
  pid_t process = ::getpid();
  bool initialised = false, launches_held = false, making_forbidden = false, program_waits = false,
       capturing = false;
  int failure = 0, refusal = 0, allocations_retained = 0;
  std::uint64_t launches = 0, copies = 0, questions = 0, flushes = 0;
  struct NicWrite {
    std::byte* device = nullptr;
    std::vector<std::byte> bytes;
  };
  std::vector<NicWrite> nic_writes;  // that are not seen yet
  std::size_t most_to_host = 0, most_to_device = 0;
  std::vector<std::string> breaches;
  std::vector<std::unique_ptr<Context>> contexts;
  std::vector<std::unique_ptr<Stream>> streams;
  std::vector<std::unique_ptr<Event>> events;
  std::map<std::byte*, DeviceMemory> device_memory;
  std::map<std::byte*, HostMemory> host_memory;
  std::vector<PretendedKernel> kernels;
  std::vector<std::unique_ptr<Module>> modules;

  int breach(int result, std::string text) {
    breaches.push_back(std::move(text));
    return result;
  }
  /// Whether this process is a child of the one that uses the driver, and a breach if so.
  bool in_child(const char* function) {
    if (::getpid() == process) return false;
    breaches.push_back(std::string(function) + " in a forked child, where CUDA does not work");
    return true;
  }
  /// The thread's context, or null and a breach.
  const Context* checked(const char* function) {
    const auto refused = [&](const char* why) {
      breaches.push_back(std::string(function) + why);
      return nullptr;
    };
    if (!initialised) return refused(" before cuInit");
    if (in_child(function)) return nullptr;
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
  const HostMemory* find_host(const std::byte* at, std::size_t bytes) const {
    auto after = host_memory.upper_bound(const_cast<std::byte*>(at));
    if (after == host_memory.begin()) return nullptr;
    --after;
    return at + bytes <= after->first + after->second.bytes ? &after->second : nullptr;
  }
  bool is_pinned(const std::byte* at, std::size_t bytes) const { return find_host(at, bytes) != nullptr; }
  bool is_touched(const std::byte* begin, std::size_t bytes) const {
    const auto meets = [&](const std::byte* at, std::size_t size) {
      return at != nullptr && at < begin + bytes && at + size > begin;
    };
    for (const auto& stream : streams) {
      for (const Command& command : stream->queue) {
        if (meets(command.host, command.bytes) || meets(command.device, command.bytes)) return true;
        for (const auto& one : command.touched)
          if (meets(one.data(), one.size())) return true;
      }
    }
    return false;
  }
  bool is_queued(const PretendedKernel& kernel) const {
    return std::ranges::any_of(streams, [&](const auto& stream) {
      return std::ranges::any_of(stream->queue, [&](const Command& one) { return one.kernel == &kernel; });
    });
  }
  Module* find_module(const void* module) {
    for (const auto& one : modules)
      if (one.get() == module) return one.get();
    return nullptr;
  }
  /// That of a function, and its module.
  const PretendedKernel* find_kernel(const void* function, const Module** of) const {
    for (const auto& module : modules) {
      for (const auto& [name, kernel] : module->kernels) {
        if (&kernel != function) continue;
        *of = module.get();
        return &kernel;
      }
    }
    return nullptr;
  }
  void carry_out(Stream& stream) {
    const Command command = stream.queue.front();
    stream.queue.pop_front();
    if (command.kind == Command::Kind::kRecord) {
      command.event->happened = std::max(command.event->happened, command.recording);
      return;
    }
    if (command.kind == Command::Kind::kLaunch)
      return command.kernel->run(command.parameter.data(), command.blocks, command.threads);
    std::byte* begin = nullptr;
    DeviceMemory* memory = find_device(command.device, command.bytes, &begin);
    if (memory == nullptr) {
      breaches.emplace_back("a copy touches device memory that was released");
      return;
    }
    std::byte* alias = memory->alias + (command.device - begin);
    if (command.kind == Command::Kind::kKernel) std::ranges::copy(command.written, alias);
    if (command.kind == Command::Kind::kToHost) std::memcpy(command.host, alias, command.bytes);
    if (command.kind == Command::Kind::kToDevice) std::memcpy(alias, command.host, command.bytes);
  }
  void flush_nic_writes() {
    for (const NicWrite& one : nic_writes) {
      std::byte* begin = nullptr;
      if (const DeviceMemory* memory = find_device(one.device, one.bytes.size(), &begin))
        std::memcpy(memory->alias + (one.device - begin), one.bytes.data(), one.bytes.size());
    }
    nic_writes.clear();
  }
  bool can_go_on(const Stream& stream) const {
    if (stream.queue.empty() || stream.is_held) return false;
    return !launches_held || stream.queue.front().kind != Command::Kind::kLaunch;
  }
  void drain() {
    for (const auto& stream : streams)
      while (can_go_on(*stream)) carry_out(*stream);
  }
  void advance() {
    if (options.pace == PretendedPace::kNever || streams.empty()) return;
    if (options.pace == PretendedPace::kEarly) return drain();
    if (options.pace == PretendedPace::kLate && ++questions % 16 != 0) return;
    const std::size_t most = options.pace == PretendedPace::kLate ? 1 : random() % 4;
    for (std::size_t i = 0; i < most; ++i) {
      Stream& stream = *streams[random() % streams.size()];
      if (can_go_on(stream)) carry_out(stream);
    }
  }
  std::size_t queued(Command::Kind kind) const {
    std::size_t count = 0;
    for (const auto& stream : streams)
      count += static_cast<std::size_t>(
          std::ranges::count_if(stream->queue, [kind](const Command& one) { return one.kind == kind; }));
    return count;
  }
  Context* primary_of(int gpu) {
    for (const auto& one : contexts)
      if (one->gpu == gpu && one->is_primary) return one.get();
    contexts.push_back(std::make_unique<Context>(Context{gpu, 0}));
    return contexts.back().get();
  }
  Stream* programs_stream(const Context* context, bool is_default) {
    for (const auto& one : streams)
      if (is_default && one->is_default && one->context == context) return one.get();
    streams.push_back(std::make_unique<Stream>());
    streams.back()->context = context;
    streams.back()->is_programs = true;
    streams.back()->is_default = is_default;
    return streams.back().get();
  }
  Stream* find(const void* stream) {
    for (const auto& one : streams)
      if (one.get() == stream) return one.get();
    return nullptr;
  }
  /// The caller may leave to the driver an event that the program's work is still before.
  void forget_on_programs_streams(const Event* event) {
    for (const auto& stream : streams) {
      if (!stream->is_programs) continue;
      std::erase_if(stream->queue, [&](const Command& one) {
        if (one.event != event) return false;
        one.event->happened = std::max(one.event->happened, one.recording);
        return true;
      });
    }
  }
  Event* find_event(const void* event) {
    for (const auto& one : events)
      if (one.get() == event) return one.get();
    return nullptr;
  }
  /// Why `function` may not queue work of the caller's on the stream, as a result and a breach.
  int check_stream(const char* function, const Context* context, const Stream* stream) {
    if (context == nullptr) return kInvalidContext;
    if (failure != 0) return failure;
    if (stream == nullptr) return breach(kInvalidValue, std::string(function) + " on the default stream");
    if (stream->is_programs)
      return breach(kInvalidValue, std::string(function) + " on a stream of the program's");
    if (stream->context != context)
      return breach(kInvalidContext, std::string(function) + " on a stream of another context");
    return kDone;
  }
  int launch(const void* function, unsigned blocks, unsigned threads, void* on, const void* parameter) {
    const Context* context = checked("cuLaunchKernel");
    Stream* stream = find(on);
    if (const int result = check_stream("cuLaunchKernel", context, stream); result != kDone) return result;
    const Module* module = nullptr;
    const PretendedKernel* kernel = find_kernel(function, &module);
    if (kernel == nullptr) return breach(kInvalidValue, "a kernel was launched of a module that is unloaded");
    if (module->context != context)
      return breach(kInvalidContext, "a kernel of another context was launched");
    if (refusal != 0) return refusal;
    Command command;
    command.kind = Command::Kind::kLaunch;
    command.kernel = kernel;
    const auto* bytes = static_cast<const std::byte*>(parameter);
    command.parameter.assign(bytes, bytes + kernel->parameter_bytes);
    command.touched = kernel->touches(parameter);
    for (const auto& one : command.touched) {
      const HostMemory* memory = find_host(one.data(), one.size());
      if (memory == nullptr || !memory->is_mapped)
        return breach(kInvalidValue, "a kernel touches memory that is not mapped for it");
    }
    command.blocks = blocks;
    command.threads = threads;
    stream->queue.push_back(std::move(command));
    ++launches;
    if (options.pace == PretendedPace::kEarly) drain();
    return kDone;
  }
  int copy(const char* function, Command command, void* on) {
    const Context* context = checked(function);
    Stream* stream = find(on);
    if (const int result = check_stream(function, context, stream); result != kDone) return result;
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

/// That of the process.
Driver& driver();

}  // namespace tombolo::topology::test::cuda_driver
