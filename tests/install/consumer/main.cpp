// One rank that reduces with itself, which shows that headers, library and link line fit together.
#include <cstdio>
#include <tombolo/tombolo.hpp>
#include <vector>

int main() {
  auto communicator = tombolo::api::Communicator::from_environment();
  std::vector<float> values{1, 2, 3};
  communicator.all_reduce(values.data(), values.data(), values.size());
  std::printf("rank %d of %d: %g %g %g\n", communicator.rank(), communicator.size(), values[0], values[1],
              values[2]);
  return values == std::vector<float>{1, 2, 3} ? 0 : 1;
}
