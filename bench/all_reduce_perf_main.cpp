#include <algorithm>

#include "bench/perf.h"

namespace {

using namespace tombolo;

class AllReduce final : public bench::Collective {
 public:
  std::string_view name() const override { return "all_reduce"; }
  double bus_factor(int ranks) const override { return 2.0 * (ranks - 1) / ranks; }
  bool reduces() const override { return true; }
  void run(const api::Communicator& communicator, const Buffers& buffers, tomboloDataType_t type,
           tomboloRedOp_t op) const override {
    communicator.all_reduce(buffers.send, buffers.receive, buffers.count, type, op);
  }
  double expected(std::size_t index, int, int ranks, tomboloRedOp_t op) const override {
    double value = bench::value_of(index, 0, op);
    for (int rank = 1; rank < ranks; ++rank) {
      const double other = bench::value_of(index, rank, op);
      value = op == tomboloProd  ? value * other
              : op == tomboloMin ? std::min(value, other)
              : op == tomboloMax ? std::max(value, other)
                                 : value + other;
    }
    return op == tomboloAvg ? value / ranks : value;
  }
};

}  // namespace

int main(int argc, char** argv) {
  return bench::run_perf(AllReduce(), argc, argv);
}
