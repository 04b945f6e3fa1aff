// Gloo over TCP, on the interface COMPARE_INTERFACE; started by `tombolo run`. The ranks find each other by
// files in the folder COMPARE_STORE. COMPARE_ALLREDUCE selects one of Gloo's all-reduces: ring, bcube, or
// halving-doubling.
#include <gloo/allgather.h>
#include <gloo/allgatherv.h>
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/alltoall.h>
#include <gloo/alltoallv.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/gather.h>
#include <gloo/math.h>
#include <gloo/reduce.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/scatter.h>
#include <gloo/transport/tcp/device.h>

#include "bench/compare/measure.h"

namespace {

using compare::Collective;

std::string setting(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr) throw std::runtime_error(std::string(name) + " is not set; compare.py sets it");
  return text;
}

class Gloo final : public compare::Peer {
 public:
  Gloo()
      : context_(std::make_shared<gloo::rendezvous::Context>(compare::launched("RANK"),
                                                             compare::launched("WORLD_SIZE"))) {
    gloo::transport::tcp::attr where;
    where.iface = setting("COMPARE_INTERFACE");
    std::shared_ptr<gloo::transport::Device> device = gloo::transport::tcp::CreateDevice(where);
    gloo::rendezvous::FileStore store(setting("COMPARE_STORE"));
    context_->setTimeout(std::chrono::seconds(60));
    context_->connectFullMesh(store, device);
  }
  int rank() const override { return context_->rank; }
  int ranks() const override { return context_->size; }

  /// Gloo's reduce-scatter, and its all-reduce by halving and doubling, have one buffer: the input, where the
  /// result begins.
  compare::Prepared prepare(const compare::Shape& shape, compare::Buffers buffers) override {
    const auto [input, output] = buffers;
    if (shape.uneven && shape.collective != Collective::kReduceScatter)  // which is one call for both
      return uneven(shape, input, output);
    switch (shape.collective) {
      case Collective::kAllReduce:
        return all_reduce(shape, input, output);
      case Collective::kReduceScatter: {
        auto algorithm = std::make_shared<gloo::ReduceScatterHalvingDoubling<float>>(
            context_, std::vector<float*>{input}, static_cast<int>(shape.all()),
            compare::Parts<int>(shape).counts);
        return {[algorithm] { algorithm->run(); }, input};
      }
      case Collective::kAllGather: {
        auto options = std::make_shared<gloo::AllgatherOptions>(context_);
        options->setInput(input, shape.count);
        options->setOutput(output, shape.all());
        return {[options] { gloo::allgather(*options); }, output};
      }
      case Collective::kBroadcast: {
        auto options = std::make_shared<gloo::BroadcastOptions>(context_);
        options->setOutput(output, shape.count);
        options->setRoot(0);
        return {[options] { gloo::broadcast(*options); }, output};
      }
      case Collective::kAllToAll: {
        auto options = std::make_shared<gloo::AlltoallOptions>(context_);
        options->setInput(input, shape.all());
        options->setOutput(output, shape.all());
        return {[options] { gloo::alltoall(*options); }, output};
      }
      case Collective::kReduce: {
        auto options = std::make_shared<gloo::ReduceOptions>(context_);
        options->setInput(input, shape.count);
        options->setOutput(output, shape.count);
        options->setReduceFunction(sum());
        options->setRoot(0);
        return {[options] { gloo::reduce(*options); }, output};
      }
      case Collective::kGather: {
        auto options = std::make_shared<gloo::GatherOptions>(context_);
        options->setInput(input, shape.count);
        if (shape.is_root()) options->setOutput(output, shape.all());
        options->setRoot(0);
        return {[options] { gloo::gather(*options); }, output};
      }
      case Collective::kScatter: {
        auto options = std::make_shared<gloo::ScatterOptions>(context_);
        if (shape.is_root()) {
          std::vector<float*> parts;
          for (std::size_t part = 0; part < static_cast<std::size_t>(shape.ranks); ++part)
            parts.push_back(input + part * shape.count);
          options->setInputs(parts, shape.count);
        }
        options->setOutput(output, shape.count);
        options->setRoot(0);
        return {[options] { gloo::scatter(*options); }, output};
      }
      case Collective::kBarrier: {
        auto options = std::make_shared<gloo::BarrierOptions>(context_);
        return {[options] { gloo::barrier(*options); }, output};
      }
    }
    throw std::runtime_error("no such collective");
  }

 private:
  using Sum = void (*)(void*, const void*, const void*, std::size_t);
  static Sum sum() { return static_cast<Sum>(&gloo::sum<float>); }
  compare::Prepared all_reduce(const compare::Shape& shape, float* input, float* output) {
    const std::string algorithm = setting("COMPARE_ALLREDUCE");
    if (algorithm == "halving-doubling") {
      auto prepared = std::make_shared<gloo::AllreduceHalvingDoubling<float>>(
          context_, std::vector<float*>{input}, static_cast<int>(shape.count));
      return {[prepared] { prepared->run(); }, input};
    }
    auto options = std::make_shared<gloo::AllreduceOptions>(context_);
    options->setInput(input, shape.count);
    options->setOutput(output, shape.count);
    options->setReduceFunction(sum());
    options->setAlgorithm(algorithm == "bcube" ? gloo::AllreduceOptions::Algorithm::BCUBE
                                               : gloo::AllreduceOptions::Algorithm::RING);
    return {[options] { gloo::allreduce(*options); }, output};
  }

  /// Those that this version of Gloo has: no gather and no scatter.
  compare::Prepared uneven(const compare::Shape& shape, float* input, float* output) {
    if (shape.collective == Collective::kAllGather) {
      auto options = std::make_shared<gloo::AllgathervOptions>(context_);
      options->setInput(input, shape.part(shape.rank).count);
      options->setOutput(output, compare::Parts<std::size_t>(shape).counts);
      return {[options] { gloo::allgatherv(*options); }, output};
    }
    if (shape.collective == Collective::kAllToAll) {
      const std::vector<std::int64_t> counts = compare::Parts<std::int64_t>(shape).counts;
      auto options = std::make_shared<gloo::AlltoallvOptions>(context_);
      options->setInput(input, counts);
      options->setOutput(output, counts);
      return {[options] { gloo::alltoallv(*options); }, output};
    }
    throw std::runtime_error("Gloo has no such collective with uneven parts");
  }

  std::shared_ptr<gloo::rendezvous::Context> context_;
};

}  // namespace

int main(int argc, char** argv) {
  return compare::measure_main(argc, argv, compare::launched("RANK"),
                               [] { return std::make_unique<Gloo>(); });
}
