// Any MPI; started by its own launcher.
#include <mpi.h>
#include <unistd.h>

#include <csignal>

#include "bench/compare/measure.h"

namespace {

class Mpi final : public compare::Peer {
 public:
  Mpi() {
    MPI_Init(nullptr, nullptr);  // whose errors, as those of all calls, end the job and say why
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
  }
  /// MPICH 4.0.2 over UCX's TCP sometimes waits in vain for another rank here. Everything is measured and
  /// printed by then.
  ~Mpi() override {
    std::signal(SIGALRM, [](int) { ::_exit(0); });
    ::alarm(3);
    MPI_Finalize();
    ::alarm(0);
  }
  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }

  compare::Prepared prepare(const compare::Shape& shape, compare::Buffers buffers) override {
    const auto [input, output] = buffers;
    if (shape.uneven)
      return {[shape, parts = compare::Parts<int>(shape), input = input, output = output] {
                call_uneven(shape, parts, input, output);
              },
              output};
    return {[kind = shape.collective, count = static_cast<int>(shape.count), input = input, output = output] {
              call(kind, input, output, count);
            },
            output};
  }

 private:
  static void call(compare::Collective kind, const float* input, float* output, int count) {
    using compare::Collective;
    switch (kind) {
      case Collective::kAllReduce:
        MPI_Allreduce(input, output, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        break;
      case Collective::kAllGather:
        MPI_Allgather(input, count, MPI_FLOAT, output, count, MPI_FLOAT, MPI_COMM_WORLD);
        break;
      case Collective::kReduceScatter:
        MPI_Reduce_scatter_block(input, output, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        break;
      case Collective::kBroadcast:
        MPI_Bcast(output, count, MPI_FLOAT, 0, MPI_COMM_WORLD);
        break;
      case Collective::kAllToAll:
        MPI_Alltoall(input, count, MPI_FLOAT, output, count, MPI_FLOAT, MPI_COMM_WORLD);
        break;
      case Collective::kReduce:
        MPI_Reduce(input, output, count, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
        break;
      case Collective::kGather:
        MPI_Gather(input, count, MPI_FLOAT, output, count, MPI_FLOAT, 0, MPI_COMM_WORLD);
        break;
      case Collective::kScatter:
        MPI_Scatter(input, count, MPI_FLOAT, output, count, MPI_FLOAT, 0, MPI_COMM_WORLD);
        break;
      case Collective::kBarrier:
        MPI_Barrier(MPI_COMM_WORLD);
        break;
    }
  }

  static void call_uneven(const compare::Shape& shape, const compare::Parts<int>& parts, const float* input,
                          float* output) {
    using compare::Collective;
    const int *counts = parts.counts.data(), *offsets = parts.offsets.data();
    const int own = static_cast<int>(shape.part(shape.rank).count);
    switch (shape.collective) {
      case Collective::kAllGather:
        MPI_Allgatherv(input, own, MPI_FLOAT, output, counts, offsets, MPI_FLOAT, MPI_COMM_WORLD);
        break;
      case Collective::kReduceScatter:
        MPI_Reduce_scatter(input, output, counts, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        break;
      case Collective::kGather:
        MPI_Gatherv(input, own, MPI_FLOAT, output, counts, offsets, MPI_FLOAT, 0, MPI_COMM_WORLD);
        break;
      case Collective::kScatter:
        MPI_Scatterv(input, counts, offsets, MPI_FLOAT, output, own, MPI_FLOAT, 0, MPI_COMM_WORLD);
        break;
      case Collective::kAllToAll:
        MPI_Alltoallv(input, counts, offsets, MPI_FLOAT, output, counts, offsets, MPI_FLOAT, MPI_COMM_WORLD);
        break;
      default:
        throw std::runtime_error("this collective has no uneven parts");
    }
  }

  int rank_ = 0, ranks_ = 1;
};

}  // namespace

int main(int argc, char** argv) {
  int rank = compare::launched("OMPI_COMM_WORLD_RANK");
  if (rank < 0) rank = compare::launched("PMI_RANK");
  return compare::measure_main(argc, argv, rank, [] { return std::make_unique<Mpi>(); });
}
