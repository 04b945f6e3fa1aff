/* One rank, in C, over the public interface. "all": checks every function, exit code 0. "loop": says "ready"
 * after some all-reduces and goes on until one fails; then prints why and exits with exit_code() of the
 * result. "shrink": as "loop", but those that are left go on without the others, and end well; prints in how
 * many milliseconds. "grow FILE": as "shrink", and then they take a new rank, to which they leave an id in
 * the file; prints when. "join RANK SIZE FILE": that new rank. "id RANK SIZE FILE": as "all", but the ranks
 * meet by a unique id, which rank 0 leaves in the file.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <tombolo/tombolo.h>

enum { kCount = 1001, kMostRanks = 16 };
static tomboloComm_t comm;
static int rank, size;

#define CHECK(call)                                                                                    \
  do {                                                                                                 \
    tomboloResult_t code_ = (call);                                                                    \
    if (code_ != tomboloSuccess) {                                                                     \
      fprintf(stderr, "%s: %s: %s\n", #call, tomboloGetErrorString(code_), tomboloGetLastError(comm)); \
      return 1;                                                                                        \
    }                                                                                                  \
  } while (0)
#define EXPECT(condition)                                                    \
  do {                                                                       \
    if (!(condition)) {                                                      \
      fprintf(stderr, "rank %d: line %d: %s\n", rank, __LINE__, #condition); \
      return 1;                                                              \
    }                                                                        \
  } while (0)

/* 100 and NCCL's number, or 200 and how far Tombolo's own number is beyond 1000: exit codes end at 255. */
static int exit_code(tomboloResult_t result) {
  return result < tomboloTimeout ? 100 + (int)result : 200 + (int)result - (int)tomboloTimeout;
}

static int collectives(void) {
  static int in[kMostRanks * kCount], out[kMostRanks * kCount];
  const int ranks_sum = size * (size + 1) / 2;
  int i, r;
  for (i = 0; i < size * kCount; ++i) in[i] = rank + 1;
  CHECK(tomboloAllReduce(in, out, kCount, tomboloInt32, tomboloSum, comm));
  for (i = 0; i < kCount; ++i) EXPECT(out[i] == ranks_sum);
  CHECK(tomboloReduceScatter(in, out, kCount, tomboloInt32, tomboloMax, comm));
  for (i = 0; i < kCount; ++i) EXPECT(out[i] == size);
  CHECK(tomboloAllGather(in, out, kCount, tomboloInt32, comm));
  for (r = 0; r < size; ++r) EXPECT(out[r * kCount] == r + 1 && out[(r + 1) * kCount - 1] == r + 1);
  CHECK(tomboloBroadcast(in, out, kCount, tomboloInt32, size - 1, comm));
  for (i = 0; i < kCount; ++i) EXPECT(out[i] == size);
  memset(out, 0, sizeof(out));
  CHECK(tomboloReduce(in, out, kCount, tomboloInt32, tomboloMin, 0, comm));
  for (i = 0; i < kCount; ++i) EXPECT(out[i] == (rank == 0 ? 1 : 0));
  CHECK(tomboloAllToAll(in, out, kCount, tomboloInt32, comm));
  for (r = 0; r < size; ++r) EXPECT(out[r * kCount] == r + 1);
  memset(out, 0, sizeof(out));
  CHECK(tomboloGather(in, out, kCount, tomboloInt32, size - 1, comm));
  for (r = 0; r < size; ++r) EXPECT(out[r * kCount] == (rank == size - 1 ? r + 1 : 0));
  for (i = 0; i < size * kCount; ++i) in[i] = i / kCount;
  CHECK(tomboloScatter(in, out, kCount, tomboloInt32, 0, comm));
  for (i = 0; i < kCount; ++i) EXPECT(out[i] == rank);
  /* In place: the root's own part stays where it is. */
  CHECK(tomboloScatter(in, rank == 0 ? in : out, kCount, tomboloInt32, 0, comm));
  for (i = 0; i < size * kCount; ++i) EXPECT(in[i] == i / kCount);
  for (i = 0; i < size * kCount; ++i) in[i] = rank + 1;
  CHECK(tomboloBarrier(comm));

  /* All ranks exchange with their neighbours at the same time, which only a group can do. */
  const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
  CHECK(tomboloGroupStart());
  CHECK(tomboloSend(in, kCount, tomboloInt32, next, comm));
  CHECK(tomboloRecv(out, kCount, tomboloInt32, previous, comm));
  CHECK(tomboloAllReduce(in + kCount, out + kCount, 1, tomboloInt32, tomboloProd, comm));
  CHECK(tomboloGroupEnd());
  for (i = 0; i < kCount; ++i) EXPECT(out[i] == previous + 1);

  tomboloComm_t half;
  int half_rank, half_size;
  CHECK(tomboloCommSplit(comm, rank % 2, -rank, &half));
  CHECK(tomboloCommUserRank(half, &half_rank));
  CHECK(tomboloCommCount(half, &half_size));
  EXPECT(half_size == (size + 1 - rank % 2) / 2);
  CHECK(tomboloAllReduce(in, out, 1, tomboloInt32, tomboloSum, half));
  CHECK(tomboloCommDestroy(half));
  CHECK(tomboloCommSplit(comm, rank == 0 ? 0 : TOMBOLO_SPLIT_NOCOLOR, 0, &half));
  EXPECT((half != NULL) == (rank == 0));
  CHECK(tomboloCommDestroy(half));
  return 0;
}

