/* Every function of tombolo.h once, among any number of ranks. Start it with one:
 *   tombolo run --ranks 4 -- ./tour
 * Build: cc tour.c -ltombolo */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tombolo/tombolo.h>

enum { kCount = 4 };

/* A failed call ends the process; the other ranks' calls then fail too, and name this one. */
static void check(tomboloResult_t result) {
  if (result == tomboloSuccess) return;
  fprintf(stderr, "%s: %s\n", tomboloGetErrorString(result), tomboloGetLastError(NULL));
  exit(1);
}

static void expect(int condition, const char* what) {
  if (condition) return;
  fprintf(stderr, "wrong result: %s\n", what);
  exit(1);
}

/* Vectors with a part for each rank. */
static float *parts, *all_parts;

static void collectives(tomboloComm_t comm, int rank, int ranks) {
  float own[kCount], out[kCount];
  for (int i = 0; i < kCount; ++i) own[i] = (float)(rank + 1);
  for (int i = 0; i < ranks * kCount; ++i) parts[i] = (float)(i / kCount);
  const float sum = (float)(ranks * (ranks + 1) / 2);

  check(tomboloAllReduce(own, out, kCount, tomboloFloat32, tomboloSum, comm));
  expect(out[0] == sum, "all-reduce");
  check(tomboloReduceScatter(parts, out, kCount, tomboloFloat32, tomboloAvg, comm));
  expect(out[0] == (float)rank, "reduce-scatter");
  check(tomboloAllGather(own, all_parts, kCount, tomboloFloat32, comm));
  expect(all_parts[(ranks - 1) * kCount] == (float)ranks, "all-gather");
  check(tomboloBroadcast(own, out, kCount, tomboloFloat32, 0, comm));
  expect(out[0] == 1, "broadcast");
  check(tomboloReduce(own, out, kCount, tomboloFloat32, tomboloMax, 0, comm));
  expect(rank != 0 || out[0] == (float)ranks, "reduce");
  check(tomboloGather(own, all_parts, kCount, tomboloFloat32, 0, comm));
  expect(rank != 0 || all_parts[(ranks - 1) * kCount] == (float)ranks, "gather");
  check(tomboloScatter(parts, out, kCount, tomboloFloat32, 0, comm));
  expect(out[0] == (float)rank, "scatter");
  check(tomboloAllToAll(parts, all_parts, kCount, tomboloFloat32, comm));
  expect(all_parts[0] == (float)rank, "all-to-all");
  check(tomboloAllReduceCompressed(own, out, kCount, tomboloSum, tomboloCompressionInt8, NULL, comm));
  expect(out[0] == sum, "all-reduce in one cluster, where nothing is encoded");
  check(tomboloBarrier(comm));

  const char* algorithm = NULL;
  check(tomboloCommLastAlgorithm(comm, &algorithm));
  /* Through memory where all ranks are on one host, else by messages. */
  expect(strcmp(algorithm, "host") == 0 || strcmp(algorithm, "dissemination") == 0,
         "the barrier's algorithm");
  const char* json = NULL;
  check(tomboloCommExplain(comm, &json));
  expect(strstr(json, algorithm) != NULL, "what explains the barrier's algorithm names it");
  check(tomboloCommSetTuning(comm, NULL));  /* by no table, as without TOMBOLO_TUNING */
  check(tomboloCommSetDeadline(comm, 300)); /* the next call may wait so long for a rank that is busy */
  check(tomboloBarrier(comm));
  check(tomboloCommSetDeadline(comm, 60));
}

static void around_the_ring(tomboloComm_t comm, int rank, int ranks) {
  const int own = rank;
  int left = -1;
  /* All send at once: without the group each would wait for the next to receive. */
  check(tomboloGroupStart());
  check(tomboloSend(&own, 1, tomboloInt32, (rank + 1) % ranks, comm));
  check(tomboloRecv(&left, 1, tomboloInt32, (rank + ranks - 1) % ranks, comm));
  check(tomboloGroupEnd());
  expect(left == (rank + ranks - 1) % ranks, "from the left");

  check(tomboloGroupStart());
  check(tomboloSend(&own, 1, tomboloInt32, (rank + 1) % ranks, comm));
  check(tomboloGroupDiscard()); /* nothing was sent */
}

/* Calls that are started, with something else done while they move. */
static void meanwhile(tomboloComm_t comm, int ranks) {
  float gradients[2][100];
  tomboloWork_t works[2];
  int done = 0;
  for (int i = 0; i < 200; ++i) gradients[i / 100][i % 100] = 1;
  for (int layer = 0; layer < 2; ++layer) { /* as a backward pass produces them */
    check(tomboloAllReduceAsync(gradients[layer], gradients[layer], 100, tomboloFloat32, tomboloSum, comm,
                                &works[layer]));
  }
  while (!done) { /* pieces of a computation, and progress between them */
    check(tomboloWorkTest(works[0], &done));
  }
  check(tomboloWorkWait(works[1]));
  expect(gradients[0][0] == (float)ranks && gradients[1][99] == (float)ranks, "started all-reduces");
}

