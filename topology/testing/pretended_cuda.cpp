#include "topology/testing/pretended_cuda.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

#include "topology/testing/pretended_cuda_driver.h"

namespace tombolo::topology::test {

namespace cuda_driver {

Driver& driver() {
  static Driver* one = new Driver;  // the library that uses it may be unloaded after this one's destructors
  return *one;
}

}  // namespace cuda_driver

using namespace cuda_driver;

PretendedCuda& PretendedCuda::instance() {
  static PretendedCuda one;
  return one;
}

void PretendedCuda::reset(const PretendedCudaOptions& options) {
  Driver& all = driver();
  const std::lock_guard guard(all.lock);
  all.drain();
  while (!all.device_memory.empty()) all.forget_device(all.device_memory.begin()->first);
  for (const auto& [at, memory] : all.host_memory) std::free(at);
  all.host_memory.clear();
  all.streams.clear();
  all.modules.clear();
  all.kernels.clear();
  all.events.clear();
  all.contexts.clear();
  all.options = options;
  all.process = ::getpid();
  all.random.seed(options.seed);
  all.initialised = all.launches_held = all.making_forbidden = all.program_waits = all.capturing = false;
  all.failure = all.refusal = 0;
  all.launches = all.copies = all.questions = all.flushes = 0;
  all.nic_writes.clear();
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

void PretendedCuda::write_by_nic(std::byte* device, std::span<const std::byte> bytes) {
  Driver& all = driver();
  const std::lock_guard guard(all.lock);
  if (bytes.empty()) return;
  all.nic_writes.push_back({device, {bytes.begin(), bytes.end()}});
  if (all.options.ordered_writes) all.flush_nic_writes();
}

std::vector<std::byte> PretendedCuda::read_by_nic(const std::byte* device, std::size_t bytes) {
  {
    const std::lock_guard guard(driver().lock);
    driver().flush_nic_writes();
  }
  return read(device, bytes);
}

bool PretendedCuda::is_device_memory(const std::byte* address) const {
  const std::lock_guard guard(driver().lock);
  return driver().find_device(address, 1) != nullptr;
}

std::uint64_t PretendedCuda::flushes() const {
  const std::lock_guard guard(driver().lock);
  return driver().flushes;
}

void* PretendedCuda::make_program_stream(int gpu) {
  Driver& all = driver();
  const std::lock_guard guard(all.lock);
  return all.programs_stream(all.primary_of(gpu), false);
}

void PretendedCuda::launch_write(void* stream, std::byte* device, std::span<const std::byte> bytes) {
  Driver& all = driver();
  const std::lock_guard guard(all.lock);
  Stream* on = stream == nullptr ? all.programs_stream(all.primary_of(0), true) : all.find(stream);
  Command command;
  command.kind = Command::Kind::kKernel;
  command.device = device;
  command.bytes = bytes.size();
  command.written.assign(bytes.begin(), bytes.end());
  on->queue.push_back(std::move(command));
}

void PretendedCuda::hold(void* stream, bool held) {
  const std::lock_guard guard(driver().lock);
  driver().find(stream)->is_held = held;
}

void PretendedCuda::capture(bool captured) {
  const std::lock_guard guard(driver().lock);
  driver().capturing = captured;
}

void PretendedCuda::add_kernel(PretendedKernel kernel) {
  const std::lock_guard guard(driver().lock);
  driver().kernels.push_back(std::move(kernel));
}

void PretendedCuda::refuse_launches(int result) {
  const std::lock_guard guard(driver().lock);
  driver().refusal = result;
}

void PretendedCuda::hold_launches(bool held) {
  const std::lock_guard guard(driver().lock);
  driver().launches_held = held;
}

std::uint64_t PretendedCuda::launches() const {
  const std::lock_guard guard(driver().lock);
  return driver().launches;
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
  held.streams =
      static_cast<int>(std::ranges::count_if(all.streams, [](const auto& one) { return !one->is_programs; }));
  held.events = static_cast<int>(all.events.size());
  held.host_allocations = static_cast<int>(all.host_memory.size());
  for (const auto& [at, memory] : all.host_memory) held.host_bytes += memory.bytes;
  held.modules = static_cast<int>(all.modules.size());
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

}  // namespace tombolo::topology::test
