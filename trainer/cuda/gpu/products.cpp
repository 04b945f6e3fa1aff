#include "trainer/cuda/gpu/products.h"

#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <string>
#include <tuple>

#include "base/dynamic_library.h"
#include "base/error.h"
#include "trainer/cuda/gpu/launches.h"
#include "trainer/cuda/operations/operation_shape.h"
#include "trainer/cuda/operations/product_layout.h"

namespace tombolo::trainer::cuda::gpu {
namespace {

/// cuBLASLt's functions, under their own names without the prefix.
struct CublasLt {
  CublasLt() : library(open()) {
    find("cublasLtCreate", create);
    find("cublasLtDestroy", destroy);
    find("cublasLtGetStatusString", status_string);
    find("cublasLtMatmulDescCreate", descriptor_create);
    find("cublasLtMatmulDescDestroy", descriptor_destroy);
    find("cublasLtMatmulDescSetAttribute", descriptor_set);
    find("cublasLtMatrixLayoutCreate", layout_create);
    find("cublasLtMatrixLayoutDestroy", layout_destroy);
    find("cublasLtMatmulPreferenceCreate", preference_create);
    find("cublasLtMatmulPreferenceDestroy", preference_destroy);
    find("cublasLtMatmulPreferenceSetAttribute", preference_set);
    find("cublasLtMatmulAlgoGetHeuristic", heuristic);
    find("cublasLtMatmul", matmul);
  }

  void check(cublasStatus_t status, const char* what) const {
    if (status != CUBLAS_STATUS_SUCCESS)
      fail(Cause::kSystem, "cuBLASLt: {}: {}", what, status_string(status));
  }

  DynamicLibrary library;
  decltype(&cublasLtCreate) create{};
  decltype(&cublasLtDestroy) destroy{};
  decltype(&cublasLtGetStatusString) status_string{};
  decltype(&cublasLtMatmulDescCreate) descriptor_create{};
  decltype(&cublasLtMatmulDescDestroy) descriptor_destroy{};
  decltype(&cublasLtMatmulDescSetAttribute) descriptor_set{};
  decltype(&cublasLtMatrixLayoutCreate) layout_create{};
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy{};
  decltype(&cublasLtMatmulPreferenceCreate) preference_create{};
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy{};
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set{};
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic{};
  decltype(&cublasLtMatmul) matmul{};

 private:
  static DynamicLibrary open() {
    const std::string name = "libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR);
    const std::string installed = "/usr/local/cuda/lib64/" + name;
    std::string problem;
    auto library = DynamicLibrary::open({name.c_str(), installed.c_str()}, &problem);
    if (!library)
      fail(Cause::kUnsupported,
           "cuBLASLt is missing ({}); install CUDA {}'s cuBLAS, or add its folder to LD_LIBRARY_PATH",
           problem, CUBLAS_VER_MAJOR);
    return std::move(*library);
  }
  template <typename Function>
  void find(const char* name, Function*& function) {
    if (!library.find(name, function))
      fail(Cause::kUnsupported, "{} has no function {}; is it cuBLAS {}?", library.name(), name,
           CUBLAS_VER_MAJOR);
  }
};

cudaDataType_t data_type(Element element) {
  return element == Element::kBfloat16 ? CUDA_R_16BF : CUDA_R_32F;
}

/// The largest power of two up to 256 that divides the address: what the library may assume.
std::uint32_t alignment(const void* at) {
  const auto address = reinterpret_cast<std::uintptr_t>(at) | 256U;
  return static_cast<std::uint32_t>(address & (~address + 1));
}

/// An object of the library, destroyed by its function.
template <typename Handle>
class Owned {
 public:
  using Destroy = cublasStatus_t (*)(Handle);
  Owned() = default;
  Owned(Handle handle, Destroy destroy) : handle_(handle), destroy_(destroy) {}
  Owned(Owned&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)), destroy_(other.destroy_) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(destroy_, other.destroy_);
    return *this;
  }
  ~Owned() {
    if (handle_ != nullptr) destroy_(handle_);
  }
  Handle get() const { return handle_; }

