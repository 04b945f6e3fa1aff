#include "bench/perf/ranks.h"

#include <algorithm>
#include <exception>
#include <thread>
#include <vector>

namespace tombolo::bench {

int run_ranks(int ranks_here, const std::function<int(const api::Communicator&)>& body) {
  const auto job = api::Communicator::from_environment();
  if (ranks_here == 1) return body(job);

  tomboloUniqueId id{};
  if (job.rank() == 0) id = api::make_unique_id();
  job.broadcast(&id, &id, sizeof(id), tomboloInt8, 0);
  std::vector<int> results(static_cast<std::size_t>(ranks_here), 0);
  std::vector<std::exception_ptr> failures(results.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const int rank = job.rank() * ranks_here + static_cast<int>(i);
    threads.emplace_back([&, i, rank] {
      try {
        results[i] = body(api::Communicator(job.size() * ranks_here, id, rank));
      } catch (...) {
        failures[i] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
  return *std::max_element(results.begin(), results.end());
}

}  // namespace tombolo::bench
