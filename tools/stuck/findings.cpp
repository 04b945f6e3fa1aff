#include "tools/stuck/findings.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "base/format.h"
#include "base/units.h"

namespace tombolo::tools::stuck {
namespace {

using collectives::RankReport;
using collectives::ReportedCommunicator;
using collectives::ReportedLink;
using collectives::ReportedOperation;
using collectives::ReportedWait;
using collectives::WaitKind;
using Ranks = std::vector<std::int64_t>;

/// A rank in one of the communicators in which it waits.
struct Place {
  const RankView* rank;
  const ReportedCommunicator* communicator;
};

std::string doing_of(const ReportedCommunicator& communicator) {
  const ReportedOperation* current = communicator.current();
  return fmt::format("{} of {}", current != nullptr ? current->text() : communicator.doing,
                     communicator.name);
}

std::string doing_of(const ReportedCommunicator& communicator, const ReportedWait& wait) {
  if (wait.number == 0) return fmt::format("a message of {}", communicator.name);
  for (const ReportedOperation& one : communicator.operations) {
    if (one.number == wait.number) return fmt::format("{} of {}", one.text(), communicator.name);
  }
  return fmt::format("#{} of {}", wait.number, communicator.name);
}

const ReportedLink* link_of(const ReportedCommunicator& communicator, std::int64_t peer,
                            std::int64_t channel) {
  for (const ReportedLink& one : communicator.links) {
    if (one.peer == peer && one.channel == channel) return &one;
  }
  return nullptr;
}

std::string what_of(const ReportedWait& wait) {
  const std::string which =
      wait.messages == 0 ? "" : fmt::format(" {} of {}", wait.messages_done + 1, wait.messages);
  switch (wait.kind) {
    case WaitKind::kReceive:
      return fmt::format("to receive message{} ({})", which, format_size(wait.bytes));
    case WaitKind::kSend:
      return fmt::format("to have sent message{} ({})", which, format_size(wait.bytes));
    case WaitKind::kConnect:
      return "to be connected";
    case WaitKind::kMemory:
      break;
  }
  return "to see its part";
}

class Finder {
 public:
  explicit Finder(const JobView& job) : job_(job) {
    for (const RankView& rank : job.ranks) {
      if (!rank.report) continue;
      for (const ReportedCommunicator& one : rank.report->communicators) places_.push_back({&rank, &one});
    }
  }

  Findings find() {
    add_groups();
    add_waits();
    add_ended();
    add_mismatches();
    add_absent();
    if (findings_.culprits.empty()) add_behind();
    if (findings_.culprits.empty()) add_order();
    if (findings_.culprits.empty()) add_links();
    return std::move(findings_);
  }

 private:
  const RankView* view(std::int64_t rank) const {
    const auto at = std::ranges::find(job_.ranks, rank, &RankView::rank);
    return at == job_.ranks.end() ? nullptr : &*at;
  }

  std::string name(std::int64_t rank) const {
    const RankView* one = view(rank);
    std::string text = fmt::format("rank {}", rank);
    if (one == nullptr) return text;
    if (!one->host.empty()) text += fmt::format(" on host {}", one->host);
    if (one->process != 0) {
      text += fmt::format(" (process {}{})", one->process,
                          one->state == ProcessState::kUnknown
                              ? std::string()
                              : fmt::format(", {}", process_state_name(one->state)));
    }
    return text;
  }

  void add_groups() {
    std::map<std::string, Ranks> by_doing;
    std::vector<std::string> order;
    const auto add = [&](const std::string& doing, std::int64_t rank) {
      if (!by_doing.contains(doing)) order.push_back(doing);
      by_doing[doing].push_back(rank);
    };
    for (const Place& one : places_) add("waiting in " + doing_of(*one.communicator), one.rank->rank);
    for (const RankView& one : job_.ranks) {
      if (!one.stuck())
        add(one.report ? "stuck before, and gone on since" : "not waiting, as far as known", one.rank);
    }
    for (const std::string& doing : order) findings_.groups.push_back({by_doing[doing], doing});
  }

  void add_waits() {
    for (const Place& one : places_) {
      for (const ReportedWait& wait : one.communicator->waits) {
        const ReportedLink* link = link_of(*one.communicator, wait.peer, wait.channel);
        findings_.waits.push_back({one.rank->rank, wait.peer, doing_of(*one.communicator, wait),
                                   what_of(wait),
                                   link != nullptr                  ? link->text()
                                   : wait.kind == WaitKind::kMemory ? "memory of the host"
                                                                    : "no connection yet"});
      }
    }
  }

  void add(CulpritKind kind, Ranks ranks, std::string text, std::string next) {
    findings_.culprits.push_back({kind, std::move(ranks), std::move(text), std::move(next)});
  }

