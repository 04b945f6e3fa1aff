// What this host's part of measuring between hosts is: one process of each host calls measure() at the same
// time.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "collectives/discovery/islands.h"
#include "collectives/rendezvous/bootstrap.h"
#include "transport/routing/router.h"

namespace tombolo::collectives {

struct SurveyOptions {
  std::string prefix;     ///< of the keys in the store, of this survey alone
  std::size_t host = 0;   ///< this one's number
  std::size_t hosts = 0;  ///< how many there are
  /// For each step with another host, which then counts as tried in vain.
  Duration patience = std::chrono::seconds(1);
  /// How long another host may be busy with others meanwhile.
  Duration arrival = std::chrono::seconds(5);
  /// When no more rates are measured, since it began with them.
  Duration budget = std::chrono::seconds(4);
};

/// Waits for what another host, by its number, sets in the store. Throws where that does not come.
using Await = std::function<std::vector<std::byte>(const std::string& key, std::size_t host)>;

/// One thread. Its connections are its own, and gone when it is.
class Survey {
 public:
  Survey(transport::Router& router, Store& store, Await await, SurveyOptions options);
  ~Survey();
  Survey(const Survey&) = delete;
  Survey& operator=(const Survey&) = delete;

  /// Blocks. As often as all hosts do; of what a pair has measured the best counts. Not
  /// after measure_between(). Throws what `await` does.
  void measure();
  /// Blocks; after measure(), as often as all hosts know of other islands: one pair of each two measures once
  /// more. Returns Islands::between on host 0, and of the others nothing. Throws what `await` does.
  std::vector<std::vector<double>> measure_between(const Islands& islands);
  /// On host 0 what all have measured, of each pair the best; on the others the latencies of measure().
  const LinkMatrix& links() const noexcept { return links_; }
  /// How many pairs that were to have a rate have none: they were tried in vain, or time ran out before. On
  /// host 0, after measure().
  struct Missing {
    std::size_t in_vain = 0, untried = 0;
  };
  Missing missing() const;

 private:
  struct Peer;

  void connect();
  void dial();
  void measure_latencies();
  /// With the peers that have begun round trips. The row: half of the shortest, by host, where this one
  /// leads.
  std::vector<double> time_round_trips();
  void measure_rates();
  /// What this host received from each other one, of those that it is to meet.
  std::vector<double> rates_in(const std::vector<std::vector<std::pair<int, int>>>& rounds);
  void publish(const std::string& what, const std::vector<double>& values);
  std::vector<double> row_of(const std::string& what, std::size_t host);
  std::string key(const std::string& what, std::size_t host) const;

  transport::Router& router_;
  Store& store_;
  const Await await_;
  const SurveyOptions options_;
  std::unique_ptr<transport::Listener> listener_;
  std::vector<std::unique_ptr<Peer>> peers_;  // by host; null: this one
  LinkMatrix links_;
  int passes_ = 0, looks_ = 0;  // of measure() and of measure_between()
};

}  // namespace tombolo::collectives
