// Writes corpus/<target>/seed_* from real messages:  fuzz_seeds FOLDER.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>

#include "collectives/abort/abort_note.h"
#include "collectives/discovery/islands.h"
#include "collectives/engine/rank_record.h"
#include "collectives/rendezvous/store_protocol.h"
#include "net_plugin/comms/handle.h"
#include "net_plugin/rma/protocol.h"
#include "probe/measure/endpoint_list.h"
#include "tests/fuzz/fuzz.h"
#include "trainer/checkpoint/shard.h"
#include "transport/bootstrap/destination.h"
#include "transport/bootstrap/handshake.h"
#include "transport/goodbye.h"
#include "transport/rdma/records.h"
#include "transport/rdma/set_up_message.h"
#include "transport/routing/failover_record.h"
#include "transport/shm/set_up_message.h"
#include "transport/tcp/stream/wire.h"
#include "transport/ucx/set_up_message.h"

using namespace tombolo;

namespace {

std::filesystem::path root;

void put(const std::string& target, const std::string& name, std::span<const std::byte> bytes,
         int first = -1) {
  std::filesystem::create_directories(root / target);
  std::ofstream out(root / target / ("seed_" + name), std::ios::binary);
  if (first >= 0) out.put(static_cast<char>(first));
  out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

transport::Endpoint endpoint() {
  transport::Endpoint one;
  one.process = 4711;
  one.host = "a0";
  one.cluster = "A";
  one.offers = {{"ib0", topology::NicKind::kInfiniBand, transport::fabric_hash("ib A"), "10.1.0.1", 4000,
                 200'000'000'000, true},
                {"eth0", topology::NicKind::kTcp, 0, "fd00::1", 4001, 10'000'000'000, false}};
  one.set_ids();
  return one;
}

void text(const std::string& target, const std::string& name, std::string_view what) {
  put(target, name, std::as_bytes(std::span(what)));
}

/// As text(), of a document with a part that grown() repeats: what stands between two of '~', with '#' for
/// the repetition's number. By the first byte of an input some targets select what they read.
void repeated(const std::string& target, std::string what, int first = -1) {
  std::replace(what.begin(), what.end(), '~', fuzz::kMark);
  std::replace(what.begin(), what.end(), '#', fuzz::kNumber);
  put(target, "many", std::as_bytes(std::span(what)), first);
}

/// Whole documents of 64 KiB, of everything that may be large in reality.
void put_large() {
  repeated("cluster_file", R"({"tombolo_cluster": 1, "hosts": [
 {"name": "h", "cluster": "A", "devices": [{"kind": "cpu", "name": "cpu", "memory_bytes": 1e9}],
  "nics": [{"name": "eth0", "kind": "tcp", "addresses": ["10.0.0.1"]}]}~,
 {"name": "h#", "cluster": "A", "devices": [{"kind": "cpu", "name": "cpu", "memory_bytes": 1e9}],
  "nics": [{"name": "eth0", "kind": "tcp", "addresses": ["10.0.0.1"]}]}~]})");
  repeated("fleet", R"({"tombolo_fleet": 1, "clusters": [
 {"name": "A", "hosts": 1, "devices": {"name": "A100-80G"}, "nics": [{"name": "Ethernet 25G"}]}~,
 {"name": "A#x", "hosts": 1, "devices": {"name": "A100-80G"}, "nics": [{"name": "Ethernet 25G"}]}~],
 "between": []})");
  repeated("plan", R"({"tombolo_plan": 1, "routing": "per-peer",
 "model": {"name": "small", "layers": 8, "hidden": 128, "heads": 4, "context": 128, "vocabulary": 256, "bytes_per_value": 4},
 "job": {"global_batch": 32, "micro_batch": 2, "pipeline": 1, "data": 1}, "stages": [{"first_layer": 0, "layers": 8}],
 "ranks": [{"host": "a", "device": 0, "stage": 0, "replica": 0}],
 "groups": [{"kind": "data", "ranks": [0], "nic_kind": "tcp"}~, {"kind": "data", "ranks": [0], "nic_kind": "tcp"}~]})");
  repeated("profile", R"({"tombolo_profile": 1, "layers": [{"kind": "k", "count": 8}],
 "kinds": [{"name": "k", "parameters": 3145728, "replicated_parameters": 0, "output_bytes": 1048576}],
 "overhead_bytes": 1000000000, "measurements": [
 {"device": "H200", "kind": "k", "tensor": 1, "micro_batch": 4, "forward_seconds": 0.0036, "backward_seconds": 0.0103}~,
 {"device": "d#", "kind": "k", "tensor": 1, "micro_batch": 4, "forward_seconds": 0.0036, "backward_seconds": 0.0103}~]})");
  repeated("tuning_table",
           R"({"tombolo_tuning": 1, "shape": {"clusters": [[2, 2], [1]], "uniform_links": false}, "rows": [
 {"collective": "all_reduce", "from_bytes": 8, "to_bytes": 4096, "algorithm": "ring", "measured": [
 {"bytes": 64, "algorithm": "ring", "seconds": 0.1}~, {"bytes": 64, "algorithm": "ring", "seconds": 0.1}~]}]})");
  repeated("islands", R"({"tombolo_islands": 1, "of_host": [0, 1, 0, 1~, 1~], "inside_bytes_per_second": 1e9,
 "between_bytes_per_second": 1e8, "between_latency_seconds": 1e-4})");
  repeated("peer_json", R"({"first": {}~, "m#": [{"x": #}]~})", 0);
  repeated("planner_input",
           " iteration 20/100 | elapsed time per iteration (ms): 812.3 | global batch size: 128 |\n"
           "~ iteration #/100 | elapsed time per iteration (ms): 812.3 | global batch size: 128 |\n~",
           6);
  repeated("safetensors", R"({"a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}~,
 "a#": {"dtype": "F32", "shape": [0], "data_offsets": [24, 24]}~})");
  repeated("tokenizer", R"({"model": {"type": "BPE", "vocab": {~"a#": #, ~"z": 100000}, "merges": []},
 "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true}})",
           1);
}

