// Runs real NCCL with several ranks on one GPU. Each rank is a process that claims a host of its own, so that
// every byte goes through the net plugin. Checks every element of every result, and measures. The environment
// selects the plugin; tests/gpu/run.sh sets it.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "tests/gpu/nccl_rank.h"

namespace {

using namespace tombolo::gpu_test;

constexpr int kUsage = 2;
constexpr int kNoGpu = 77;  // ctest counts this exit code as skipped

void read_all(int fd, void* data, std::size_t size) {
  for (auto* at = static_cast<char*>(data); size > 0;) {
    ssize_t got = ::read(fd, at, size);
    if (got <= 0) die("reading NCCL's id", "rank 0 is gone");
    at += got;
    size -= static_cast<std::size_t>(got);
  }
}

/// `ids`: a pipe per rank; rank 0 makes the id, since the process that does runs NCCL's bootstrap root.
[[noreturn]] void run_rank(const Options& options, int rank, const std::vector<std::array<int, 2>>& ids) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // A host of its own: NCCL then allows two ranks on one GPU and uses neither peer-to-peer nor shared memory.
  std::string host = "tombolo-test-host-" + std::to_string(rank);
  ::setenv("NCCL_HOSTID", host.c_str(), 1);
  ncclUniqueId id;
  if (rank == 0) {
    check(cudaSetDevice(0), "cudaSetDevice");
    check(ncclGetUniqueId(&id), "ncclGetUniqueId");
    for (int other = 1; other < options.ranks; ++other) {
      if (::write(ids[static_cast<std::size_t>(other)][1], &id, sizeof id) != sizeof id) {
        die("passing NCCL's id on", std::strerror(errno));
      }
    }
  } else {
    read_all(ids[static_cast<std::size_t>(rank)][0], &id, sizeof id);
  }
  Rank(options, rank, id).run();
  std::fflush(nullptr);
  std::_Exit(0);
}

/// A child looks for the GPU: a process that has initialised CUDA must not fork ranks.
int gpus() {
  pid_t child = ::fork();
  if (child == 0) {
    int count = 0;
    std::_Exit(cudaGetDeviceCount(&count) == cudaSuccess ? std::min(count, 100) : 0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 0;
}

int run(const Options& options) {
  if (gpus() == 0) {
    std::fprintf(stderr, "nccl_two_ranks: no usable GPU on this machine (is the driver loaded?): skipped\n");
    return kNoGpu;
  }
  std::vector<std::array<int, 2>> ids(static_cast<std::size_t>(options.ranks));
  for (auto& pipe : ids) {
    if (::pipe(pipe.data()) != 0) die("pipe", std::strerror(errno));
  }
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < options.ranks; ++rank) {
    pid_t child = ::fork();
    if (child < 0) die("fork", std::strerror(errno));
    if (child == 0) run_rank(options, rank, ids);
    ranks.push_back(child);
  }
  for (auto& pipe : ids) {
    ::close(pipe[0]);
    ::close(pipe[1]);
  }
  auto deadline = Clock::now() + std::chrono::seconds(options.seconds);
  bool failed = false;
  while (std::ranges::any_of(ranks, [](pid_t pid) { return pid != 0; })) {
    if (failed || Clock::now() > deadline) {
      if (!failed)
        std::fprintf(stderr, "nccl_two_ranks: not done after %d s: ranks killed\n", options.seconds);
      failed = true;
      for (pid_t pid : ranks) {
        if (pid != 0) ::kill(pid, SIGKILL);
      }
    }
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      int status = 0;
      if (ranks[rank] == 0 || ::waitpid(ranks[rank], &status, WNOHANG) != ranks[rank]) continue;
      ranks[rank] = 0;
      if (status == 0) continue;
      if (!failed) std::fprintf(stderr, "nccl_two_ranks: rank %zu failed (status 0x%x)\n", rank, status);
      failed = true;
    }
    ::poll(nullptr, 0, 20);
  }
  return failed ? 1 : 0;
}

int usage(const char* wrong) {
  std::fprintf(stderr,
               "nccl_two_ranks: cannot read '%s'\n"
               "usage: nccl_two_ranks [--ranks N (2 to 9)] [--seconds N] [--largest BYTES] [--communicators "
               "N] [--results FILE]\n",
               wrong);
  return kUsage;
}

}  // namespace

int main(int count, char** arguments) {
  Options options;
  for (int i = 1; i < count; i += 2) {
    std::string name = arguments[i];
    if (i + 1 == count) return usage(arguments[i]);
    std::string value = arguments[i + 1];
    char* rest = nullptr;
    long number = std::strtol(value.c_str(), &rest, 10);
    bool is_number = *rest == '\0' && number > 0;
    if (name == "--results") {
      options.results = value;
    } else if (name == "--ranks" && is_number && number >= 2 && number <= 9) {
      options.ranks = static_cast<int>(number);
    } else if (name == "--seconds" && is_number) {
      options.seconds = static_cast<int>(number);
    } else if (name == "--communicators" && is_number) {
      options.communicators = static_cast<int>(number);
    } else if (name == "--largest" && is_number) {
      options.largest = static_cast<std::size_t>(std::max(number, 4096L));
    } else {
      return usage(arguments[i]);
    }
  }
  return run(options);
}
