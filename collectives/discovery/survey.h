// What this host's part of measuring between hosts is: one process of each host calls measure() at the same
// time.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
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
  static constexpr Duration kPatience = std::chrono::seconds(1);

  Duration patience;  ///< for each step with another host, which then counts as not measured
  Deadline deadline;  ///< for the other hosts to come
};

/// One thread. Its connections are its own, and gone when it is.
class Survey {
 public:
  Survey(transport::Router& router, Store& store, SurveyOptions options);
  ~Survey();
  Survey(const Survey&) = delete;
  Survey& operator=(const Survey&) = delete;

  /// Blocks. Returns what all hosts have measured, which only host 0 needs to know: the others get a matrix
  /// that holds their own part. Throws kTimeout where a host has not come, and kRemote where the store is
  /// gone.
  LinkMatrix measure();

 private:
  struct Peer;

  void connect();
  void time_round_trips();
  void measure_rates();
  void publish(const std::string& what, const std::vector<double>& values);
  std::vector<double> row_of(const std::string& what, std::size_t host);
  std::string key(const std::string& what, std::size_t host) const;

  transport::Router& router_;
  Store& store_;
  const SurveyOptions options_;
  std::unique_ptr<transport::Listener> listener_;
  std::vector<std::unique_ptr<Peer>> peers_;  // by host; null: this one
  LinkMatrix links_;
};

}  // namespace tombolo::collectives