/// A vocabulary of three tokens in each form, a model of one tensor, and a file of two tokens.
void put_trainer_files() {
  const auto form = [](const char* name, int which, std::string_view what) {
    put("tokenizer", name, std::as_bytes(std::span(what)), which);
  };
  form("merges", 0, "#version: 0.2\na b\n\n{\"a\": 0, \"b\": 1, \"ab\": 2}");
  form("json", 1,
       R"({"added_tokens": [{"id": 3, "content": "<|endoftext|>"}], "normalizer": null,
 "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
 "model": {"type": "BPE", "dropout": null, "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}})");
  form("ranks", 2, "YQ== 0\nYg== 1\nYWI= 2\n");
  std::string llmc(1024, '\0');
  const std::uint32_t numbers[] = {20240328, 2, 3, 2};
  std::memcpy(llmc.data(), numbers, sizeof numbers);
  form("llmc", 3, llmc + "\1a\1b\2ab");

  text(
      "safetensors", "header",
      R"({"__metadata__": {"format": "pt"}, "ln_f.bias": {"dtype": "F32", "shape": [2, 3], "data_offsets": [8, 32]}})");
  text(
      "safetensors", "config",
      R"({"model_type": "gpt2", "n_positions": 8, "vocab_size": 100, "n_layer": 3, "n_head": 2, "n_embd": 6})");

  std::string tokens(1024 + 4, '\0');
  const std::int32_t header[] = {20240520, 1, 2};
  std::memcpy(tokens.data(), header, sizeof header);
  text("token_file", "two_tokens", tokens);
}

/// A record and a note of a rank, and requests to the store as bytes that its target reads from the end.
void put_collectives() {
  collectives::RankRecord record;
  record.host = "a0";
  record.cluster = "A";
  record.token = "0123456789abcdef";
  record.settings = {{"number of ranks", "2"}, {"TOMBOLO_SEGMENT", "1048576"}};
  record.processors.set(0).set(9);
  record.endpoint = endpoint();
  put("rank_record", "two_nics", record.encode(), 0);
  text("islands", "two", collectives::Islands{{0, 1, 0, 1}, 2, 1e9, 1e8, 1e-4}.encode());
  text("tuning_table", "two_rows",
       R"({"tombolo_tuning": 1, "shape": {"clusters": [[2, 2], [1]], "uniform_links": false}, "rows": [
 {"collective": "all_reduce", "from_bytes": 8, "to_bytes": 4096, "algorithm": "doubling"},
 {"collective": "all_reduce", "from_bytes": 4097, "to_bytes": 1048576, "algorithm": "ring", "segment_bytes": 131072,
  "measured": [{"bytes": 65536, "algorithm": "ring", "segment_bytes": 131072, "seconds": 0.0012},
               {"bytes": 65536, "algorithm": "two-level", "seconds": 0.002}]}]})");
  put("abort_note", "remote", collectives::AbortNote{5, Cause::kRemote, "rank 3 is gone"}.encode(), 0);
  std::string requests;
  for (int i = 0; i < 512; ++i) requests += static_cast<char>(i * 37);
  text("store_contents", "requests", requests);
}

