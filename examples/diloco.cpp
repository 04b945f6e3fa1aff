// Training across clusters that talk seldom, after DiLoCo (Douillard et al., arXiv 2311.08105): inside a
// cluster the ranks average their gradients in every step, in full precision; only every so many steps the
// clusters average what their parameters have changed, as int8, and an outer optimizer takes that as its
// gradient. It is trained three times from the same start, and prints how the loss falls: with all ranks in
// every step, with seldom talks in floats, and in int8.
//
//   tombolo run --emulate two-clusters -n 4 -- ./diloco [clusters]     the ranks in so many blocks, 2 by
//   default
//
// Build: c++ -std=c++20 -O2 diloco.cpp -ltombolo
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <tombolo/tombolo.hpp>
#include <vector>

namespace api = tombolo::api;

namespace {

constexpr int kInputs = 24, kHidden = 512, kBatch = 16;
constexpr int kSteps = 400, kInnerSteps = 20;
constexpr std::size_t kParameters = kHidden * (kInputs + 2);
using Parameters = std::vector<float>;

/// A network of one hidden layer that learns what another, unknown one computes.
class Task {
 public:
  Task() {
    std::mt19937 random(1);
    for (float& weight : teacher_) weight = normal_(random);
    for (int i = 0; i < 256; ++i) validation_.push_back(draw(random));
  }

  struct Sample {
    std::array<float, kInputs> in;
    float out;
  };
  Sample draw(std::mt19937& random) {
    Sample sample;
    for (float& value : sample.in) value = normal_(random);
    sample.out = 0;
    for (std::size_t unit = 0; unit < 8; ++unit) {
      float sum = 0;
      for (std::size_t i = 0; i < kInputs; ++i) sum += teacher_[unit * kInputs + i] * sample.in[i];
      sample.out += std::tanh(sum / 3);
    }
    return sample;
  }

  static Parameters start() {
    std::mt19937 random(2);
    std::normal_distribution<float> normal(0, 1);
    Parameters parameters(kParameters);
    for (std::size_t i = 0; i < kParameters; ++i)
      parameters[i] = normal(random) / (i < kHidden * kInputs         ? 5.F
                                        : i < kHidden * (kInputs + 1) ? 1e9F
                                                                      : 22.F);
    return parameters;
  }

  /// Half the squared error; adds its gradient, where one is wanted. Parameters: weights, biases, weights of
  /// the output.
  static float error(const Parameters& at, const Sample& sample, Parameters* gradient) {
    std::array<float, kHidden> active;
    const float *biases = at.data() + kHidden * kInputs, *last = biases + kHidden;
    float out = 0;
    for (std::size_t unit = 0; unit < kHidden; ++unit) {
      float sum = biases[unit];
      for (std::size_t i = 0; i < kInputs; ++i) sum += at[unit * kInputs + i] * sample.in[i];
      active[unit] = std::tanh(sum);
      out += last[unit] * active[unit];
    }
    const float off = out - sample.out;
    if (gradient == nullptr) return off * off / 2;
    float* to = gradient->data();
    for (std::size_t unit = 0; unit < kHidden; ++unit) {
      const float back = off * last[unit] * (1 - active[unit] * active[unit]);
      for (std::size_t i = 0; i < kInputs; ++i) to[unit * kInputs + i] += back * sample.in[i];
      to[kHidden * kInputs + unit] += back;
      to[kHidden * (kInputs + 1) + unit] += off * active[unit];
    }
    return off * off / 2;
  }

  float loss(const Parameters& at) const {
    float sum = 0;
    for (const Sample& sample : validation_) sum += error(at, sample, nullptr);
    return sum / static_cast<float>(validation_.size());
  }

 private:
  std::normal_distribution<float> normal_{0, 1};
  std::array<float, 8 * kInputs> teacher_{};
  std::vector<Sample> validation_;
};

/// Adam (Kingma and Ba, arXiv 1412.6980).
class Adam {
 public:
  void step(Parameters& parameters, const Parameters& gradient) {
    ++steps_;
    const float first = 1 - std::pow(0.9F, steps_), second = 1 - std::pow(0.99F, steps_);
    for (std::size_t i = 0; i < kParameters; ++i) {
      mean_[i] += 0.1F * (gradient[i] - mean_[i]);
      square_[i] += 0.01F * (gradient[i] * gradient[i] - square_[i]);
      parameters[i] -= 0.003F * (mean_[i] / first) / (std::sqrt(square_[i] / second) + 1e-8F);
    }
  }

