// Collective plans as text: for people, and as JSON.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "collectives/schedule/algorithm.h"
#include "tests/simulation/plans/collective_plan.h"
#include "tests/simulation/plans/plan_json.h"

namespace tombolo::simulation {
namespace {

using collectives::Collective;
using collectives::DataType;
using collectives::ReduceOp;

constexpr std::int64_t kMostElements = std::int64_t{1} << 20;

/// A member that is one of the names which `from_name` knows.
template <typename T, typename FromName>
void read_named(const JsonCursor& object, const char* name, T& into, const FromName& from_name) {
  const auto given = object.optional(name);
  if (!given) return;
  const std::optional<T> known = from_name(given->text());
  if (!known) given->reject(fmt::format("'{}' is none of those that there are", given->text()));
  into = *known;
}

Transfer decode_transfer(const JsonCursor& from, unsigned ranks) {
  from.only({"from", "to", "bytes"});
  Transfer one;
  read_member(from, "from", one.from, 0, ranks - 1);
  read_member(from, "to", one.to, 0, ranks - 1);
  read_member(from, "bytes", one.bytes, 0, kMostElements);
  return one;
}

CollectiveStep decode_step(const JsonCursor& from, const CollectivePlan& plan) {
  from.only({"collective", "type", "op", "count", "root", "in_place", "in_half", "started", "transfers"});
  CollectiveStep step;
  read_named(from, "collective", step.collective, collectives::collective_from_name);
  read_named(from, "type", step.type, collectives::data_type_from_name);
  read_named(from, "op", step.op, collectives::reduce_op_from_name);
  if (!std::ranges::count(kStepTypes, step.type)) from.reject("no results of this type are known");
  if (step.op == ReduceOp::kAverage && !step.may_average()) from.reject("only integers are averaged");
  read_member(from, "count", step.count, 0, kMostElements);
  read_member(from, "root", step.root, 0, plan.ranks() - 1);
  read_member(from, "in_place", step.in_place);
  read_member(from, "in_half", step.in_half);
  if (step.in_half && !plan.halves) from.reject("there are no halves");
  read_member(from, "started", step.started);
  if (const auto transfers = from.optional("transfers"))
    for (const JsonCursor& one : transfers->elements())
      step.transfers.push_back(decode_transfer(one, plan.ranks()));
  return step;
}

Json encode(const CollectiveStep& step) {
  const CollectiveStep usual;
  Json json{{"collective", collective_name(step.collective)}};
  write_member(json, "type", data_type_name(step.type), data_type_name(usual.type));
  write_member(json, "op", reduce_op_name(step.op), reduce_op_name(usual.op));
  write_member(json, "count", step.count, usual.count);
  write_member(json, "root", step.root, usual.root);
  write_member(json, "in_place", step.in_place, usual.in_place);
  write_member(json, "in_half", step.in_half, usual.in_half);
  write_member(json, "started", step.started, usual.started);
  for (const Transfer& one : step.transfers)
    json["transfers"].push_back({{"from", one.from}, {"to", one.to}, {"bytes", one.bytes}});
  return json;
}

}  // namespace

std::string describe(const CollectivePlan& plan) {
  std::string text = describe(plan.network);
  text += fmt::format("  {} ranks in clusters {}, algorithm {}, segments of {}, small up to {}{}{}\n",
                      plan.ranks(), fmt::join(plan.clusters, " "), plan.algorithm, plan.segment_bytes,
                      plan.small_bytes, plan.halves ? ", split" : "", plan.finalizes ? ", finalized" : "");
  if (plan.abort) {
    text += fmt::format("  rank {} is aborted at {} us\n", plan.abort->rank,
                        plan.abort->at / std::chrono::microseconds(1));
  }
  for (std::size_t number = 0; number < plan.steps.size(); ++number) {
    const CollectiveStep& step = plan.steps[number];
    text += fmt::format("  step {}: {} of {} {} {}, root {}{}{}{}", number, collective_name(step.collective),
                        step.count, data_type_name(step.type), reduce_op_name(step.op), step.root,
                        step.in_place ? ", in place" : "", step.in_half ? ", in the halves" : "",
                        step.started ? ", started" : "");
    for (const Transfer& one : step.transfers)
      text += fmt::format("; {} sends {} bytes to {}", one.from, one.bytes, one.to);
    text += "\n";
  }
  return text;
}

std::string encode(const CollectivePlan& plan) {
  const CollectivePlan usual;
  Json json{
      {"network", network_to_json(plan.network)}, {"clusters", plan.clusters}, {"steps", Json::array()}};
  write_member(json, "algorithm", plan.algorithm, usual.algorithm);
  write_member(json, "segment_bytes", plan.segment_bytes, usual.segment_bytes);
  write_member(json, "small_bytes", plan.small_bytes, usual.small_bytes);
  write_member(json, "halves", plan.halves, usual.halves);
  write_member(json, "finalizes", plan.finalizes, usual.finalizes);
  if (plan.abort) json["abort"] = {{"rank", plan.abort->rank}, {"at_ns", plan.abort->at.count()}};
  for (const CollectiveStep& step : plan.steps) json["steps"].push_back(encode(step));
  return json.dump();
}

CollectivePlan decode_collective_plan(std::string_view text, const std::string& source) {
  const JsonDocument document = JsonDocument::parse(text, source);
  const JsonCursor root = document.root();
  root.only({"network", "clusters", "steps", "algorithm", "segment_bytes", "small_bytes", "halves",
             "finalizes", "abort"});
  CollectivePlan plan;
  const JsonCursor clusters = root.field("clusters");
  for (const JsonCursor& one : clusters.elements())
    plan.clusters.push_back(static_cast<unsigned>(one.integer(0, CollectivePlan::kMostRanks)));
  if (plan.ranks() < CollectivePlan::kFewestRanks || plan.ranks() > CollectivePlan::kMostRanks)
    clusters.reject(fmt::format("{} ranks are not simulated", plan.ranks()));
  plan.network = network_from(root, plan.ranks());
  if (const auto algorithm = root.optional("algorithm")) {
    plan.algorithm = algorithm->text();
    if (!collectives::is_algorithm_choice(plan.algorithm)) algorithm->reject("there is no such algorithm");
  }
  read_member(root, "segment_bytes", plan.segment_bytes, 1, 1 << 30);
  read_member(root, "small_bytes", plan.small_bytes, 0, 1 << 30);
  read_member(root, "halves", plan.halves);
  read_member(root, "finalizes", plan.finalizes);
  if (const auto abort = root.optional("abort")) {
    abort->only({"rank", "at_ns"});
    CollectivePlan::Abort one;
    read_member(*abort, "rank", one.rank, 0, plan.ranks() - 1);
    read_member(*abort, "at_ns", one.at);
    plan.abort = one;
  }
  for (const JsonCursor& one : root.field("steps").elements()) plan.steps.push_back(decode_step(one, plan));
  return plan;
}

}  // namespace tombolo::simulation
