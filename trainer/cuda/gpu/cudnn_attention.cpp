// cuDNN's attention through its header-only C++ front end. libcudnn is loaded at run time.
#include <cudnn_frontend.h>
#include <dlfcn.h>

#include <map>
#include <mutex>
#include <optional>
#include <tuple>
#include <unordered_map>

#include "base/error.h"
#include "trainer/cuda/gpu/attention_library.h"

namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;  // which the front end declares and leaves to the program
}

namespace tombolo::trainer::cuda::gpu {
namespace {

namespace fe = cudnn_frontend;

/// The front end's name for a tensor of a graph.
enum Id : std::int64_t {
  kQuery = 1,
  kKey,
  kValue,
  kOut,
  kLogSum,
  kGradient,
  kQueryGradient,
  kKeyGradient,
  kValueGradient
};

using Key = std::tuple<std::size_t, std::size_t, std::size_t, std::size_t>;

struct Plans {
  fe::graph::Graph forward, backward;
  std::size_t forward_bytes = 0, backward_bytes = 0;
};

/// What both operations have of a shape.
template <typename Either>
Key key_of(const Either& o) {
  return {o.rows, o.context, o.heads, o.head_size};
}

class CudnnAttention final : public AttentionLibrary {
 public:
  CudnnAttention() {
    if (const cudnnStatus_t status = fe::detail::create_handle(&handle_); status != CUDNN_STATUS_SUCCESS)
      fail(Cause::kUnsupported, "cuDNN cannot be used: {}", fe::detail::get_error_string(status));
  }
  ~CudnnAttention() override { static_cast<void>(fe::detail::destroy_handle(handle_)); }
  CudnnAttention(const CudnnAttention&) = delete;
  CudnnAttention& operator=(const CudnnAttention&) = delete;

