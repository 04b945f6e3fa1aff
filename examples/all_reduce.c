/* Sums a vector over all ranks. Start one process per rank:
 *   tombolo run --ranks 4 -- ./all_reduce
 * or under torchrun, srun or mpirun. Build: cc all_reduce.c -ltombolo */
#include <stdio.h>
#include <tombolo/tombolo.h>

#define CHECK(call)                                                                       \
  do {                                                                                    \
    tomboloResult_t result = (call);                                                      \
    if (result != tomboloSuccess) {                                                       \
      fprintf(stderr, "%s: %s\n", tomboloGetErrorString(result), tomboloGetLastError(0)); \
      return 1;                                                                           \
    }                                                                                     \
  } while (0)

int main(void) {
  enum { kCount = 1000 };
  static float data[kCount];
  tomboloComm_t comm;
  int rank, size;
  CHECK(tomboloCommInitFromEnvironment(&comm));
  CHECK(tomboloCommUserRank(comm, &rank));
  CHECK(tomboloCommCount(comm, &size));
  for (int i = 0; i < kCount; ++i) data[i] = (float)(rank + 1);
  CHECK(tomboloAllReduce(data, data, kCount, tomboloFloat32, tomboloSum, comm));
  if (rank == 0) printf("%d ranks: every element is %g\n", size, data[0]);
  CHECK(tomboloCommDestroy(comm));
  return data[0] == (float)(size * (size + 1) / 2) ? 0 : 1;
}