void put_checkpoint() {
  trainer::ShardHeader header;
  header.id = {100, 0x0123456789abcdef};
  header.shard = {0, 1};
  header.shape.context = 4;
  header.shape.vocabulary = 10;
  header.shape.padded_vocabulary = 16;
  header.shape.layers = 1;
  header.shape.heads = 1;
  header.shape.width = 4;
  header.data_position = R"({"seed": 7})";
  header.pieces = {{trainer::StageState::kParameters, 0, 10, 0}};
  header.checksums = {0};
  const std::string head = trainer::encode_shard_head(header);
  put("checkpoint_head", "whole", std::as_bytes(std::span(head)), 2);
  const std::string_view description = std::string_view(head).substr(32);
  put("checkpoint_head", "description", std::as_bytes(std::span(description)), 0);
}

void put_json() {
  constexpr std::string_view kPeer =
      "{\"rank\": 3,\n \"checks\": [{\"name\": \"x\", \"ok\": true}],\n \"seconds\": 1e-3}";
  put("peer_json", "report", std::as_bytes(std::span(kPeer)), 0);
  constexpr std::string_view kOpen = "[";
  put("peer_json", "deep", std::as_bytes(std::span(kOpen)), 0xe0);
  constexpr std::string_view kSpec = R"({"name": "lab", "hosts": [
  {"name": "x0", "cluster": "X", "devices": 2,
   "nics": [{"name": "ib0", "kind": "infiniband", "fabric": "X-ib", "rate": "2gbit"},
            {"name": "eth0", "rate": "200mbit", "segment": "left"}]},
  {"name": "y0", "cluster": "Y", "nics": [{"name": "eth0", "rate": "200mbit", "segment": "right"}]}],
 "links": [{"between": ["left", "right"], "rate": "50mbit", "rtt": "2ms", "loss": "0.1%"}]})";
  put("emulation_spec", "file", std::as_bytes(std::span(kSpec)), 0);
  for (const std::string_view name :
       {"holmes:fast=4gbit,slow=100mbit,hosts=4", "two-clusters:rate=1gbit,hosts=4,rtt=0ms,loss=0%",
        "two-paths:rates=1gbit/250mbit,rtt=0ms,loss=0%"})
    put("emulation_spec", std::string(name.substr(0, name.find(':'))), std::as_bytes(std::span(name)), 2);
}

/// A header and two receives as a slot of an RDMA connection has them, and the first message of a leg.
void put_nics() {
  namespace rdma = transport::rdma;
  std::vector<std::byte> slot(rdma::kHeaderBytes + 2 * rdma::Advert::kBytes);
  rdma::Header header;
  header.type = rdma::Header::Type::kReceives;
  header.count = 2;
  header.control_taken = 5;
  header.write(std::span(slot).first<rdma::kHeaderBytes>());
  rdma::Advert advert;
  advert.sequence = 7;
  advert.address = 0x7f00'1234'5000;
  advert.capacity = 1 << 20;
  for (std::size_t i = 0; i < 2; ++i, ++advert.sequence)
    advert.write(
        std::span(slot).subspan(rdma::kHeaderBytes + i * rdma::Advert::kBytes).first<rdma::Advert::kBytes>());
  put("rdma_record", "two_receives", slot);
  std::vector<std::byte> eager(rdma::kHeaderBytes + 5, std::byte{1});
  header = {};
  header.type = rdma::Header::Type::kEager;
  header.size = 5;
  header.write(std::span(eager).first<rdma::kHeaderBytes>());
  put("rdma_record", "small", eager);

  transport::FailoverRecord record;
  record.prefix = 1000;
  record.beyond.set(3);
  record.endpoint = endpoint();
  put("failover_record", "one_beyond", record.encode());
  const std::string list = probe::encode_endpoints({endpoint(), std::nullopt, endpoint()});
  text("endpoint_list", "three", list);
}

