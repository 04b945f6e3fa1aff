// How a communicator is split into parts, or grows. Each part, or what it grows to, is made by all of its
// ranks, or by none: a rank that cannot make it tells the others through the store, where they wait for it;
// and at the end all ranks of the whole tell each other how it went.
#include <algorithm>
#include <exception>
#include <utility>

#include "base/error.h"
#include "collectives/engine/communicator_state.h"
#include "collectives/engine/gather_texts.h"

namespace tombolo::collectives {
namespace {

struct SplitRequest {
  std::int32_t color, key;
};

/// What became of a rank's part at that rank.
enum class Making : std::int32_t {
  kDone,     ///< it is made, or the rank has none
  kFailed,   ///< the rank could not make it
  kStopped,  ///< the rank gave up because another one of the part had
};

struct Report {
  Making making;
  std::int32_t cause;  ///< kFailed: a Cause
};
// So it takes the same algorithm, and with it connections that are there: a rank that is still waiting for
// its part makes no others.
static_assert(sizeof(Report) == sizeof(SplitRequest));

/// Lets the waits of a communicator take so long while nothing moves.
class Patience {
 public:
  Patience(Duration& patience, Duration most) : patience_(patience), before_(std::exchange(patience, most)) {}
  ~Patience() { patience_ = before_; }
  Patience(const Patience&) = delete;
  Patience& operator=(const Patience&) = delete;

 private:
  Duration& patience_;
  Duration before_;
};

template <typename Each>
std::vector<Each> all_gathered(Communicator& whole, const Each& own) {
  std::vector<Each> all(static_cast<std::size_t>(whole.size()));
  whole.all_gather(&own, all.data(), sizeof(Each), DataType::kInt8);
  return all;
}

Cause cause_in(const Report& report) {
  const bool known = report.cause >= 0 && report.cause <= static_cast<std::int32_t>(Cause::kInternal);
  return known ? static_cast<Cause>(report.cause) : Cause::kRemote;
}

/// The rank of the part that failed and was not stopped; of several one that did more than wait in vain,
/// which all do whom a failure does not reach. Else one that was stopped: by a new rank, which is none of the
/// whole. -1 where all have made it.
int first_failed(const std::vector<int>& part, const std::vector<Report>& reports) {
  int found = -1, stopped = -1;
  for (const int rank : part) {
    const Report& one = reports[static_cast<std::size_t>(rank)];
    if (one.making == Making::kStopped) stopped = rank;
    if (one.making != Making::kFailed) continue;
    if (cause_in(one) != Cause::kTimeout) return rank;
    if (found < 0) found = rank;
  }
  return found < 0 ? stopped : found;
}

}  // namespace

std::unique_ptr<Communicator> Communicator::split(int color, int key) {
  State& parent = *state_;
  parent.require_usable();
  const auto requests = all_gathered(*this, SplitRequest{color, key});
  const int number = ++parent.splits;
  std::vector<int> ranks;
  for (int rank = 0; rank < size(); ++rank) {
    if (requests[static_cast<std::size_t>(rank)].color == color) ranks.push_back(rank);
  }
  std::stable_sort(ranks.begin(), ranks.end(), [&](int a, int b) {
    return requests[static_cast<std::size_t>(a)].key < requests[static_cast<std::size_t>(b)].key;
  });
  Rendezvous at = parent.rendezvous;
  at.prefix = fmt::format("{}/{}.{}", at.prefix, number, color);
  auto child = make_together(at, color < 0 ? std::vector<int>() : ranks, fmt::format("split #{}", number),
                             fmt::format("color {}, {} ranks", color, ranks.size()),
                             [&] { return color < 0 ? nullptr : make_child(at, ranks); });
  return child ? std::make_unique<Communicator>(std::move(child)) : nullptr;
}

std::unique_ptr<Communicator::State> Communicator::make_together(
    const Rendezvous& at, const std::vector<int>& ranks, const std::string& what, const std::string& part,
    const std::function<std::unique_ptr<State>()>& make) {
  State& parent = *state_;
  const int own = static_cast<int>(std::find(ranks.begin(), ranks.end(), rank()) - ranks.begin());
  std::unique_ptr<State> child;
  std::optional<Error> failure;
  try {
    child = make();
  } catch (const Error& error) {
    failure.emplace(error);
  } catch (const std::exception& error) {
    failure.emplace(Cause::kInternal, error.what());
  }
  Report report{Making::kDone, 0};
  if (failure) {
    const AbortNote standing = AbortSignal::publish(at, {own, failure->cause(), failure->what()});
    report = {standing.rank == own ? Making::kFailed : Making::kStopped,
              static_cast<std::int32_t>(failure->cause())};
  }
  try {
    // Rank 0 usually keeps the store: it may not go on, and perhaps end, while others still meet there. They
    // may take as long as a set-up may, and then tell what stopped them.
    std::vector<Report> reports;
    {
      const Patience longer(parent.idle_patience,
                            2 * parent.options.deadline + AbortSignal::kPublishPatience);
      reports = all_gathered(*this, report);
    }
    if (std::ranges::any_of(reports, [](const Report& one) { return one.making != Making::kDone; })) {
      const auto texts = gather_texts(*this, failure ? failure->what() : "");
      if (const int first = first_failed(ranks, reports); first >= 0) {
        const auto which = static_cast<std::size_t>(first);
        failure.emplace(
            cause_in(reports[which]),
            fmt::format(
                "{}: rank {} on host {} could not make its part ({}), which therefore no rank has: {}", what,
                first, members()[which].host, part, texts[which]));
      }
    }
  } catch (const Error&) {
    if (!failure) throw;
  }
  if (failure) throw Error(*failure);
  return child;
}

std::unique_ptr<Communicator::State> Communicator::make_child(const Rendezvous& at,
                                                              const std::vector<int>& ranks,
                                                              const MayCome& may_come) const {
  const State& parent = *state_;
  auto child = std::make_unique<State>(parent.options);
  child->options.identity.rank =
      static_cast<int>(std::find(ranks.begin(), ranks.end(), rank()) - ranks.begin());
  child->options.identity.size = static_cast<int>(ranks.size());
  child->rendezvous = at;
  if (may_come) child->ranks_before_shrink = ranks;
  child->server = parent.server;
  child->router = parent.router;
  child->standby = parent.standby;
  if (at.store == parent.rendezvous.store) {
    child->stuck_reporter = parent.stuck_reporter;
    for (const int each : ranks) child->ranks_of_job.push_back(parent.job_rank(each));
  } else {  // the job's store is gone, and what is left is a job of its own
    child->begin_to_report(at.known_as, secret());
  }
  child->may_discover = false;
  child->discovery = parent.discovery;
  child->discovery.islands.clear();
  if (!parent.discovery.islands.empty()) {
    for (const int each : ranks)
      child->discovery.islands.push_back(parent.discovery.islands[static_cast<std::size_t>(each)]);
  }
  child->set_up(!may_come ? MayCome()
                          : [&](int rank) { return may_come(ranks[static_cast<std::size_t>(rank)]); });
  return child;
}

}  // namespace tombolo::collectives
