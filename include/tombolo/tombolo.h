/*
 * Tombolo's collective engine for C, shaped as users of NCCL expect, on host memory.
 *
 * Calls block: when one returns, this rank's part is done and its buffers are free again. There are no
 * streams. Every rank of a communicator calls its collectives in the same order, with the same counts and
 * types.
 *
 * Threads: one thread at a time per communicator, but for tomboloCommAbort, which any thread may call.
 * Different communicators are independent, those made by tomboloCommSplit too. tomboloGetLastError and groups
 * are per thread.
 *
 * Errors: every function returns a tomboloResult_t; tomboloGetLastError tells in words what failed, on what,
 * and what to do. No wait is unbounded: after TOMBOLO_DEADLINE seconds (default 60) without progress a call
 * fails and names who was waited for. After any result but tomboloInvalidArgument and tomboloInvalidUsage the
 * communicator is of no more use on any rank; destroy it.
 *
 * `tombolo env` lists the environment variables.
 */
#ifndef TOMBOLO_TOMBOLO_H_
#define TOMBOLO_TOMBOLO_H_

#include <stddef.h>

#if defined(__GNUC__)
#define TOMBOLO_API __attribute__((visibility("default")))
#else
#define TOMBOLO_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* A member's view of a group of ranks. Made by the tomboloCommInit functions and tomboloCommSplit; freed by
 * tomboloCommDestroy. */
typedef struct tomboloComm* tomboloComm_t;

/* Where and with which secret the ranks of one communicator meet. Copy its bytes to every rank; keep it
 * secret. */
#define TOMBOLO_UNIQUE_ID_BYTES 128
typedef struct {
  char internal[TOMBOLO_UNIQUE_ID_BYTES];
} tomboloUniqueId;

typedef enum {
  tomboloSuccess = 0,
  tomboloSystemError = 1,     /* the operating system or a driver refused */
  tomboloInternalError = 2,   /* a bug in Tombolo */
  tomboloInvalidArgument = 3, /* a null pointer, a rank or type out of range */
  tomboloInvalidUsage = 4,    /* environment or order of calls */
  tomboloRemoteError = 5,     /* another rank failed, left, or died */
  tomboloTimeout = 6,         /* a deadline passed */
  tomboloAborted = 7,         /* tomboloCommAbort, here or on another rank */
  tomboloUnsupported = 8      /* not available on this machine */
} tomboloResult_t;

typedef enum {
  tomboloInt8 = 0,
  tomboloUint8 = 1,
  tomboloInt16 = 2,
  tomboloUint16 = 3,
  tomboloInt32 = 4,
  tomboloUint32 = 5,
  tomboloInt64 = 6,
  tomboloUint64 = 7,
  tomboloFloat16 = 8,  /* combined in float, rounded to nearest even */
  tomboloBfloat16 = 9, /* likewise */
  tomboloFloat32 = 10,
  tomboloFloat64 = 11,
  tomboloNumTypes = 12
} tomboloDataType_t;

/* Integers wrap around. A NaN wins minimum and maximum. The average is the sum divided by the number of
 * ranks, for integers toward zero. */
typedef enum {
  tomboloSum = 0,
  tomboloProd = 1,
  tomboloMin = 2,
  tomboloMax = 3,
  tomboloAvg = 4,
  tomboloNumOps = 5
} tomboloRedOp_t;

/* Major * 10000 + minor * 100 + patch. */
TOMBOLO_API tomboloResult_t tomboloGetVersion(int* version);
/* Static text, "timeout"; never null. */
TOMBOLO_API const char* tomboloGetErrorString(tomboloResult_t result);
/* Of this thread's last failed call; empty if none failed. Valid until this thread's next failing call.
 * `comm` is not used and may be null. */
TOMBOLO_API const char* tomboloGetLastError(tomboloComm_t comm);
/* Bytes of one element; 0 for a type out of range. */
TOMBOLO_API size_t tomboloTypeSize(tomboloDataType_t type);

/* ---- Communicators ---- */

/* Opens a meeting place in this process. The id says where it is (TOMBOLO_ADDRESS, or an address on the
 * network that all share) and holds the secret that lets in. One rank (or any process that stays until all
 * have initialised) calls it and hands the id to all ranks; no launcher's variables are read. */
TOMBOLO_API tomboloResult_t tomboloGetUniqueId(tomboloUniqueId* id);
/* Collective over `nranks` callers with the same id. Returns once all have met; else, after the deadline,
 * tomboloTimeout with every missing rank named. */
TOMBOLO_API tomboloResult_t tomboloCommInitRank(tomboloComm_t* comm, int nranks, tomboloUniqueId id,
                                                int rank);