/// One-sided operations as their target reads them: each message behind its length.
void put_rma() {
  namespace rma = net_plugin::rma;
  std::string all;
  const auto frame = [&](const rma::RequestFrame& request, std::size_t inline_bytes = 0) {
    const std::size_t length = sizeof request + inline_bytes;
    all += static_cast<char>(length & 0xffU);
    all += static_cast<char>(length >> 8U);
    all.append(reinterpret_cast<const char*>(&request), sizeof request);
    all.append(inline_bytes, 'x');
  };
  const auto of = [](rma::OperationKind kind, std::uint32_t window, std::uint64_t offset,
                     std::uint64_t bytes) {
    rma::RequestFrame request;
    request.kind = kind;
    request.window = window;
    request.offset = offset;
    request.bytes = bytes;
    return request;
  };
  const auto done = [&](const char* name) {
    put("rma_frame", name, std::as_bytes(std::span(all)), 0);
    all.clear();
  };
  using Kind = rma::OperationKind;
  rma::RequestFrame put_and_signal = of(Kind::kPut, 0, 8, 40);
  put_and_signal.signal_window = 1;
  put_and_signal.signal_offset = 16;
  put_and_signal.signal_add = 3;
  frame(put_and_signal, 40);
  frame(of(Kind::kGet, 0, 8, 40));
  frame(of(Kind::kWindow, 2, 0, 0));
  frame(of(Kind::kFlush, rma::kNoWindow, 0, 0));
  done("short");
  const std::uint64_t whole = rma::kPartBytes + 77;
  frame(of(Kind::kPut, 2, 0, whole));
  all += "\xff\xff\xfe\xff";  // its parts
  frame(of(Kind::kGet, 2, 0, whole));
  done("parts");
  frame(of(Kind::kPut, 0, 250, 7), 7);
  done("beyond");
}