static void count_done(tomboloResult_t result, void* calls) {
  *(int*)calls += result == tomboloSuccess ? 1 : 1000;
}

static int started(void) {
  static int in[kMostRanks * kCount], out[10][kMostRanks * kCount];
  const int ranks_sum = size * (size + 1) / 2, next = (rank + 1) % size, previous = (rank + size - 1) % size;
  tomboloWork_t works[10];
  int i, r, done = 0, calls = 0;
  for (i = 0; i < size * kCount; ++i) in[i] = rank + 1;
  CHECK(tomboloAllReduceAsync(in, out[0], kCount, tomboloInt32, tomboloSum, comm, &works[0]));
  CHECK(tomboloReduceScatterAsync(in, out[1], kCount, tomboloInt32, tomboloMax, comm, &works[1]));
  CHECK(tomboloAllGatherAsync(in, out[2], kCount, tomboloInt32, comm, &works[2]));
  CHECK(tomboloBroadcastAsync(in, out[3], kCount, tomboloInt32, size - 1, comm, &works[3]));
  CHECK(tomboloReduceAsync(in, out[4], kCount, tomboloInt32, tomboloMin, 0, comm, &works[4]));
  CHECK(tomboloGatherAsync(in, out[5], kCount, tomboloInt32, size - 1, comm, &works[5]));
  CHECK(tomboloScatterAsync(in, out[6], kCount, tomboloInt32, 0, comm, &works[6]));
  CHECK(tomboloAllToAllAsync(in, out[7], kCount, tomboloInt32, comm, &works[7]));
  CHECK(tomboloSendAsync(in, kCount, tomboloInt32, next, comm, &works[8]));
  CHECK(tomboloRecvAsync(out[8], kCount, tomboloInt32, previous, comm, &works[9]));
  CHECK(tomboloWorkSetCallback(works[0], count_done, &calls));
  EXPECT(tomboloWorkSetCallback(works[8], count_done, &calls) == tomboloInvalidUsage);
  CHECK(tomboloBarrier(comm));
  CHECK(tomboloCommProgress(comm));
  EXPECT(tomboloCommFinalize(comm) == tomboloInvalidUsage);
  while (!done) CHECK(tomboloWorkTest(works[3], &done));
  EXPECT(tomboloWorkTest(works[3], &done) == tomboloInvalidArgument);
  for (i = 9; i >= 0; --i) {
    if (i != 3) CHECK(tomboloWorkWait(works[i]));
  }
  EXPECT(tomboloWorkWait(works[0]) == tomboloInvalidArgument);
  EXPECT(calls == 1);
  for (i = 0; i < kCount; ++i) {
    EXPECT(out[0][i] == ranks_sum && out[1][i] == size && out[3][i] == size && out[6][i] == 1);
    EXPECT(out[4][i] == (rank == 0 ? 1 : 0) && out[8][i] == previous + 1);
    for (r = 0; r < size; ++r) {
      EXPECT(out[2][r * kCount + i] == r + 1 && out[7][r * kCount + i] == r + 1);
      EXPECT(out[5][r * kCount + i] == (rank == size - 1 ? r + 1 : 0));
    }
  }
  CHECK(tomboloBarrierAsync(comm, &works[0]));
  CHECK(tomboloWorkWait(works[0]));
  CHECK(tomboloGroupStart());
  EXPECT(tomboloBarrierAsync(comm, &works[0]) == tomboloInvalidUsage && works[0] == NULL);
  CHECK(tomboloGroupEnd());
  EXPECT(tomboloWorkWait(NULL) == tomboloInvalidArgument);
  return 0;
}