  void add_ended() {
    for (const RankView& one : job_.ranks) {
      if (one.state == ProcessState::kStopped) {
        add(CulpritKind::kStopped, {one.rank}, fmt::format("{} does nothing", name(one.rank)),
            fmt::format("who stopped it (a debugger, SIGSTOP, a batch system that suspended the job); `kill "
                        "-CONT {}` lets it go on",
                        one.process));
      } else if (one.state == ProcessState::kGone) {
        add(CulpritKind::kGone, {one.rank}, fmt::format("{} has ended", name(one.rank)),
            "its output, and the kernel's log for a process that was killed for its memory");
      }
    }
  }

  bool is_culprit(std::int64_t rank) const {
    return std::ranges::any_of(findings_.culprits, [&](const Culprit& one) {
      return std::ranges::find(one.ranks, rank) != one.ranks.end();
    });
  }

  /// Ranks that are in the same collective by its number, and not by what it is.
  void add_mismatches() {
    std::map<std::pair<std::string, std::uint64_t>, std::map<std::string, Ranks>> calls;
    for (const Place& one : places_) {
      const ReportedOperation* now = one.communicator->current();
      if (now == nullptr) continue;
      const std::string call = fmt::format("{} {} {} {} {}", now->collective, now->type, now->op, now->root,
                                           now->uneven ? "uneven" : std::to_string(now->count));
      calls[{one.communicator->name, now->number}][call].push_back(one.rank->rank);
    }
    for (const auto& [which, by_call] : calls) {
      if (by_call.size() < 2) continue;
      std::vector<Ranks> groups;
      for (const auto& [call, ranks] : by_call) groups.push_back(ranks);
      std::ranges::stable_sort(groups, std::greater(), &Ranks::size);
      // Where no call has more ranks than every other, each may be the wrong one.
      const bool most_agree = groups[0].size() > groups[1].size();
      Ranks blamed;
      std::string text;
      for (std::size_t i = 0; i < groups.size(); ++i) {
        text += fmt::format("{}{} called {}", i == 0 ? "" : ", ", list_of_ranks(groups[i]),
                            text_of_call(groups[i].front(), which.first));
        if (i > 0 || !most_agree) blamed.insert(blamed.end(), groups[i].begin(), groups[i].end());
      }
      std::ranges::sort(blamed);
      add(CulpritKind::kMismatch, blamed,
          fmt::format("the ranks of {} made different calls as their #{}: {}", which.first, which.second,
                      text),
          fmt::format(
              "where the program of {} takes another branch than the rest's (a condition on the rank or "
              "on its data, another number of steps)",
              list_of_ranks(blamed)));
    }
  }

  std::string text_of_call(std::int64_t rank, const std::string& communicator) const {
    for (const Place& one : places_) {
      if (one.rank->rank == rank && one.communicator->name == communicator)
        return one.communicator->current()->text();
    }
    return {};
  }

  /// Ranks that are waited for and do not wait themselves.
  void add_absent() {
    std::map<std::int64_t, std::pair<std::set<std::int64_t>, std::string>> waiters;
    for (const Place& one : places_) {
      for (const ReportedWait& wait : one.communicator->waits) {
        const RankView* peer = view(wait.peer);
        if (peer == nullptr || peer->stuck() || is_culprit(wait.peer)) continue;
        auto& [ranks, doing] = waiters[wait.peer];
        ranks.insert(one.rank->rank);
        doing = doing_of(*one.communicator, wait);
      }
    }
    for (const auto& [rank, by] : waiters) {
      const auto& [ranks, doing] = by;
      const RankView& one = *view(rank);
      std::string next = one.process == 0
                             ? fmt::format("what its process does, on its host")
                             : fmt::format(
                                   "what its process does, on its host: `py-spy dump --pid {0}` or `gdb "
                                   "-p {0} -batch -ex 'thread apply all bt'`",
                                   one.process);
      next += "; its log; if it has finished this call and gone on, the link to it";
      add(CulpritKind::kAbsent, {rank},
          fmt::format("{} waits in no call, and {} wait{} for it in {}", name(rank),
                      list_of_ranks({ranks.begin(), ranks.end()}), ranks.size() == 1 ? "s" : "", doing),
          std::move(next));
    }
  }

  /// Ranks in an earlier collective of a communicator than others that they do not wait for.
  void add_behind() {
    std::map<std::string, std::map<std::uint64_t, std::vector<Place>>> by_number;
    for (const Place& one : places_) {
      if (const auto* now = one.communicator->current())
        by_number[one.communicator->name][now->number].push_back(one);
    }
    for (const auto& [communicator, numbers] : by_number) {
      if (numbers.size() < 2) continue;
      const auto& [lowest, behind] = *numbers.begin();
      for (const Place& one : behind) {
        // Whoever is ahead has done all that this rank could wait for: it is on its way, or lost.
        const ReportedWait* lost = nullptr;
        for (const ReportedWait& wait : one.communicator->waits) {
          const bool ahead =
              std::ranges::none_of(behind, [&](const Place& other) { return other.rank->rank == wait.peer; });
          if (wait.kind == WaitKind::kReceive && ahead) lost = &wait;
        }
        if (lost != nullptr) {
          add_link(*one.communicator, lost->peer, one.rank->rank, lost->channel,
                   fmt::format("rank {} has done {}, of which rank {} still waits for a message", lost->peer,
                               doing_of(*one.communicator), one.rank->rank));
        } else {
          add(CulpritKind::kBehind, {one.rank->rank},
              fmt::format("{} is still in {}, and others are in #{} already", name(one.rank->rank),
                          doing_of(*one.communicator), numbers.rbegin()->first),
              "what it waits for, above");
        }
      }
    }
  }