/// A part of a recorded /sys, a path without end, and what people write for the planner.
void put_planner_input() {
  put("tree_file", "one_nic",
      std::as_bytes(std::span(
          std::string_view("# a NIC\n[/sys/devices/pci0000:16/0000:17:00.0]\n"
                           "numa_node = 0\nuevent = DRIVER=mlx5_core\\nPCI_ID=15B3:1021\ndriver -> "
                           "/sys/bus/pci/drivers/mlx5_core\nsriov/\n"
                           "[/sys/class/net]\neth0 -> ../../devices/pci0000:16/0000:17:00.0/net/eth0\n"))),
      0);
  constexpr std::string_view kFolder = "a/";
  put("tree_file", "deep", std::as_bytes(std::span(kFolder)), 0xe0);
  const auto one = [](const char* name, int which, std::string_view what) {
    put("planner_input", name, std::as_bytes(std::span(what)), which);
  };
  one("compute", 0, R"({"tombolo_library": 1, "note": "x", "records": [
  {"device": "A100-SXM4-80GB", "software": ["megatron"], "products": 1.0, "fused_attention": true, "attention": 0.5,
   "traffic": 1.54, "loss_traffic": 40, "forward_floor": 1.82e-3, "backward_floor": 2.44e-3, "inside_share": 0.8,
   "hop_seconds": 2e-6, "source": "estimate"}]})");
  one("models", 1, R"({"tombolo_library": 1, "note": "x", "models": [
  {"name": "gpt2", "aliases": ["gpt2-small"], "parameters": 124439808, "shape": {"layers": 12, "hidden": 768, "heads": 12,
   "context": 1024, "vocabulary": 50257, "bytes_per_value": 2}, "source": "x"},
  {"name": "mixtral", "parameters": 4.67e10, "active_parameters": 1.29e10, "shape": {"layers": 32, "hidden": 4096,
   "heads": 32, "context": 4096, "vocabulary": 32000, "biases": false, "experts": 8, "experts_per_token": 2}, "source": "x"}]})");
  one("devices", 2,
      R"({"tombolo_library": 1, "note": "x", "attained": {"memory": {"share": 0.85, "note": "x"},
  "device_link": {"share": 0.8, "note": "x"}}, "devices": [{"name": "P100-PCIE-12GB", "aliases": ["P100"], "kind": "gpu",
   "memory_bytes": 12884901888, "memory_bytes_per_second": 5.49e11, "peak_flops_per_second": {"fp32": 9.3e12},
   "device_link": "PCIe 3.0 x16", "device_bytes_per_second": 1.575e10, "attained_share": 0.85, "attained_note": "x"}]})");
  one("model", 4, "layers=8,hidden=128,heads=4,context=64,vocabulary=100");
  one("mixture", 4,
      "layers=8,hidden=128,heads=4,context=64,vocabulary=100,biases=no,experts=8,experts_per_token=2");
  text("plan", "experts", R"({"tombolo_plan": 1, "routing": "per-peer",
 "model": {"name": "x", "layers": 4, "hidden": 64, "heads": 4, "head_width": 32, "context": 32, "vocabulary": 16,
  "bytes_per_value": 2, "gated": true, "biases": false, "experts": 8, "experts_per_token": 2, "expert_feed_forward": 48,
  "shared_feed_forward": 96, "moe_every": 2, "dense_first": 1},
 "job": {"global_batch": 8, "micro_batch": 1, "pipeline": 1, "data": 4, "context_parallel": 2, "expert_parallel": 2,
  "sharding": "optimizer", "framework": "megatron"},
 "stages": [{"first_layer": 0, "layers": 4}],
 "ranks": [{"host": "a0", "stage": 0, "replica": 0}, {"host": "a1", "stage": 0, "replica": 1},
  {"host": "a2", "stage": 0, "replica": 2}, {"host": "a3", "stage": 0, "replica": 3}],
 "groups": [{"kind": "context", "ranks": [0, 1], "nic_kind": "roce"}, {"kind": "expert", "ranks": [2, 3], "nic_kind": "roce"},
  {"kind": "expert-data", "ranks": [0, 2], "nic_kind": "tcp"}]})");
  one("changes", 5, "lose a0; link A B 10Gbit 2ms; speed b1 0.5");
  one("megatron_log", 6,
      " iteration 20/100 | elapsed time per iteration (ms): 812.3 | throughput per GPU (TFLOP/s/GPU): 151.2 "
      "| "
      "global batch size: 128 | lm loss: 7.1E+00 |\n");
  one("nemo_log", 6,
      "Training epoch 0, iteration 9/99 | lr: 0.0001 | global_batch_size: 128 | global_step: 9 | "
      "train_step_timing in s: 4.52 | TFLOPS_per_GPU: 401.2\n"
      "Epoch 0:  10%|# | 10/100 [00:45<06:45, global_step=9.000, train_step_timing in s=4.520]\r");
  one("torchtitan_log", 6,
      "[titan] Building device mesh with parallelism: pp=1, dp_replicate=1, dp_shard=2, cp=1, tp=1, ep=1, "
      "etp=1\n"
      "[titan] Trainer is initialized with local batch size 4, global batch size 8, gradient accumulation "
      "steps 1, "
      "sequence length 16, total steps 10 (warmup 2)\n[titan] Training starts at step 1\n"
      "[titan] \033[31mstep:  1  \033[32mloss: 12.2  \033[34mtps: 1,234  \033[36mtflops: 3.10  mfu: "
      "1.0%\033[39m\n"
      "[titan] Saving the checkpoint\n");
  one("deepspeed_log", 6,
      "steps: 10 loss: 9.1234 iter time (s): 0.512 samples/sec: 15.625\n"
      "epoch=0/micro_step=10/global_step=10, RunningAvgSamplesPerSec=15.2, CurrSamplesPerSec=15.6, "
      "MemAllocated=1.0GB\n[deepspeed] OVERFLOW! Rank 0 Skipping step.\n");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  root = argv[1];
  put("endpoint", "full", endpoint().encode());
  put("endpoint", "compact", endpoint().encode_compact(96));

  transport::bootstrap::Hello hello;
  hello.host = "a0";
  hello.nic = "eth0";
  hello.streams = 3;
  hello.label = 12;
  put("handshake", "hello", hello.encode(), 0);
  transport::bootstrap::Reply reply;
  reply.host = "b0";
  reply.resumable = true;
  reply.legs_listener = 7;
  put("handshake", "reply", reply.encode(), 1);
  put("handshake", "proof", transport::bootstrap::Proof{}.encode(), 2);
  put("handshake", "challenge", transport::bootstrap::Challenge{}.encode(), 3);
  const auto greeting = hello.encode();
  put("handshake", "preamble", std::span(greeting).first(transport::bootstrap::Preamble::kBytes), 4);
  const std::string name = transport::bootstrap::Destination::of(hello).server_name();
  put("handshake", "server_name", std::as_bytes(std::span(name)), 5);

  transport::tcp::FrameHeader chunk;
  chunk.length = 100;
  chunk.total = 1000;
  chunk.offset = 200;
  chunk.sequence = 3;
  transport::tcp::HeaderBytes header;
  encode(chunk, header);
  put("frame", "chunk", header);
  transport::tcp::FrameHeader goodbye;
  goodbye.type = transport::tcp::FrameType::kGoodbye;
  goodbye.reason = transport::GoodbyeReason::kTooLarge;
  encode(goodbye, header);
  put("frame", "goodbye", header);

  namespace rdma = transport::rdma;
  rdma::SetUpMessage message;
  message.kind = rdma::SetUpMessage::Kind::kAnswer;
  message.nic_pairs.resize(2);
  message.nic_pairs[0].port.nic = "mlx5_0";
  message.nic_pairs[1].peer_address = "10.0.0.2";
  message.kept = {true, true};
  message.queue_pairs = {{17, 1}, {18, 2}, {19, 3}};
  put("rdma_set_up_message", "answer", message.encode());
  put("rdma_set_up_message", "refusal", rdma::SetUpMessage::refusal("no port is active").encode());

  transport::shm::SetUpMessage segment;
  segment.kind = transport::shm::SetUpMessage::Kind::kOffer;
  segment.process = 4711;
  segment.nonce.fill(std::byte{1});
  put("shm_set_up_message", "offer", segment.encode());
  put("shm_set_up_message", "refusal", transport::shm::SetUpMessage::refusal("not of this host").encode());

  namespace ucx = transport::ucx;
  ucx::SetUpMessage worker;
  worker.token = 1;
  worker.proof = 2;
  worker.address.assign(300, std::byte{0x5a});
  worker.wanted = {"10.0.0.2", "fd00::2"};
  put("ucx_set_up_message", "offer", worker.encode());
  worker.kind = ucx::SetUpMessage::Kind::kAnswer;
  worker.address.assign(ucx::kLongestAddress, std::byte{0xa5});
  put("ucx_set_up_message", "answer", worker.encode());
  put("ucx_set_up_message", "refusal",
      ucx::SetUpMessage::refusal("no interface here has the address").encode());

  transport::Goodbye last;
  last.reason = transport::GoodbyeReason::kFailed;
  last.sent = 3;
  last.text = "the device is gone";
  put("goodbye", "failed", last.encode());

  namespace store = collectives::store;
  const auto set = store::encode(store::Kind::kSet, 7, "rank/3", std::as_bytes(std::span("value")));
  put("store", "set", std::span(set).subspan(store::kLengthBytes), 0);
  const auto get = store::encode(store::Kind::kGet, 8, "rank/3", {});
  put("store", "get", std::span(get).subspan(store::kLengthBytes), 0);
  put("store", "hello", store::make_hello(store::Nonce{}), 1);
  const auto secret = transport::Secret::from_text("another secret");
  put("store", "proof", store::make_proof(secret, {}, {}), 2);
  put("store", "verdict", store::make_verdict(secret, {}, {}, collectives::StoreId{}), 3);

  net_plugin::Handle handle;
  handle.endpoint = endpoint();
  put("net_handle", "two_nics", handle.encode());

  put_trainer_files();
  put_collectives();
  put_checkpoint();
  put_json();
  put_nics();
  put_rma();
  put_planner_input();
  put_large();
  std::string pieces;
  for (int i = 0; i < 256; ++i) pieces += static_cast<char>(i * 59);
  text("message_exchange", "pieces", pieces);

  text("http", "metrics", "GET /metrics HTTP/1.1\r\nHost: a0:9400\r\nAccept: text/plain\r\n\r\n");
  text("http", "head", "HEAD /json?pretty HTTP/1.0\r\n\r\n");
  text("http", "post", "POST / HTTP/1.1\r\n\r\n");
  return 0;
}
