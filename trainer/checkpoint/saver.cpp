#include "trainer/checkpoint/saver.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/error.h"
#include "base/units.h"
#include "trainer/checkpoint/patience.h"
#include "trainer/checkpoint/write_shard.h"

namespace tombolo::trainer {
namespace {

bool ended(const std::future<std::string>& task) {
  return task.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

}  // namespace

CheckpointSaver::CheckpointSaver(SaverOptions options, const StageParameters& layout, FileSystem& files,
                                 Log log)
    : options_(std::move(options)),
      share_(stage_share(layout, options_.replica, options_.replicas)),
      files_(files),
      log_(std::move(log)) {}

CheckpointSaver::~CheckpointSaver() {
  if (writing_.valid()) writing_.wait();
  finish_background();
}

void CheckpointSaver::begin(std::int64_t step, const StageCompute& compute,
                            const std::string& data_position) {
  TOMBOLO_CHECK(!unsettled(), "step={} unsettled={}", step, current_.step);
  current_ = {step, options_.attempt};
  began_ = Clock::steady().now();
  ShardHeader header;
  header.id = current_;
  header.generation = options_.generation;
  header.shard = options_.shard;
  header.shape = options_.shape;
  header.whole_before = !options_.whole.empty();
  header.data_position = data_position;
  header.settings = options_.settings;
  header.pieces = shard_pieces(share_);
  try {
    buffer_.resize(header.floats());
  } catch (const std::bad_alloc&) {
    log_.warning("checkpoint of step {}: no memory for the copy of this rank's state ({}); training goes on",
                 step, format_size(header.floats() * sizeof(float)));
    state_ = State::kFailed;
    return;
  }
  std::span<float> rest(buffer_);
  for (const StageState state : kStageStates)
    for (const SharePiece& piece : share_) {
      compute.read_state(state, piece.offset, rest.first(piece.elements));
      rest = rest.subspan(piece.elements);
    }
  finish_background();
  state_ = State::kWriting;
  try {
    writing_ = std::async(std::launch::async, [this, header = std::move(header)] {
      try {
        return write_shard(files_, options_.root, header, buffer_);
      } catch (const std::exception& error) {
        return std::string(error.what());
      }
    });
  } catch (const std::system_error& error) {
    log_.warning("checkpoint of step {}: no thread to write it: {}; training goes on", step, error.what());
    state_ = State::kFailed;
  }
}

void CheckpointSaver::poll() {
  if (state_ != State::kWriting || !ended(writing_)) return;
  const std::string failure = writing_.get();
  const double seconds = to_seconds(Clock::steady().now() - began_);
  if (failure.empty()) {
    state_ = State::kDurable;
    log_.trace("checkpoint of step {}: {} of this rank are on the disk {:.2f} s after it began",
               current_.step, format_size(buffer_.size() * sizeof(float)), seconds);
    return;
  }
  state_ = State::kFailed;
  log_.warning("checkpoint of step {}: {}; training goes on, and the next checkpoint is tried when it is due",
               current_.step, failure);
}

SaveVotes CheckpointSaver::votes() {
  poll();
  return {state_ == State::kDurable ? 1 : 0, state_ == State::kFailed ? 1 : 0};
}

void CheckpointSaver::count(const SaveVotes& all) {
  if (!unsettled() || all.durable + all.failed < options_.shard.ranks) return;
  const bool was_durable = state_ == State::kDurable;
  state_ = State::kSettled;
  if (all.failed == 0) {
    whole_everywhere();
    return;
  }
  if (options_.shard.rank == 0)
    log_.warning("checkpoint of step {}: {} of {} ranks could not write their shard, so there is none",
                 current_.step, all.failed, options_.shard.ranks);
  if (was_durable) remove_in_background({current_}, {});
}

void CheckpointSaver::whole_everywhere() {
  whole_step_ = current_.step;
  if (options_.shard.rank == 0)
    log_.info("checkpoint of step {} is whole: {}/{}", current_.step, options_.root, folder_name(current_));
  options_.whole.push_back(current_);
  tidy();
}

void CheckpointSaver::tidy() {
  std::vector<CheckpointId> own, others = std::exchange(options_.leftovers, {});
  while (options_.whole.size() > static_cast<std::size_t>(options_.keep)) {
    const CheckpointId oldest = options_.whole.front();
    options_.whole.erase(options_.whole.begin());
    (oldest.attempt == options_.attempt ? own : others).push_back(oldest);
  }
  remove_in_background(std::move(own), std::move(others));
}

// Of this start every rank removes its own shard. Those of others may be of another number of ranks, and
// every rank removes what it sees.
void CheckpointSaver::remove_in_background(std::vector<CheckpointId> own, std::vector<CheckpointId> others) {
  if (own.empty() && others.empty()) return;
  finish_background();
  // Where there is no thread to be had, finish_background() does it.
  constexpr auto kPolicy = std::launch::async | std::launch::deferred;
  removing_ = std::async(kPolicy, [this, own = std::move(own), others = std::move(others)] {
    std::string first;
    const auto note = [&](const std::string& failure) {
      if (first.empty()) first = failure;
    };
    try {
      for (const CheckpointId& id : own) note(remove_shard(files_, options_.root, id, options_.shard));
      for (const CheckpointId& id : others) note(remove_checkpoint(files_, options_.root, id));
    } catch (const std::exception& error) {
      note(error.what());
    }
    return first;
  });
}

void CheckpointSaver::finish_background() {
  if (!removing_.valid()) return;
  const std::string failure = removing_.get();
  if (!failure.empty()) log_.warning("a checkpoint that is no longer needed stays: {}", failure);
}

void CheckpointSaver::wait() {
  if (state_ == State::kWriting) writing_.wait();
  poll();
}

void settle(CheckpointSaver& saver, collectives::Communicator* world) {
  if (!saver.unsettled()) return;
  work_with_patience(world, [&] { saver.wait(); });
  const SaveVotes own = saver.votes();
  std::int32_t sums[2] = {own.durable, own.failed};
  if (world != nullptr)
    world->all_reduce(sums, sums, 2, collectives::DataType::kInt32, collectives::ReduceOp::kSum);
  saver.count({sums[0], sums[1]});
}

}  // namespace tombolo::trainer