 private:
  Handle handle_ = nullptr;
  Destroy destroy_ = nullptr;
};

/// Everything on which the choice of an algorithm depends.
using Key = std::tuple<std::size_t, std::size_t, std::size_t, Element, Element, bool, bool, bool, Epilogue,
                       std::array<std::uint32_t, 5>>;

Key key_of(const Product& p) {
  return {p.m,
          p.n,
          p.k,
          p.a.element,
          p.out.element,
          p.a_transposed,
          p.b_transposed,
          p.accumulate,
          p.epilogue,
          {alignment(p.out.at), alignment(p.a.at), alignment(p.b.at), alignment(p.vector.at),
           alignment(p.auxiliary.at)}};
}

struct Plan {
  Owned<cublasLtMatmulDesc_t> descriptor;
  Owned<cublasLtMatrixLayout_t> left, right, out;
  cublasLtMatmulAlgo_t algorithm{};
  Epilogue fused = Epilogue::kNone;  ///< what the library does of the epilogue; the rest is ours
};

/// True where the library's epilogue is what we want of it: not in fp32, where its GELU need not be exact.
bool may_fuse(const Product& p) {
  return p.epilogue == Epilogue::kBias || p.a.element == Element::kBfloat16;
}

}  // namespace

struct Products::State {
  State() {
    cublasLtHandle_t made = nullptr;
    lt.check(lt.create(&made), "cannot be used");
    handle = Owned<cublasLtHandle_t>(made, lt.destroy);
  }

  template <typename T>
  void set(const Plan& plan, cublasLtMatmulDescAttributes_t attribute, const T& value) {
    lt.check(lt.descriptor_set(plan.descriptor.get(), attribute, &value, sizeof value),
             "attribute of a product");
  }

  Owned<cublasLtMatrixLayout_t> layout(Element element, const ColumnMajor& matrix) {
    cublasLtMatrixLayout_t made = nullptr;
    lt.check(lt.layout_create(&made, data_type(element), matrix.rows, matrix.columns,
                              static_cast<std::int64_t>(matrix.stride)),
             "layout of a matrix");
    return {made, lt.layout_destroy};
  }

  /// The vectors and matrices of the epilogue, which differ from call to call.
  void point(const Plan& plan, const Product& p) {
    if (plan.fused == Epilogue::kNone) return;
    if (plan.fused != Epilogue::kGeluGradient) {
      const void* vector = p.vector.at;
      set(plan, CUBLASLT_MATMUL_DESC_BIAS_POINTER, vector);
    }
    if (plan.fused == Epilogue::kBiasGelu || plan.fused == Epilogue::kGeluGradient) {
      const void* auxiliary = p.auxiliary.at;
      set(plan, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, auxiliary);
    }
  }

