/* Ranks that hang in the way that their argument says, until they are killed or their deadline passes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tombolo/tombolo.h>
#include <unistd.h>

#define COUNT 1024

static void check(tomboloResult_t result, const char* what) {
  if (result == tomboloSuccess) return;
  fprintf(stderr, "%s: %s\n", what, tomboloGetLastError(NULL));
  exit(1);
}

int main(int argc, char** argv) {
  static float data[COUNT];
  tomboloComm_t comm;
  int rank = 0, size = 0;
  if (argc != 2) return 2;
  check(tomboloCommInitFromEnvironment(&comm), "init");
  check(tomboloCommUserRank(comm, &rank), "rank");
  check(tomboloCommCount(comm, &size), "count");
  check(tomboloBarrier(comm), "barrier");
  printf("ready\n");
  fflush(stdout);
  if (strcmp(argv[1], "absent") == 0) {
    while (rank == size - 1) pause(); /* the last rank never comes */
  } else if (strcmp(argv[1], "mismatch") == 0) {
    /* All wait for the last rank, which waits for the first. */
    check(tomboloBroadcast(data, data, COUNT, tomboloFloat32, rank == size - 1 ? 0 : size - 1, comm),
          "broadcast");
  } else if (strcmp(argv[1], "endless") != 0) {
    return 2;
  }
  do {
    check(tomboloAllReduce(data, data, COUNT, tomboloFloat32, tomboloSum, comm), "all-reduce");
  } while (strcmp(argv[1], "endless") == 0);
  pause();
  return 0;
}