 private:
  float steps_ = 0;
  Parameters mean_ = Parameters(kParameters), square_ = Parameters(kParameters);
};

enum class Talks { kEveryStep, kSeldom, kSeldomInInt8 };

/// The loss after every kInnerSteps steps, and how many bytes each of two clusters sent to the other, by what
/// is sent of each value.
struct Course {
  std::vector<float> losses;
  double bytes = 0;
};

Course train(const api::Communicator& all, const api::Communicator& cluster, Talks talks) {
  Task task;
  std::mt19937 random(100 + static_cast<unsigned>(all.rank()));  // every rank has samples of its own
  Parameters parameters = Task::start(), agreed = parameters, speed(kParameters), lost(kParameters);
  Adam inner;
  Course course;
  for (int step = 1; step <= kSteps; ++step) {
    Parameters gradient(kParameters);
    for (int i = 0; i < kBatch; ++i) Task::error(parameters, task.draw(random), &gradient);
    (talks == Talks::kEveryStep ? all : cluster).all_reduce(gradient, tomboloAvg);
    for (float& one : gradient) one /= kBatch;
    inner.step(parameters, gradient);
    if (talks == Talks::kEveryStep) course.bytes += 4.0 * kParameters;
    if (step % kInnerSteps != 0) continue;
    if (talks != Talks::kEveryStep) {
      Parameters change(kParameters);
      for (std::size_t i = 0; i < kParameters; ++i) change[i] = agreed[i] - parameters[i];
      // What an encoding loses is added to the next change.
      const bool encoded = talks == Talks::kSeldomInInt8;
      if (encoded)
        all.all_reduce_compressed(change, tomboloCompressionInt8, lost, tomboloAvg);
      else
        all.all_reduce(change, tomboloAvg);
      course.bytes += (encoded ? 1 + 4.0 / 256 : 4.0) * kParameters;
      for (std::size_t i = 0; i < kParameters; ++i) {  // Nesterov's momentum, with the paper's numbers
        speed[i] = 0.9F * speed[i] + change[i];
        agreed[i] -= 0.7F * (change[i] + 0.9F * speed[i]);
      }
      parameters = agreed;
    }
    course.losses.push_back(task.loss(parameters));
  }
  return course;
}

}  // namespace

int main(int argc, char** argv) try {
  const api::Communicator all = api::Communicator::from_environment();
  const int clusters = argc > 1 ? std::atoi(argv[1]) : 2;
  if (clusters < 1 || all.size() % clusters != 0) {
    std::fprintf(stderr, "%d ranks cannot be dealt to %d clusters of equal size\n", all.size(), clusters);
    return 2;
  }
  const api::Communicator cluster = all.split(all.rank() / (all.size() / clusters), all.rank());
  const Course often = train(all, cluster, Talks::kEveryStep), seldom = train(all, cluster, Talks::kSeldom),
               encoded = train(all, cluster, Talks::kSeldomInInt8);
  if (all.rank() != 0) return 0;
  std::printf("%d ranks in %d clusters, %zu parameters; the clusters talk every %d steps\n\n", all.size(),
              clusters, kParameters, kInnerSteps);
  std::printf("%6s  %12s  %12s  %12s\n", "step", "every step", "seldom", "seldom, int8");
  for (std::size_t i = 0; i < often.losses.size(); ++i) {
    std::printf("%6zu  %12.4f  %12.4f  %12.4f\n", (i + 1) * kInnerSteps, static_cast<double>(often.losses[i]),
                static_cast<double>(seldom.losses[i]), static_cast<double>(encoded.losses[i]));
  }
  std::printf("%6s  %9.2f MB  %9.2f MB  %9.2f MB\n", "sent", often.bytes / 1e6, seldom.bytes / 1e6,
              encoded.bytes / 1e6);
  if (encoded.losses == seldom.losses)
    std::printf("nothing was encoded: the communicator knows of one cluster only (TOMBOLO_CLUSTER)\n");
  return encoded.losses.back() < 1.1F * seldom.losses.back() ? 0 : 1;
} catch (const api::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
