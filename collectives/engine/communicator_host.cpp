// Communicator's collectives among ranks of one host, through memory that all of them see.
#include "base/error.h"
#include "collectives/engine/communicator_state.h"
#include "transport/kernel.h"

namespace tombolo::collectives {
namespace {

/// Before the wait that counts time and makes system calls a rank looks so often at the others' memory: at
/// first without a break, where each has a processor (3 to 12 us, as long as the processor's pause takes);
/// then it lets others run in between, who may be the ones that it waits for, and gives each of them some
/// turns.
constexpr int kLooks = 256, kYields = 200;
/// So often a large call moves, by up to 2 MiB each time, before what else this rank has started does too.
constexpr int kMovesAlone = 8;

void pause() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

bool Communicator::State::sees_host_memory() {
  if (host->look() == HostGroup::Standing::kForming) {
    wait_until([this] { return host->look() != HostGroup::Standing::kForming; },
               [] { return std::string("waiting for the other ranks of this host"); });
  }
  if (host->standing() == HostGroup::Standing::kFormed) return true;
  options.log.info(
      "collectives go by messages, though all ranks are on host {}, since {}", members.front().host,
      host->refusal().empty() ? std::string("one of them cannot be seen by another") : host->refusal());
  host_calls.reset();
  host_collective.reset();
  host.reset();
  return false;
}

bool Communicator::State::spin_in_host_memory(std::uint64_t number) {
  const int looks = spin == Duration::zero() ? 0 : kLooks;
  int moves = 0;
  for (int look = 0; look < looks + kYields && !host_collective->mismatch(); ++look) {
    if (host_calls->progress()) {
      look = 0;
      if (++moves % kMovesAlone == 0) {
        if (signal->is_raised()) return false;
        turn_or_fail([] { return std::string("progress"); });
      }
    }
    if (host_calls->done(number)) return true;
    if (look < looks) {
      pause();
    } else {
      transport::kernel().sched_yield();
    }
  }
  return false;
}

void Communicator::State::check_host(const std::function<std::string()>& what) {
  if (!host || host->standing() == HostGroup::Standing::kRefused) return;
  const auto failed = [&](int peer, std::string_view why) {
    fail_all_ranks(Cause::kRemote, fmt::format("{}: {} failed: {}", what(), name_rank(peer), why));
  };
  if (const auto& wrong = host_collective->wrong_part()) {
    failed(wrong->rank,
           fmt::format("it sent {} bytes where {} were expected: the ranks call collectives in different "
                       "orders or with different counts",
                       wrong->sent, wrong->expected));
  }
  if (const auto peer = host_collective->mismatch()) {
    failed(*peer,
           "it made another call: the ranks call collectives in different orders or with different "
           "counts, types or operators");
  }
  host->look_for_ended();
  const bool forming = host->standing() == HostGroup::Standing::kForming;
  for (int peer = 0; peer < host->size(); ++peer) {
    const HostGroup::Absence absence = host->absence(peer);
    if (absence == HostGroup::Absence::kNone) continue;
    // Whoever has done its part may go. Only after it has gone is it certain how much it has done.
    if (forming ? host->has_voted(peer) : !host_collective->owes(peer)) continue;
    failed(peer,
           absence == HostGroup::Absence::kLeft ? "it has left the communicator" : "its process has ended");
  }
}

std::optional<int> Communicator::State::gone_before_connecting() {
  if (!mesh->opening()) return std::nullopt;
  if (const auto gone = absentees->gone(); gone && mesh->awaits(*gone)) return gone;
  if (!host || host->standing() == HostGroup::Standing::kRefused) return std::nullopt;
  for (int peer = 0; peer < host->size(); ++peer) {
    if (host->absence(peer) != HostGroup::Absence::kNone && mesh->awaits(peer)) return peer;
  }
  return std::nullopt;
}

}  // namespace tombolo::collectives