static void two_halves(tomboloComm_t comm, int rank) {
  tomboloComm_t half = TOMBOLO_COMM_NULL;
  check(tomboloCommSplit(comm, rank % 2, rank, &half));
  check(tomboloBarrier(half));
  check(tomboloCommDestroy(half));
}

/* Each rank's elements count as often as its rank says. */
static void weighted(tomboloComm_t comm, int rank, int ranks) {
  tomboloRedOp_t times_rank = tomboloSum;
  float weight = (float)rank, one = 1;
  check(tomboloRedOpCreatePreMulSum(&times_rank, &weight, tomboloFloat32, comm));
  check(tomboloAllReduce(&one, &one, 1, tomboloFloat32, times_rank, comm));
  check(tomboloRedOpDestroy(times_rank, comm));
  expect(one == (float)(ranks * (ranks - 1) / 2), "a sum with weights");
}

/* The last rank is left out, and comes again as a new one. `comm` is only the way by which it gets the id. */
static void smaller_and_larger(tomboloComm_t comm, int rank, int ranks) {
  const int last = ranks - 1;
  tomboloComm_t left = TOMBOLO_COMM_NULL, grown = TOMBOLO_COMM_NULL;
  tomboloUniqueId id;
  if (ranks == 1) return;
  if (rank != last) {
    check(tomboloCommShrink(comm, &last, 1, &left, TOMBOLO_SHRINK_DEFAULT));
    if (rank == 0) {
      check(tomboloCommGetUniqueId(left, &id));
      check(tomboloSend(&id, sizeof(id), tomboloInt8, last, comm));
    }
    check(tomboloCommGrow(left, ranks, rank == 0 ? &id : NULL, -1, &grown, NULL));
  } else {
    check(tomboloRecv(&id, sizeof(id), tomboloInt8, 0, comm));
    check(tomboloCommGrow(TOMBOLO_COMM_NULL, ranks, &id, last, &grown, NULL));
  }
  int sum = 1;
  check(tomboloAllReduce(&sum, &sum, 1, tomboloInt32, tomboloSum, grown));
  expect(sum == ranks, "a sum among all");
  check(tomboloCommDestroy(grown));
  check(tomboloCommDestroy(left));
}

/* A communicator of one rank, by a unique id and with settings of its own. */
static void alone(void) {
  tomboloUniqueId id;
  check(tomboloGetUniqueId(&id));
  tomboloConfig_t config = TOMBOLO_CONFIG_INITIALIZER;
  config.deadline = 10;
  config.algorithm = "ring";
  tomboloComm_t comm = TOMBOLO_COMM_NULL;
  check(tomboloCommInitRankConfig(&comm, 1, id, 0, &config));
  check(tomboloCommAbort(comm)); /* from any thread; what waits on comm ends */
  tomboloResult_t why = tomboloSuccess;
  check(tomboloCommGetAsyncError(comm, &why));
  expect(why == tomboloAborted, "the error after an abort");
  check(tomboloCommDestroy(comm));
  check(tomboloGetUniqueId(&id));
  check(tomboloCommInitRank(&comm, 1, id, 0));
  check(tomboloCommDestroy(comm));
}

int main(void) {
  int version = 0, rank = 0, ranks = 0;
  check(tomboloGetVersion(&version));
  expect(version == TOMBOLO_VERSION_CODE, "the library's version is the header's");
  expect(tomboloTypeSize(tomboloFloat32) == sizeof(float), "bytes of a float");

  tomboloComm_t comm = TOMBOLO_COMM_NULL;
  check(tomboloCommInitFromEnvironment(&comm));
  check(tomboloCommUserRank(comm, &rank));
  check(tomboloCommCount(comm, &ranks));
  parts = malloc((size_t)ranks * kCount * sizeof(float));
  all_parts = malloc((size_t)ranks * kCount * sizeof(float));
  expect(parts != NULL && all_parts != NULL, "memory");

  collectives(comm, rank, ranks);
  around_the_ring(comm, rank, ranks);
  meanwhile(comm, ranks);
  two_halves(comm, rank);
  weighted(comm, rank, ranks);
  smaller_and_larger(comm, rank, ranks);
  alone();

  check(tomboloCommFinalize(comm));
  check(tomboloCommDestroy(comm));
  free(parts);
  free(all_parts);
  if (rank == 0) printf("%d ranks: every call gave what it should\n", ranks);
  return 0;
}