/* Rank r's part has r + 1 elements; the parts adjoin, or lie in reverse order with gaps. */
static int uneven(void) {
  static int in[kMostRanks * kMostRanks], out[kMostRanks * kMostRanks];
  size_t counts[kMostRanks], adjoining[kMostRanks], apart[kMostRanks], sent[kMostRanks], received[kMostRanks];
  tomboloWork_t work;
  int i, r, way;
  for (r = 0; r < size; ++r) {
    counts[r] = (size_t)r + 1;
    adjoining[r] = r == 0 ? 0 : adjoining[r - 1] + counts[r - 1];
    apart[r] = (size_t)(size - 1 - r) * kMostRanks;
    sent[r] = (size_t)(rank + r) % 3;
    received[r] = sent[r];
  }
  for (way = 0; way < 2; ++way) {
    const size_t* const at = way == 0 ? adjoining : apart;
    const size_t* const offsets = way == 0 ? NULL : apart;
    const size_t own = (size_t)rank + 1;
    memset(out, 0, sizeof(out));
    for (i = 0; i < kMostRanks * kMostRanks; ++i) in[i] = rank + 1;
    CHECK(tomboloAllGatherV(in, own, out, counts, offsets, tomboloInt32, comm));
    for (r = 0; r < size; ++r) EXPECT(out[at[r]] == r + 1 && out[at[r] + counts[r] - 1] == r + 1);
    memset(out, 0, sizeof(out));
    CHECK(tomboloGatherV(in, own, out, rank == 0 ? counts : NULL, offsets, tomboloInt32, 0, comm));
    for (r = 0; r < size; ++r) EXPECT(out[at[r] + counts[r] - 1] == (rank == 0 ? r + 1 : 0));
    CHECK(tomboloReduceScatterV(in, out, counts, offsets, tomboloInt32, tomboloSum, comm));
    EXPECT(out[0] == size * (size + 1) / 2 && out[rank] == out[0]);
    for (i = 0; i < kMostRanks * kMostRanks; ++i) in[i] = i;
    CHECK(tomboloScatterV(in, counts, offsets, out, own, tomboloInt32, size - 1, comm));
    for (i = 0; i <= rank; ++i) EXPECT(out[i] == (int)at[rank] + i);
    CHECK(tomboloAllGatherVAsync(in, own, out, counts, offsets, tomboloInt32, comm, &work));
    CHECK(tomboloWorkWait(work));
    for (r = 0; r < size; ++r) EXPECT(out[at[r]] == 0 && out[at[r] + counts[r] - 1] == r);
  }
  for (i = 0; i < kMostRanks * kMostRanks; ++i) in[i] = rank + 1;
  memset(out, 0, sizeof(out));
  CHECK(tomboloAllToAllV(in, sent, NULL, out, received, NULL, tomboloInt32, comm));
  for (i = 0, r = 0; r < size; ++r) {
    size_t element;
    for (element = 0; element < received[r]; ++element) EXPECT(out[i++] == r + 1);
  }
  EXPECT(out[i] == 0);
  EXPECT(tomboloAllGatherV(in, 1, out, NULL, NULL, tomboloInt32, comm) == tomboloInvalidArgument);
  EXPECT(tomboloAllGatherV(in, (size_t)size + 7, out, counts, NULL, tomboloInt32, comm) ==
         tomboloInvalidUsage);
  memset(apart, 0, sizeof(apart));
  if (size > 1) {
    EXPECT(tomboloAllGatherV(in, (size_t)rank + 1, out, counts, apart, tomboloInt32, comm) ==
           tomboloInvalidUsage);
    EXPECT(strstr(tomboloGetLastError(comm), "overlap") != NULL);
  }
  return 0;
}