/* The same, with rank, size and rank 0's address from torchrun, Slurm, Open MPI or `tombolo run`; without any
 * of those a communicator of one rank. */
TOMBOLO_API tomboloResult_t tomboloCommInitFromEnvironment(tomboloComm_t* comm);
/* A color below 0: takes part, but gets *newcomm = NULL. */
#define TOMBOLO_SPLIT_NOCOLOR (-1)
/* Collective. Ranks of equal color form a communicator, ordered by key, then rank. */
TOMBOLO_API tomboloResult_t tomboloCommSplit(tomboloComm_t comm, int color, int key, tomboloComm_t* newcomm);
/* Takes leave of the other ranks (waits up to 5 s for theirs) and frees the communicator. NULL is fine. */
TOMBOLO_API tomboloResult_t tomboloCommDestroy(tomboloComm_t comm);
/* From any thread: makes every call on this communicator, here and on all ranks, fail with tomboloAborted.
 * Does not free it. */
TOMBOLO_API tomboloResult_t tomboloCommAbort(tomboloComm_t comm);
TOMBOLO_API tomboloResult_t tomboloCommCount(tomboloComm_t comm, int* count);
TOMBOLO_API tomboloResult_t tomboloCommUserRank(tomboloComm_t comm, int* rank);
/* The algorithm of the last collective, "two-level"; valid until the next collective of this communicator. */
TOMBOLO_API tomboloResult_t tomboloCommLastAlgorithm(tomboloComm_t comm, const char** name);

/* ---- Collectives ----
 * Counts are elements. Buffers must not overlap, except in place: sendbuff == recvbuff; for AllGather
 * sendbuff == recvbuff + rank * sendcount elements; for ReduceScatter recvbuff == sendbuff + rank * recvcount
 * elements. All ranks get the same bits, and get them again for the same ranks, layout and input. */

TOMBOLO_API tomboloResult_t tomboloAllReduce(const void* sendbuff, void* recvbuff, size_t count,
                                             tomboloDataType_t datatype, tomboloRedOp_t op,
                                             tomboloComm_t comm);
/* sendbuff holds ranks * recvcount elements; rank r receives the r-th part of the reduction. */
TOMBOLO_API tomboloResult_t tomboloReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                                                 tomboloDataType_t datatype, tomboloRedOp_t op,
                                                 tomboloComm_t comm);
/* recvbuff receives ranks * sendcount elements, by rank. */
TOMBOLO_API tomboloResult_t tomboloAllGather(const void* sendbuff, void* recvbuff, size_t sendcount,
                                             tomboloDataType_t datatype, tomboloComm_t comm);
/* sendbuff is read on the root only. */
TOMBOLO_API tomboloResult_t tomboloBroadcast(const void* sendbuff, void* recvbuff, size_t count,
                                             tomboloDataType_t datatype, int root, tomboloComm_t comm);
/* recvbuff is written on the root only. */
TOMBOLO_API tomboloResult_t tomboloReduce(const void* sendbuff, void* recvbuff, size_t count,
                                          tomboloDataType_t datatype, tomboloRedOp_t op, int root,
                                          tomboloComm_t comm);
/* Both hold ranks * count elements; part p of sendbuff goes to rank p. Never in place. */
TOMBOLO_API tomboloResult_t tomboloAllToAll(const void* sendbuff, void* recvbuff, size_t count,
                                            tomboloDataType_t datatype, tomboloComm_t comm);
TOMBOLO_API tomboloResult_t tomboloBarrier(tomboloComm_t comm);

/* ---- Point to point ----
 * In order per pair of ranks and direction; both sides name the same number of bytes. A count of zero is no
 * message. Two ranks that send to each other do so inside a group, or both wait for the other to receive. */

TOMBOLO_API tomboloResult_t tomboloSend(const void* sendbuff, size_t count, tomboloDataType_t datatype,
                                        int peer, tomboloComm_t comm);
TOMBOLO_API tomboloResult_t tomboloRecv(void* recvbuff, size_t count, tomboloDataType_t datatype, int peer,
                                        tomboloComm_t comm);

/* Between the two, this thread's sends, receives and collectives are only noted (buffers must stay); the
 * outermost tomboloGroupEnd starts all sends and receives together, carries out the collectives in the order
 * of their calls, waits for everything, and returns the first failure; whatever fails, no buffer is in use
 * afterwards. A call with wrong arguments fails at once and is not noted. Groups nest. A rank may send to
 * itself in a group. */
TOMBOLO_API tomboloResult_t tomboloGroupStart(void);
TOMBOLO_API tomboloResult_t tomboloGroupEnd(void);

#ifdef __cplusplus
}
#endif

#endif /* TOMBOLO_TOMBOLO_H_ */
