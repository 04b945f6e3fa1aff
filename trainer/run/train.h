// A whole training run, from options to files.
//
// trainer/run/ owns what surrounds the training steps: options, placement, logs and result files, sampling,
// and the measurement of layers that planning needs.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "collectives/engine/communicator.h"
#include "trainer/pipeline/pipeline_trainer.h"
#include "trainer/run/evaluation_options.h"
#include "trainer/run/generate.h"
#include "trainer/run/run_checkpoints.h"
#include "trainer/run/run_files.h"
#include "trainer/run/sampling.h"

namespace tombolo::trainer {

/// The options. What is not given comes from the checkpoint, then from the plan, then from the defaults
/// stated here.
struct TrainOptions {
  std::string data;                      ///< see data_paths()
  std::string tokenizer;                 ///< path, for text; empty: bytes are the tokens
  std::optional<std::uint64_t> shuffle;  ///< seed of the order of rows; nothing: as they stand in the data
  std::string init = "random:1337";
  std::string plan;                ///< path; excludes pipeline, replicas and micro_batch
  std::optional<int> layers;       ///< 4
  std::optional<int> width;        ///< 128
  std::optional<int> heads;        ///< 4
  std::optional<int> context;      ///< 128
  std::optional<int> vocabulary;   ///< the data's
  std::optional<int> batch;        ///< 8 rows, over all replicas
  std::optional<int> pipeline;     ///< 1 stage
  std::optional<int> replicas;     ///< 1
  std::optional<int> micro_batch;  ///< 0: see even_parallel_config
  AdamW optimizer;
  int steps = 100;  ///< in all, those before a resumption included
  int threads = 1;
  std::optional<compute::Precision> precision;  ///< the plan's; fp32
  std::optional<compute::Precision> moments;    ///< the plan's; fp32
  std::optional<planner::Recompute> recompute;  ///< the plan's; kNone
  StageFactory make_stage = cpu_stages();       ///< what computes, on this rank: see choose_back_end()
  std::uint64_t bucket_bytes = 256 * 1024;

  /// FLOP/s of all devices together, for utilisation; 0 = unknown. See total_peak().
  double peak = 0;

  CheckpointOptions checkpoints;

  // Files that rank 0 writes; empty = none.
  std::string log;          ///< JSON lines, one per step, flushed
  std::string tensorboard;  ///< folder of TensorBoard event files
  std::string save;         ///< the model at the end (also after an interrupt), as llm.c has it
  std::string timeline;     ///< Chrome trace events
  int timeline_first = 1;
  int timeline_steps = 2;
  std::string traffic;   ///< JSON: bytes per pair of NICs
  std::string measured;  ///< JSON: planner::MeasuredRun

  EvaluationOptions evaluation;
  /// tokens = 0: none at the end; see TrainResult::parameters. Its tokenizer is the one above.
  GenerateOptions sample;
};

/// Called on rank 0 only, except stop_requested and log.
struct TrainHooks {
  std::function<void(const Job&, const StageCompute&)> started;
  std::function<void(const StepReport&)> stepped;
  Sampling::Sampled sampled;
  Log log;
  std::function<bool()> stop_requested;  ///< on every rank, between steps; on rank 0 by another thread too
};

struct TrainResult {
  bool interrupted = false;
  int steps = 0;  ///< made by this start of the run
  /// False where --checkpoint was given and the last state is in no checkpoint.
  bool checkpointed = true;
  /// Seconds waited for transfers, on rank 0, the longest first.
  std::vector<LinkWait> waits;
  double seconds = 0;  ///< of all steps made, on this rank
  /// Files beside the model that could not be written, or not to their end: on rank 0, each with the cause.
  std::vector<std::string> unwritten;
  /// On rank 0 where a sample is wanted and no interrupt came: what generate() takes. The caller leaves the
  /// communicator first, so that no rank waits for the text.
  Shape shape;
  std::vector<float> parameters;
};

/// Fills in every choice that the options leave open. Throws kInvalidUsage where options contradict each
/// other, the plan or the checkpoint. Reads the files that they name.
Job resolve(const TrainOptions& options);

/// Collective over `world`; null = a single rank without sockets. `job` is resolve()'s. What is worth most
/// comes first at the end: the checkpoint, then `save`, then the files about the run, which fail without
/// ending it. Throws tombolo::Error.
TrainResult train(const TrainOptions& options, const Job& job, collectives::Communicator* world,
                  const TrainHooks& hooks);

}  // namespace tombolo::trainer