  /// Nothing where the library has no kernel with this much of the epilogue.
  bool find(Plan& plan, const Product& p, Epilogue fused) {
    plan.fused = fused;
    const ColumnMajorProduct shape = column_major(p);
    cublasLtMatmulDesc_t descriptor = nullptr;
    // fp32 stays fp32: TF32 is another compute type.
    lt.check(lt.descriptor_create(&descriptor, CUBLAS_COMPUTE_32F, CUDA_R_32F), "description of a product");
    plan.descriptor = Owned<cublasLtMatmulDesc_t>(descriptor, lt.descriptor_destroy);
    set(plan, CUBLASLT_MATMUL_DESC_TRANSA, shape.left_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(plan, CUBLASLT_MATMUL_DESC_TRANSB, shape.right_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    switch (fused) {
      case Epilogue::kNone:
        break;
      case Epilogue::kBias:
        set(plan, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
        break;
      case Epilogue::kBiasGelu:
        set(plan, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_GELU_AUX_BIAS);
        break;
      case Epilogue::kGeluGradient:
        set(plan, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_DGELU);
        break;
      case Epilogue::kSumOfA:
        set(plan, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BGRADB);
        set(plan, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, std::int32_t{CUDA_R_32F});
        break;
    }
    if (fused == Epilogue::kBiasGelu || fused == Epilogue::kGeluGradient)
      set(plan, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, static_cast<std::int64_t>(p.n));
    point(plan, p);
    plan.left = layout(p.b.element, shape.left);
    plan.right = layout(p.a.element, shape.right);
    plan.out = layout(p.out.element, shape.out);

    cublasLtMatmulPreference_t made = nullptr;
    lt.check(lt.preference_create(&made), "preferences of a product");
    const Owned<cublasLtMatmulPreference_t> preference(made, lt.preference_destroy);
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
      lt.check(lt.preference_set(preference.get(), attribute, &value, sizeof value),
               "preference of a product");
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{kProductWorkspace});
    // Parts of k may be summed, but from the workspace and in order, not where the blocks meet in the result.
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment(p.b.at));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment(p.a.at));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment(p.out.at));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment(p.out.at));

    std::array<cublasLtMatmulHeuristicResult_t, 8> results{};
    int found = 0;
    const cublasStatus_t status = lt.heuristic(
        handle.get(), plan.descriptor.get(), plan.left.get(), plan.right.get(), plan.out.get(),
        plan.out.get(), preference.get(), static_cast<int>(results.size()), results.data(), &found);
    if (status != CUBLAS_STATUS_SUCCESS && status != CUBLAS_STATUS_NOT_SUPPORTED &&
        status != CUBLAS_STATUS_INVALID_VALUE)
      lt.check(status, "choice of an algorithm");
    const auto end = results.begin() + found;
    const auto best = std::find_if(results.begin(), end, [](const auto& result) {
      return result.state == CUBLAS_STATUS_SUCCESS && result.workspaceSize <= kProductWorkspace;
    });
    if (status != CUBLAS_STATUS_SUCCESS || best == end) return false;
    plan.algorithm = best->algo;
    return true;
  }

  const Plan& plan(const Product& p) {
    const Key key = key_of(p);
    if (const auto known = plans.find(key); known != plans.end()) return known->second;
    Plan made;
    const bool found = (may_fuse(p) && find(made, p, p.epilogue)) || find(made, p, Epilogue::kNone);
    if (!found) fail(Cause::kUnsupported, "cuBLASLt has no kernel for the product {}", operation_shape(p));
    return plans.emplace(key, std::move(made)).first->second;
  }

  CublasLt lt;
  Owned<cublasLtHandle_t> handle;
  std::mutex mutex;
  std::map<Key, Plan> plans;
};

Products::Products() : state_(std::make_unique<State>()) {}
Products::~Products() = default;

void Products::run(const Launcher& launcher, const Product& product, std::byte* workspace) {
  if (product.m == 0 || product.n == 0) return;
  const std::scoped_lock lock(state_->mutex);
  const Plan& plan = state_->plan(product);
  state_->point(plan, product);
  const float one = 1, beta = product.accumulate ? 1 : 0;
  state_->lt.check(
      state_->lt.matmul(state_->handle.get(), plan.descriptor.get(), &one, product.b.at, plan.left.get(),
                        product.a.at, plan.right.get(), &beta, product.out.at, plan.out.get(), product.out.at,
                        plan.out.get(), &plan.algorithm, workspace, kProductWorkspace, launcher.stream),
      "product");
  if (plan.fused == product.epilogue) return;
  if (product.epilogue == Epilogue::kSumOfA && sum_of_a_scratch(product) > kProductWorkspace)
    fail(Cause::kUnsupported, "the sums of {} columns need {} bytes, but the workspace has {}", product.m,
         sum_of_a_scratch(product), kProductWorkspace);
  launch_epilogue(launcher, product, reinterpret_cast<float*>(workspace));
}

}  // namespace tombolo::trainer::cuda::gpu