static int compressed(void) {
  static float values[kCount], residual[kCount];
  int i;
  for (i = 0; i < kCount; ++i) values[i] = 1;
  CHECK(
      tomboloAllReduceCompressed(values, values, kCount, tomboloSum, tomboloCompressionInt8, residual, comm));
  for (i = 0; i < kCount; ++i) EXPECT(values[i] == (float)size); /* one cluster: nothing is encoded */
  EXPECT(tomboloAllReduceCompressed(values, values, kCount, tomboloMax, tomboloCompressionInt8, NULL, comm) ==
         tomboloInvalidUsage);
  EXPECT(tomboloAllReduceCompressed(values, values, kCount, tomboloSum, (tomboloCompression_t)3, NULL,
                                    comm) == tomboloInvalidArgument);
  return 0;
}

static int errors(void) {
  int one = 1;
  EXPECT(tomboloAllReduce(&one, &one, 1, tomboloInt32, tomboloSum, NULL) == tomboloInvalidArgument);
  EXPECT(tomboloAllReduce(&one, &one, 1, tomboloNumTypes, tomboloSum, comm) == tomboloInvalidArgument);
  EXPECT(tomboloAllReduce(NULL, &one, 1, tomboloInt32, tomboloSum, comm) == tomboloInvalidUsage);
  EXPECT(strstr(tomboloGetLastError(comm), "null") != NULL);
  EXPECT(tomboloBroadcast(&one, &one, 1, tomboloInt32, size, comm) == tomboloInvalidUsage);
  EXPECT(tomboloSend(&one, 1, tomboloInt32, -1, comm) == tomboloInvalidArgument);
  EXPECT(tomboloGroupEnd() == tomboloInvalidUsage);
  EXPECT(tomboloTypeSize(tomboloBfloat16) == 2 && tomboloTypeSize(tomboloNumTypes) == 0);
  EXPECT(tomboloTypeSize(tomboloInt16) == 2 && tomboloTypeSize(tomboloFloat8e5m2) == 1);
  EXPECT(tomboloCommDestroy(NULL) == tomboloSuccess);
  EXPECT(tomboloGetVersion(&one) == tomboloSuccess && one == TOMBOLO_VERSION_CODE);
  return 0;
}

static tomboloResult_t leave_id(const tomboloUniqueId* id, const char* path) {
  char temporary[4096];
  FILE* file;
  snprintf(temporary, sizeof(temporary), "%s.new", path);
  file = fopen(temporary, "w");
  if (file == NULL || fwrite(id, sizeof(*id), 1, file) != 1 || fclose(file) != 0 ||
      rename(temporary, path) != 0) {
    return tomboloSystemError;
  }
  return tomboloSuccess;
}

static tomboloResult_t find_id(tomboloUniqueId* id, const char* path) {
  const struct timespec pause = {0, 5000000};
  FILE* file = NULL;
  size_t found;
  int tries;
  for (tries = 0; file == NULL && tries < 12000; ++tries) { /* a minute */
    file = fopen(path, "r");
    if (file == NULL) nanosleep(&pause, NULL);
  }
  if (file == NULL) return tomboloTimeout;
  found = fread(id, sizeof(*id), 1, file);
  fclose(file);
  return found == 1 ? tomboloSuccess : tomboloSystemError;
}

static tomboloResult_t meet_by_id(int own, int ranks, const char* path) {
  tomboloUniqueId id;
  tomboloResult_t result;
  memset(&id, 0, sizeof(id));
  result = own == 0 ? tomboloGetUniqueId(&id) : find_id(&id, path);
  if (result == tomboloSuccess && own == 0) result = leave_id(&id, path);
  return result == tomboloSuccess ? tomboloCommInitRank(&comm, ranks, id, own) : result;
}

/* Sums that only all ranks of a communicator together can give, and how they were made. */
static int sum_exactly(tomboloComm_t all) {
  static int values[300000];
  const int count = (int)(sizeof(values) / sizeof(values[0]));
  int i, own = 0, ranks = 0;
  CHECK(tomboloCommUserRank(all, &own));
  CHECK(tomboloCommCount(all, &ranks));
  for (i = 0; i < count; ++i) values[i] = own + 1;
  CHECK(tomboloAllReduce(values, values, (size_t)count, tomboloInt32, tomboloSum, all));
  for (i = 0; i < count; ++i) EXPECT(values[i] == ranks * (ranks + 1) / 2);
  return 0;
}