  std::string name() const override {
    const std::size_t version = fe::detail::get_backend_version();
    return fmt::format("cuDNN {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
  }

  bool takes(const Attention& attention) override {
    if (attention.qkv.element != Element::kBfloat16) return false;
    const std::scoped_lock lock(mutex_);
    return plans_of(attention).has_value();
  }
  std::size_t forward_scratch(const Attention& attention) override {
    const std::scoped_lock lock(mutex_);
    return plans_of(attention)->forward_bytes;
  }
  std::size_t backward_scratch(const Attention& attention) override {
    const std::scoped_lock lock(mutex_);
    return plans_of(attention)->backward_bytes;
  }

  void run(const Launcher& launcher, const Attention& o, std::byte* scratch) override {
    std::unordered_map<std::int64_t, void*> tensors{{kOut, o.out.at}, {kLogSum, o.log_sum}};
    add_thirds(tensors, kQuery, o.qkv, o.heads * o.head_size);
    const std::scoped_lock lock(mutex_);
    execute(launcher, plans_of(o)->forward, tensors, scratch);
  }
  void run(const Launcher& launcher, const AttentionBackward& o) override {
    std::unordered_map<std::int64_t, void*> tensors{
        {kOut, o.out.at}, {kLogSum, const_cast<float*>(o.log_sum)}, {kGradient, o.gradient.at}};
    add_thirds(tensors, kQuery, o.qkv, o.heads * o.head_size);
    add_thirds(tensors, kQueryGradient, o.qkv_gradient, o.heads * o.head_size);
    const std::scoped_lock lock(mutex_);
    execute(launcher, plans_of(o)->backward, tensors, o.scratch);
  }

 private:
  /// Queries, keys and values lie side by side, `width` numbers each.
  static void add_thirds(std::unordered_map<std::int64_t, void*>& tensors, std::int64_t first,
                         const Values& values, std::size_t width) {
    for (std::int64_t third = 0; third < 3; ++third)
      tensors[first + third] =
          values.at + static_cast<std::size_t>(third) * width * element_bytes(values.element);
  }

  /// A tensor of rows x heads x context x (head size or 1) that a graph reads.
  struct Layout {
    template <typename Either>
    explicit Layout(const Either& o)
        : rows(static_cast<std::int64_t>(o.rows)),
          context(static_cast<std::int64_t>(o.context)),
          heads(static_cast<std::int64_t>(o.heads)),
          head_size(static_cast<std::int64_t>(o.head_size)) {}
    std::vector<std::int64_t> dimensions() const { return {rows, heads, context, head_size}; }
    /// `parts`: 3 in qkv, 1 elsewhere.
    std::vector<std::int64_t> strides(std::int64_t parts) const {
      const std::int64_t token = parts * heads * head_size;
      return {context * token, head_size, token, 1};
    }
    std::vector<std::int64_t> log_sum_dimensions() const { return {rows, heads, context, 1}; }
    std::vector<std::int64_t> log_sum_strides() const { return {heads * context, context, 1, 1}; }
    float scale() const { return 1.0F / std::sqrt(static_cast<float>(head_size)); }
    std::int64_t rows, context, heads, head_size;
  };

  static fe::graph::Graph graph() {
    fe::graph::Graph made;
    made.set_io_data_type(fe::DataType_t::BFLOAT16)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    return made;
  }
  static std::shared_ptr<fe::graph::Tensor_attributes> tensor(fe::graph::Graph& graph, std::int64_t id,
                                                              std::vector<std::int64_t> dimensions,
                                                              std::vector<std::int64_t> strides) {
    return graph.tensor(fe::graph::Tensor_attributes()
                            .set_uid(id)
                            .set_dim(std::move(dimensions))
                            .set_stride(std::move(strides)));
  }

  /// False where cuDNN has no such kernel on this GPU.
  bool build(fe::graph::Graph& graph, std::size_t& bytes) {
    if (graph.build(handle_, {fe::HeurMode_t::A}).is_bad()) return false;
    std::int64_t size = 0;
    if (graph.get_workspace_size(size).is_bad()) return false;
    bytes = static_cast<std::size_t>(size);
    return true;
  }

  bool build_forward(Plans& plans, const Layout& layout) {
    fe::graph::Graph& g = plans.forward = graph();
    const auto query = tensor(g, kQuery, layout.dimensions(), layout.strides(3));
    const auto key = tensor(g, kKey, layout.dimensions(), layout.strides(3));
    const auto value = tensor(g, kValue, layout.dimensions(), layout.strides(3));
    auto [out, log_sum] = g.sdpa(query, key, value,
                                 fe::graph::SDPA_attributes()
                                     .set_name("attention")
                                     .set_generate_stats(true)
                                     .set_causal_mask(true)
                                     .set_attn_scale(layout.scale()));
    out->set_output(true).set_uid(kOut).set_dim(layout.dimensions()).set_stride(layout.strides(1));
    log_sum->set_output(true)
        .set_uid(kLogSum)
        .set_data_type(fe::DataType_t::FLOAT)
        .set_dim(layout.log_sum_dimensions())
        .set_stride(layout.log_sum_strides());
    return build(g, plans.forward_bytes);
  }

  bool build_backward(Plans& plans, const Layout& layout) {
    fe::graph::Graph& g = plans.backward = graph();
    const auto query = tensor(g, kQuery, layout.dimensions(), layout.strides(3));
    const auto key = tensor(g, kKey, layout.dimensions(), layout.strides(3));
    const auto value = tensor(g, kValue, layout.dimensions(), layout.strides(3));
    const auto out = tensor(g, kOut, layout.dimensions(), layout.strides(1));
    const auto gradient = tensor(g, kGradient, layout.dimensions(), layout.strides(1));
    const auto log_sum = tensor(g, kLogSum, layout.log_sum_dimensions(), layout.log_sum_strides());
    log_sum->set_data_type(fe::DataType_t::FLOAT);
    auto gradients = g.sdpa_backward(query, key, value, out, gradient, log_sum,
                                     fe::graph::SDPA_backward_attributes()
                                         .set_name("attention backward")
                                         .set_causal_mask(true)
                                         .set_attn_scale(layout.scale())
                                         .set_deterministic_algorithm(true));
    for (std::size_t third = 0; third < gradients.size(); ++third)
      gradients[third]
          ->set_output(true)
          .set_uid(kQueryGradient + static_cast<std::int64_t>(third))
          .set_dim(layout.dimensions())
          .set_stride(layout.strides(3));
    return build(g, plans.backward_bytes);
  }

  /// Nothing where cuDNN does not run the shape in both directions.
  template <typename Either>
  std::optional<Plans>& plans_of(const Either& o) {
    const auto [at, fresh] = plans_.try_emplace(key_of(o));
    if (!fresh || o.head_size % 8 != 0 || o.head_size > 128) return at->second;
    Plans made;
    const Layout layout(o);
    if (build_forward(made, layout) && build_backward(made, layout)) at->second = std::move(made);
    return at->second;
  }

  void execute(const Launcher& launcher, fe::graph::Graph& graph,
               std::unordered_map<std::int64_t, void*>& tensors, std::byte* scratch) {
    if (const cudnnStatus_t status = fe::detail::set_stream(handle_, launcher.stream);
        status != CUDNN_STATUS_SUCCESS)
      fail(Cause::kSystem, "cuDNN: {}", fe::detail::get_error_string(status));
    if (auto status = graph.execute(handle_, tensors, scratch); status.is_bad())
      fail(Cause::kSystem, "cuDNN: {}", status.get_message());
  }

  cudnnHandle_t handle_ = nullptr;
  std::mutex mutex_;  ///< of the handle, whose stream changes, and of the plans
  std::map<Key, std::optional<Plans>> plans_;
};

}  // namespace

std::unique_ptr<AttentionLibrary> open_cudnn_attention(std::string& problem) {
  static std::mutex mutex;
  const std::scoped_lock lock(mutex);
  try {
    const std::string name = "libcudnn.so." + std::to_string(CUDNN_MAJOR);
    const std::string installed = "/usr/local/cuda/lib64/" + name;
    for (const std::string& place : {name, installed})
      if (fe::cudnn_dlhandle == nullptr) fe::cudnn_dlhandle = ::dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (fe::cudnn_dlhandle == nullptr) {
      const char* why = ::dlerror();
      problem = name + " cannot be loaded: " + (why != nullptr ? why : "unknown");
      return nullptr;
    }
    return std::make_unique<CudnnAttention>();
  } catch (const std::exception& error) {  // the front end throws where a function or libcudart is missing
    problem = error.what();
    return nullptr;
  }
}

}  // namespace tombolo::trainer::cuda::gpu
