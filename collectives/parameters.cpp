#include "collectives/parameters.h"

#include <string>

#include "collectives/rendezvous/bootstrap.h"
#include "collectives/schedule/algorithm.h"

namespace tombolo::collectives {
namespace {

// Parameters refer to text of static lifetime. The table of algorithms is a constant, so that it exists
// before they are initialized.
std::string_view algorithm_meaning() {
  static const std::string meaning =
      "How collectives are carried out. " + algorithm_help() +
      "; auto: by the size of the vector and where the ranks are, or by the cost model where rates and "
      "latencies between hosts are known. A name of which the collective has no algorithm, or none that is "
      "possible there, leaves it to auto.";
  return meaning;
}
std::string_view choices_of_algorithm() {
  static const std::string choices = algorithm_choices();
  return choices;
}

}  // namespace

const Parameter kSecretParameter{
    "TOMBOLO_SECRET", ParameterType::kText, "",
    "Text that authenticates the ranks of a job to each other; hard to guess, and "
    "the same on every rank. (scrypt makes a guess cost about 60 ms and 16 MiB, and "
    "each rank's start as much.) Unset: rank 0 makes one for the job and its store "
    "hands it to anyone who reaches the store's port."};
const Parameter kDeadlineParameter{
    "TOMBOLO_DEADLINE", ParameterType::kSeconds, "60",
    "Seconds that set-up may take, and that any wait may last without progress "
    "before it fails and names who was waited for."};
const Parameter kStuckAfterParameter{
    "TOMBOLO_STUCK_AFTER", ParameterType::kSeconds, "30",
    "Seconds that nothing may move in a wait before the rank says in its log, and in the job's store for "
    "`tombolo stuck`, what it waits for, and goes on waiting; 0: never."};
const Parameter kRoutingParameter{
    "TOMBOLO_ROUTING", ParameterType::kChoice, "per-peer",
    "How the transport to a peer is chosen: the best that the two ends share, or "
    "only the NIC kind that all ranks share (as one NCCL communicator does).",
    "per-peer|shared"};
const Parameter kAlgorithmParameter{"TOMBOLO_ALGORITHM", ParameterType::kChoice, kAutomatic,
                                    algorithm_meaning(), choices_of_algorithm()};
const Parameter kTuningParameter{
    "TOMBOLO_TUNING", ParameterType::kText, "",
    "File that tombolo perf --tune has written, by which collectives choose their algorithms where "
    "TOMBOLO_ALGORITHM names none. Rank 0 reads it and the others get it from there; a job of another shape "
    "(ranks, hosts, clusters) does without, with a warning. Set on every rank, or on none."};
const Parameter kProgressParameter{
    "TOMBOLO_PROGRESS", ParameterType::kChoice, "caller",
    "Who makes progress with calls that were only started (tomboloAllReduceAsync and the like): the caller, "
    "within its calls on the communicator, or a thread of the communicator's, between them too.",
    "caller|thread"};
const Parameter kCompressionParameter{
    "TOMBOLO_COMPRESSION", ParameterType::kChoice, "none",
    "How all_reduce sends sums and averages of float from one cluster to another (two-level only): as they "
    "are, "
    "as bf16, or as int8 with a scale for each 256 values. It loses precision, the same on every rank; "
    "set it alike on every rank.",
    "none|bf16|int8"};
const Parameter kGpuReduceParameter{
    "TOMBOLO_GPU_REDUCE", ParameterType::kChoice, "off",
    "Who combines elements in calls on GPU memory that go by messages, in steps of 128 KiB and more: on, "
    "that "
    "GPU (compute capability 8.0 and later); off, the processor. The bits are the same, and ranks may differ "
    "in it. A library that was built without nvcc leaves it to the processor, and warns.",
    "on|off"};
const Parameter kPortParameter{"TOMBOLO_PORT", ParameterType::kInteger, "0",
                               "TCP port of rank 0's rendezvous store; 0 takes MASTER_PORT (one more where "
                               "torchrun's agent already listens there), or 29400."};
const Parameter kAddressParameter{
    "TOMBOLO_ADDRESS", ParameterType::kText, "",
    "Address by which the ranks reach the process that calls tomboloGetUniqueId; "
    "unset: of a TCP NIC on the fabric that all share, else of any NIC, else "
    "127.0.0.1."};
const Parameter kSegmentParameter{"TOMBOLO_SEGMENT", ParameterType::kSize, "512K",
                                  "Bytes per pipelined piece of a large collective; the same on every rank."};
const Parameter kHostLimitParameter{
    "TOMBOLO_HOST_LIMIT", ParameterType::kSize, "",
    "Largest reduction, in bytes of one rank, that goes through memory which all ranks see, where all "
    "are on one host; unset: 4M, or 64M where ranks share processors. Collectives that only copy go there "
    "whatever their size; 0 turns that off for all; the same on every rank."};

const Parameter kDiscoverParameter{
    "TOMBOLO_DISCOVER", ParameterType::kText, "on",
    "on: where no cluster file says which hosts are near each other, one "
    "process of each host measures it when "
    "a communicator is made, rates for four seconds at a time, and rank 0 keeps "
    "it for a day in ~/.cache/tombolo; "
    "off: all hosts count as equally far; a file's name with a / in it: on, "
    "and kept there. On or off must be "
    "the same on every rank."};

const std::vector<const Parameter*>& collectives_parameters() {
  static const std::vector<const Parameter*> all{
      &kSecretParameter,    &kDeadlineParameter, &kStuckAfterParameter,  &kRoutingParameter,
      &kAlgorithmParameter, &kTuningParameter,   &kCompressionParameter, &kProgressParameter,
      &kGpuReduceParameter, &kPortParameter,     &kAddressParameter,     &kSegmentParameter,
      &kHostLimitParameter, &kDiscoverParameter};
  return all;
}

}  // namespace tombolo::collectives