  /// A rank that waits in one communicator while it is waited for in another.
  void add_order() {
    for (const Place& one : places_) {
      for (const ReportedWait& wait : one.communicator->waits) {
        const RankView* peer = view(wait.peer);
        if (peer == nullptr || !peer->stuck() || is_culprit(wait.peer)) continue;
        const auto& its = peer->report->communicators;
        if (std::ranges::any_of(its, [&](const auto& each) { return each.name == one.communicator->name; }))
          continue;
        add(CulpritKind::kOrder, {wait.peer},
            fmt::format("{} waits in {}, while rank {} waits for it in {}", name(wait.peer),
                        doing_of(its.front()), one.rank->rank, doing_of(*one.communicator, wait)),
            "whether all ranks call the collectives of these communicators in the same order");
      }
    }
  }

  /// What one end has sent and the other, which waits for it, has not received.
  void add_links() {
    for (const Place& one : places_) {
      for (const ReportedWait& wait : one.communicator->waits) {
        if (wait.kind != WaitKind::kReceive && wait.kind != WaitKind::kConnect) continue;
        for (const Place& other : places_) {
          if (other.rank->rank != wait.peer || other.communicator->name != one.communicator->name) continue;
          if (wait.kind == WaitKind::kConnect) {
            if (wait.peer < one.rank->rank) continue;  // once for both ends
            add_link(*one.communicator, one.rank->rank, wait.peer, wait.channel,
                     "no connection has come to be");
            continue;
          }
          const ReportedLink* here = link_of(*one.communicator, wait.peer, wait.channel);
          const ReportedLink* there = link_of(*other.communicator, one.rank->rank, wait.channel);
          if (here == nullptr || there == nullptr) continue;
          const bool pending = std::ranges::any_of(other.communicator->waits, [&](const ReportedWait& each) {
            return each.kind == WaitKind::kSend && each.peer == one.rank->rank &&
                   each.channel == wait.channel;
          });
          if (!pending && there->messages_sent <= here->messages_received) continue;
          add_link(*one.communicator, wait.peer, one.rank->rank, wait.channel,
                   fmt::format("rank {} has sent {} messages{} and rank {} has received {}", wait.peer,
                               there->messages_sent, pending ? " and is sending one more" : "",
                               one.rank->rank, here->messages_received));
        }
      }
    }
  }

  void add_link(const ReportedCommunicator& communicator, std::int64_t sender, std::int64_t receiver,
                std::int64_t channel, const std::string& why) {
    const ReportedLink* link = link_of(communicator, sender, channel);
    const std::string over =
        link == nullptr ? std::string() : fmt::format(", {} as rank {} sees it", link->text(), receiver);
    add(CulpritKind::kLink, {sender, receiver},
        fmt::format("nothing moves from rank {} to rank {}{}: {}", sender, receiver, over, why),
        fmt::format(
            "the network between host {} and host {}: `ping` with the NICs' MTU (-M do -s), firewalls that "
            "forget connections, the NICs' counters (`ip -s link`), `ss -ti` for what is sent again",
            host(sender), host(receiver)));
  }

  std::string host(std::int64_t rank) const {
    const RankView* one = view(rank);
    return one == nullptr || one->host.empty() ? "?" : one->host;
  }

  const JobView& job_;
  std::vector<Place> places_;
  Findings findings_;
};

}  // namespace

std::string_view process_state_name(ProcessState state) noexcept {
  constexpr std::array<std::string_view, 6> kNames{"unknown", "running", "sleeping", "blocked in the kernel",
                                                   "stopped", "gone"};
  return kNames[static_cast<std::size_t>(state)];
}

std::string_view culprit_kind_name(CulpritKind kind) noexcept {
  constexpr std::array<std::string_view, 7> kNames{"gone",   "stopped", "mismatch", "absent",
                                                   "behind", "order",   "link"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string list_of_ranks(const std::vector<std::int64_t>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    text += i > 0 ? ", " : "";
    text += last - i >= 2 ? fmt::format("{}-{}", ranks[i], ranks[last]) : std::to_string(ranks[i]);
    i = last - i >= 2 ? last + 1 : i + 1;
  }
  return text;
}

Findings find(const JobView& job) {
  return Finder(job).find();
}

}  // namespace tombolo::tools::stuck
