// PipelineTrainer::validate(): the forward pass alone, of rows that are not trained on.
#include "trainer/pipeline/pipeline_trainer.h"

namespace tombolo::trainer {

using collectives::DataType;
using collectives::ReduceOp;

double PipelineTrainer::validate(Rows& rows, int batches) {
  // One slot is enough: no micro-batch waits for a backward pass. They follow each other through the pipeline
  // all the same: a stage goes on once the next has received, while that one computes.
  constexpr int kSlot = 0;
  const bool first = compute_->layout().first(), last = compute_->layout().last();
  double sum = 0;
  for (int batch = 0; batch < batches; ++batch) {
    load_tokens(rows, batch);
    for (int micro_batch = 0; micro_batch < job_.parallel.micro_batches(); ++micro_batch) {
      const std::span<std::byte> input = compute_->input(kSlot);
      if (!first) pipeline_->receive(input.data(), input.size(), pipeline_->rank() - 1);
      compute_->forward(kSlot, rows_of(tokens_, micro_batch), rows_of(targets_, micro_batch), {});
      const std::span<const std::byte> output = compute_->output(kSlot);
      if (!last) pipeline_->send(output.data(), output.size(), pipeline_->rank() + 1);
      sum += compute_->take_loss_sum();  // waits for the device, so that the slot's buffers are free again
    }
  }
  collect_pass_times(StageCompute::Gather::kAll, ForwardOf::kValidation);
  if (world_ != nullptr) world_->all_reduce(&sum, &sum, 1, DataType::kFloat64, ReduceOp::kSum);
  return sum / (static_cast<double>(batches) * job_.parallel.global_batch * job_.shape.context);
}

}  // namespace tombolo::trainer
