// Tombolo, through its C interface; started by `tombolo run`.
#include <tombolo/tombolo.h>

#include "bench/compare/measure.h"

namespace {

void check(tomboloResult_t result) {
  if (result != tomboloSuccess) throw std::runtime_error(tomboloGetLastError(nullptr));
}

class Tombolo final : public compare::Peer {
 public:
  Tombolo() {
    check(tomboloCommInitFromEnvironment(&comm_));
    check(tomboloCommUserRank(comm_, &rank_));
    check(tomboloCommCount(comm_, &ranks_));
  }
  ~Tombolo() override { tomboloCommDestroy(comm_); }
  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }

  compare::Prepared prepare(const compare::Shape& shape, compare::Buffers buffers) override {
    const auto [input, output] = buffers;
    if (shape.uneven) return {uneven(shape, input, output), output};
    return {[this, kind = shape.collective, count = shape.count, input = input, output = output] {
              check(call(kind, input, output, count));
            },
            output};
  }

 private:
  tomboloResult_t call(compare::Collective kind, const float* input, float* output, std::size_t count) {
    using compare::Collective;
    switch (kind) {
      case Collective::kAllReduce:
        return tomboloAllReduce(input, output, count, tomboloFloat32, tomboloSum, comm_);
      case Collective::kAllGather:
        return tomboloAllGather(input, output, count, tomboloFloat32, comm_);
      case Collective::kReduceScatter:
        return tomboloReduceScatter(input, output, count, tomboloFloat32, tomboloSum, comm_);
      case Collective::kBroadcast:
        return tomboloBroadcast(output, output, count, tomboloFloat32, 0, comm_);
      case Collective::kAllToAll:
        return tomboloAllToAll(input, output, count, tomboloFloat32, comm_);
      case Collective::kReduce:
        return tomboloReduce(input, output, count, tomboloFloat32, tomboloSum, 0, comm_);
      case Collective::kGather:
        return tomboloGather(input, output, count, tomboloFloat32, 0, comm_);
      case Collective::kScatter:
        return tomboloScatter(input, output, count, tomboloFloat32, 0, comm_);
      case Collective::kBarrier:
        return tomboloBarrier(comm_);
    }
    return tomboloInternalError;
  }

  std::function<void()> uneven(const compare::Shape& shape, const float* input, float* output) {
    return [this, shape, input, output, parts = compare::Parts<std::size_t>(shape)] {
      check(call_uneven(shape, parts, input, output));
    };
  }

  tomboloResult_t call_uneven(const compare::Shape& shape, const compare::Parts<std::size_t>& parts,
                              const float* input, float* output) {
    using compare::Collective;
    const std::size_t *counts = parts.counts.data(), *offsets = parts.offsets.data();
    const std::size_t own = shape.part(shape.rank).count;
    switch (shape.collective) {
      case Collective::kAllGather:
        return tomboloAllGatherV(input, own, output, counts, offsets, tomboloFloat32, comm_);
      case Collective::kReduceScatter:
        return tomboloReduceScatterV(input, output, counts, offsets, tomboloFloat32, tomboloSum, comm_);
      case Collective::kGather:
        return tomboloGatherV(input, own, output, counts, offsets, tomboloFloat32, 0, comm_);
      case Collective::kScatter:
        return tomboloScatterV(input, counts, offsets, output, own, tomboloFloat32, 0, comm_);
      case Collective::kAllToAll:
        return tomboloAllToAllV(input, counts, offsets, output, counts, offsets, tomboloFloat32, comm_);
      default:
        return tomboloInternalError;
    }
  }

  tomboloComm_t comm_ = TOMBOLO_COMM_NULL;
  int rank_ = 0, ranks_ = 1;
};

}  // namespace

int main(int argc, char** argv) {
  return compare::measure_main(argc, argv, compare::launched("RANK"),
                               [] { return std::make_unique<Tombolo>(); });
}