/* Of a new rank, where `left` is null, and of the members: one more than those that are left. */
static int grow(tomboloComm_t left, int ranks, int own, const char* path) {
  tomboloComm_t grown = TOMBOLO_COMM_NULL;
  tomboloUniqueId id;
  int now = -1;
  if (left == TOMBOLO_COMM_NULL) {
    CHECK(find_id(&id, path));
    CHECK(tomboloCommGrow(TOMBOLO_COMM_NULL, ranks, &id, own, &grown, NULL));
  } else if (own == 1) { /* any member */
    CHECK(tomboloCommGetUniqueId(left, &id));
    CHECK(leave_id(&id, path));
    CHECK(tomboloCommGrow(left, ranks, &id, -1, &grown, NULL));
  } else {
    CHECK(tomboloCommGrow(left, ranks, NULL, -1, &grown, NULL));
  }
  CHECK(tomboloCommUserRank(grown, &now));
  EXPECT(now == own);
  if (sum_exactly(grown) != 0) return 1;
  printf("grown\n");
  fflush(stdout);
  CHECK(tomboloCommDestroy(grown));
  return 0;
}

/* After a failure of `comm`: a communicator of those that are left, and one all-reduce on it. With a path
 * they grow again. */
static int shrink(const char* path) {
  tomboloComm_t left = TOMBOLO_COMM_NULL;
  struct timespec before, after;
  int left_size = 0, sum = 1;
  clock_gettime(CLOCK_MONOTONIC, &before);
  EXPECT(tomboloCommShrink(comm, NULL, 0, &left, TOMBOLO_SHRINK_DEFAULT) == tomboloInvalidArgument);
  CHECK(tomboloCommShrink(comm, NULL, 0, &left, TOMBOLO_SHRINK_ABORT));
  CHECK(tomboloCommCount(left, &left_size));
  CHECK(tomboloAllReduce(&sum, &sum, 1, tomboloInt32, tomboloSum, left));
  clock_gettime(CLOCK_MONOTONIC, &after);
  EXPECT(sum == left_size && left_size == size - 1);
  CHECK(tomboloCommDestroy(comm));
  printf("went on after %ld ms\n",
         (after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000);
  fflush(stdout);
  if (path != NULL) {
    int left_rank = 0;
    CHECK(tomboloCommUserRank(left, &left_rank));
    if (grow(left, left_size + 1, left_rank, path) != 0) return 1;
  }
  CHECK(tomboloCommDestroy(left));
  return 0;
}

int main(int argc, char** argv) {
  const char* mode = argc > 1 ? argv[1] : "all";
  static float data[100000];
  long turn;
  tomboloResult_t result;
  if (strcmp(mode, "join") == 0 && argc == 5) {
    rank = atoi(argv[2]);
    return grow(TOMBOLO_COMM_NULL, atoi(argv[3]), rank, argv[4]);
  }
  if (strcmp(mode, "id") == 0 && argc == 5) {
    result = meet_by_id(atoi(argv[2]), atoi(argv[3]), argv[4]);
    mode = "all";
  } else {
    result = tomboloCommInitFromEnvironment(&comm);
  }
  if (result != tomboloSuccess) {
    fprintf(stderr, "%s\n", tomboloGetLastError(NULL));
    return exit_code(result);
  }
  CHECK(tomboloCommUserRank(comm, &rank));
  CHECK(tomboloCommCount(comm, &size));
  if (strcmp(mode, "all") == 0) {
    if (collectives() != 0 || started() != 0 || uneven() != 0 || compressed() != 0 || errors() != 0) return 1;
    CHECK(tomboloCommGetAsyncError(comm, &result));
    EXPECT(result == tomboloSuccess);
    CHECK(tomboloCommFinalize(comm));
    CHECK(tomboloCommDestroy(comm));
    return 0;
  }
  for (turn = 0;; ++turn) {
    result = tomboloAllReduce(data, data, 100000, tomboloFloat32, tomboloSum, comm);
    if (result != tomboloSuccess) break;
    if (turn == 10) {
      printf("ready\n");
      fflush(stdout);
    }
  }
  fprintf(stderr, "%s\n", tomboloGetLastError(comm));
  if (strcmp(mode, "shrink") == 0) return shrink(NULL);
  if (strcmp(mode, "grow") == 0 && argc == 3) return shrink(argv[2]);
  tomboloCommDestroy(comm);
  return exit_code(result);
}
