// Two ranks as two threads of one process, through the C++ interface. Build: c++ -std=c++20 spans.cpp
// -ltombolo -pthread
#include <cstdio>
#include <span>
#include <thread>
#include <tombolo/tombolo.hpp>
#include <vector>

namespace api = tombolo::api;

static void run(const tomboloUniqueId& id, int rank) {
  try {
    const api::Communicator comm(2, id, rank);
    std::vector<double> gradients(1000, rank + 1.0);
    comm.all_reduce(gradients, tomboloAvg);  // in place
    std::vector<double> half(500);
    comm.reduce_scatter(gradients, half);
    // A view of a part; and a message each way, started together.
    double mine = rank, theirs = -1;
    api::group([&] {
      comm.send(std::span(&mine, 1), 1 - rank);
      comm.receive(std::span(&theirs, 1), 1 - rank);
    });
    comm.broadcast(std::span(gradients).first(10), 0);
    // Rank 0's part has 2 elements, rank 1's has 3.
    std::vector<double> parts(5);
    const std::size_t counts[] = {2, 3};
    comm.all_gather_v(std::span(gradients).first(counts[rank]), parts, counts);
    api::Work work = comm.all_reduce_async(half);  // starts; half belongs to the work until it is redeemed
    work.wait();
    if (rank == 0) std::printf("average %g, sum %g, from rank %g\n", gradients[0], half[0], theirs);
    comm.finalize();
  } catch (const api::Error& error) {
    std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
  }
}

int main() {
  const tomboloUniqueId id = api::make_unique_id();
  std::thread other([&] { run(id, 1); });
  run(id, 0);
  other.join();
}
