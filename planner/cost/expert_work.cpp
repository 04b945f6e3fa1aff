#include "planner/cost/expert_work.h"

#include <algorithm>

namespace tombolo::planner {

ExpertProducts expert_products(const Job& job, double rows, int tensor, double flops_per_second,
                               double memory_bytes_per_second) {
  const Model& model = job.model;
  const double seconds = job.expert_load() * model.experts_forward_flops() * rows / tensor / flops_per_second;
  const double values = static_cast<double>(model.experts / job.expert_parts()) *
                        static_cast<double>(model.expert_parameters(tensor));
  const auto at_least = [&](double bytes_per_value) {
    return memory_bytes_per_second > 0 ? std::max(seconds, values * bytes_per_value / memory_bytes_per_second)
                                       : seconds;
  };
  const double read = at_least(model.bytes_per_value);
  return {read, read, at_least(2.0 * job.gradient_bytes())};
}

double routed_bytes(const Job& job, double rows, int tensor) {
  const Model& model = job.model;
  const double tokens = rows * model.context, mine = tokens / (job.sequence_parallel ? tensor : 1);
  const double width = static_cast<double>(model.hidden) * model.bytes_per_value;
  const double copies = 4.0 * model.experts_per_token * width;
  const bool sorts = job.expert_parts() > 1 && model.experts > job.expert_parts();
  return mine * (width + 16.0 * model.experts + copies) + (sorts ? job.expert_load() * tokens * copies : 0);
}

}  // namespace tombolo::planner
