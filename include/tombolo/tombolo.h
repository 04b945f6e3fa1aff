/**
 * @file tombolo.h
 * Tombolo's collective engine for C, on host memory and, staged through it, on GPU memory. Names, arguments
 * and values are those of NCCL 2.28 where NCCL has them; docs/api.md describes every function.
 *
 * Calls block: when one returns, this rank's part is done and its buffers are free again. Those whose names
 * end in Async only start, and give a work that stands for the rest. Every rank of a communicator calls and
 * starts its collectives in the same order, with the same counts and types.
 *
 * Buffers may be memory of one GPU of CUDA; no function but tomboloCommSetStream has to be called for that,
 * and the other ranks' need not be. What was queued on the communicator's stream before the call is waited
 * for, and when the call is over (a work: redeemed) the result is in the GPU's memory. Reductions are made by
 * the processor.
 *
 * Threads: one thread at a time per communicator, except tomboloCommAbort and tomboloCommGetAsyncError, which
 * any thread may call. Different communicators are independent, also those made by tomboloCommSplit. The text
 * of tomboloGetLastError and groups belong to the calling thread.
 *
 * Errors: every function returns a tomboloResult_t; tomboloGetLastError tells in words what failed, on what,
 * and what to do. No wait is unbounded: after the deadline (60 seconds unless TOMBOLO_DEADLINE,
 * tomboloConfig_t or tomboloCommSetDeadline say otherwise) without progress a call fails and names the rank
 * that it waited for. tomboloInvalidArgument and tomboloInvalidUsage leave a communicator as it was; after
 * any other failure of a call on it the communicator is unusable on every rank and can only be destroyed.
 *
 * A handle that is null, or was destroyed or redeemed, is tomboloInvalidArgument everywhere: it is never
 * followed.
 *
 * `tombolo env` lists the environment variables.
 */
#ifndef TOMBOLO_TOMBOLO_H_
#define TOMBOLO_TOMBOLO_H_

#include <limits.h>
#include <stddef.h>

#if defined(__GNUC__)
#define TOMBOLO_API __attribute__((visibility("default")))
#else
#define TOMBOLO_API
#endif

/** Version of this header; tomboloGetVersion tells the library's. */
#define TOMBOLO_MAJOR 0
#define TOMBOLO_MINOR 1
#define TOMBOLO_PATCH 0
/** A version as one number that grows with it. */
#define TOMBOLO_MAKE_VERSION(major, minor, patch) ((major)*10000 + (minor)*100 + (patch))
#define TOMBOLO_VERSION_CODE TOMBOLO_MAKE_VERSION(TOMBOLO_MAJOR, TOMBOLO_MINOR, TOMBOLO_PATCH)

#ifdef __cplusplus
extern "C" {
#endif

/** Handle of one rank's member of a group of ranks: made by the tomboloCommInit functions, tomboloCommSplit,
 * tomboloCommShrink and tomboloCommGrow, freed by tomboloCommDestroy. Handles are never used again for
 * another communicator. */
typedef struct tomboloComm* tomboloComm_t;
#define TOMBOLO_COMM_NULL NULL

#define TOMBOLO_UNIQUE_ID_BYTES 128
/** Address of the store where the ranks of one communicator meet, and the secret that admits them. Copy its
 * bytes to every rank by a way that others cannot read. */
typedef struct {
  char internal[TOMBOLO_UNIQUE_ID_BYTES]; /**< not to be interpreted */
} tomboloUniqueId;

/** Result of every call. The numbers below 1000 are ncclResult_t's. Tombolo's own lie from 1000 on, so that
 * they stay apart from whatever NCCL adds. */
typedef enum {
  tomboloSuccess = 0,
  tomboloUnhandledCudaError = 1, /**< never returned: what CUDA refuses is tomboloSystemError */
  tomboloSystemError = 2,        /**< the operating system or a driver refused */
  tomboloInternalError = 3,      /**< a bug in Tombolo */
  tomboloInvalidArgument = 4,    /**< a null pointer or handle, a rank, root or type out of range */
  tomboloInvalidUsage = 5,       /**< the environment, the order of calls, or buffers that overlap */
  tomboloRemoteError = 6,        /**< another rank failed, left, or died */
  tomboloInProgress = 7,         /**< never returned: calls block */
  tomboloTimeout = 1000,         /**< a deadline passed */
  tomboloAborted = 1001,         /**< tomboloCommAbort was called, here or on another rank */
  tomboloUnsupported = 1002      /**< not available on this machine */
} tomboloResult_t;

/** Element types. The numbers below 1000 are ncclDataType_t's; Tombolo's own lie from 1000 on. Reductions of
 * 16-bit and 8-bit floats combine two values in float and round to nearest even; 8-bit ones saturate at their
 * largest finite value (448 and 57344), infinity included. */
typedef enum {
  tomboloInt8 = 0,
  tomboloUint8 = 1,
  tomboloInt32 = 2,
  tomboloUint32 = 3,
  tomboloInt64 = 4,
  tomboloUint64 = 5,
  tomboloFloat16 = 6,
  tomboloFloat32 = 7,
  tomboloFloat64 = 8,
  tomboloBfloat16 = 9,
  tomboloFloat8e4m3 = 10,
  tomboloFloat8e5m2 = 11,
  tomboloNumTypes = 12, /**< one more than the last of NCCL's */
  tomboloInt16 = 1000,
  tomboloUint16 = 1001
} tomboloDataType_t;

/** Reduction operators, with ncclRedOp_t's numbers. Integers wrap around. A NaN wins minimum and maximum. The
 * average is the sum divided by the number of ranks, for integers toward zero. */
typedef enum {
  tomboloSum = 0,
  tomboloProd = 1,
  tomboloMax = 2,
  tomboloMin = 3,
  tomboloAvg = 4,
  tomboloNumOps = 5,
  tomboloMaxRedOp = INT_MAX /**< those that tomboloRedOpCreatePreMulSum makes lie between */
} tomboloRedOp_t;

/** In a tomboloConfig_t: the environment decides. */
#define TOMBOLO_CONFIG_UNDEF_INT INT_MIN
#define TOMBOLO_CONFIG_UNDEF_PTR NULL
#define TOMBOLO_CONFIG_UNDEF_SECONDS (-1.0)
#define TOMBOLO_CONFIG_MAGIC 0x746f6d62u

/** Settings of one communicator, and of those that tomboloCommSplit makes from it. Every variable of this
 * type begins as TOMBOLO_CONFIG_INITIALIZER. A setting that is left as it is there takes its value from the
 * environment. */
typedef struct tomboloConfig {
  size_t size;          /**< set by TOMBOLO_CONFIG_INITIALIZER: bytes of the caller's struct */
  unsigned int magic;   /**< set by TOMBOLO_CONFIG_INITIALIZER */
  unsigned int version; /**< set by TOMBOLO_CONFIG_INITIALIZER: the caller's TOMBOLO_VERSION_CODE */
  int blocking;         /**< 1, which is the default: calls block but those that end in Async. Other values
                             are refused. */
  double deadline; /**< seconds that set-up, and any wait without progress, may last (TOMBOLO_DEADLINE) */
  const char* algorithm; /**< as TOMBOLO_ALGORITHM: "auto", "ring", "two-level"; the same on every rank */
  const char* routing;   /**< as TOMBOLO_ROUTING: "per-peer", "shared"; the same on every rank */
  const char* progress;  /**< as TOMBOLO_PROGRESS: "caller", "thread" */
} tomboloConfig_t;

#define TOMBOLO_CONFIG_INITIALIZER                                                                 \
  {                                                                                                \
    sizeof(tomboloConfig_t), TOMBOLO_CONFIG_MAGIC, TOMBOLO_VERSION_CODE, TOMBOLO_CONFIG_UNDEF_INT, \
        TOMBOLO_CONFIG_UNDEF_SECONDS, TOMBOLO_CONFIG_UNDEF_PTR, TOMBOLO_CONFIG_UNDEF_PTR,          \
        TOMBOLO_CONFIG_UNDEF_PTR                                                                   \
  }

/** @name Library
 * @{ */
/** The library's TOMBOLO_VERSION_CODE. */
TOMBOLO_API tomboloResult_t tomboloGetVersion(int* version);
/** Static text, such as "timeout"; never null. */
TOMBOLO_API const char* tomboloGetErrorString(tomboloResult_t result);
/** Describes this thread's last failed call; empty if none failed. Valid until this thread's next failing
 * call. `comm` is not used and may be null. */
TOMBOLO_API const char* tomboloGetLastError(tomboloComm_t comm);
/** Bytes of one element; 0 for a type that does not exist. */
TOMBOLO_API size_t tomboloTypeSize(tomboloDataType_t type);
/** @} */

/** @name Communicators
 * The tomboloCommInit functions, tomboloCommSplit and tomboloCommFinalize are refused (tomboloInvalidUsage)
 * in a group; the others act at once, also there.
 * @{ */

/** Starts a store in this process and describes it: its address (TOMBOLO_ADDRESS, or one on the network that
 * all share) and its secret. One rank, or any process that stays until all have initialised, calls this and
 * hands the id to all ranks; no launcher's variables are read. */
TOMBOLO_API tomboloResult_t tomboloGetUniqueId(tomboloUniqueId* id);
/** Collective over `nranks` callers with the same id. Returns once all have come; after the deadline it
 * returns tomboloTimeout, with every missing rank named. */
TOMBOLO_API tomboloResult_t tomboloCommInitRank(tomboloComm_t* comm, int nranks, tomboloUniqueId id,
                                                int rank);
/** tomboloCommInitRank with settings. `config` is read during the call only; null stands for
 * TOMBOLO_CONFIG_INITIALIZER. A configuration that is not initialised, or that a newer header made, is
 * tomboloInvalidArgument. */
TOMBOLO_API tomboloResult_t tomboloCommInitRankConfig(tomboloComm_t* comm, int nranks, tomboloUniqueId id,
                                                      int rank, const tomboloConfig_t* config);
/** tomboloCommInitRank with rank, size and rank 0's address from torchrun, Slurm, Open MPI or `tombolo run`;
 * without any of those a communicator of one rank. */
TOMBOLO_API tomboloResult_t tomboloCommInitFromEnvironment(tomboloComm_t* comm);
/** A color for tomboloCommSplit: the caller takes part, but gets *newcomm = NULL. */
#define TOMBOLO_SPLIT_NOCOLOR (-1)
/** Collective. Ranks of equal color form a communicator, ordered by key, then rank. A color below 0 is
 * TOMBOLO_SPLIT_NOCOLOR. Where a rank cannot make its part, the call fails at every rank of that part, and
 * tomboloGetLastError tells which rank that was and why; comm and the other parts stay usable. */
TOMBOLO_API tomboloResult_t tomboloCommSplit(tomboloComm_t comm, int color, int key, tomboloComm_t* newcomm);
/** Flags of tomboloCommShrink, with NCCL's numbers. */
#define TOMBOLO_SHRINK_DEFAULT 0 /**< comm is usable, and is so afterwards */
#define TOMBOLO_SHRINK_ABORT 1   /**< comm may have failed; calls on it that still wait are aborted */
/** Makes a communicator of the ranks that are left, in their order; comm is destroyed as usual when it is no
 * longer needed. Called by all of them with the same excludeRanksList of excludeRanksCount ranks, or with
 * null and 0 and TOMBOLO_SHRINK_ABORT by those that noticed a failure: they wait for those whose process
 * lives, as far as the store can tell, at most three seconds after the last one has come, and go on without
 * the others (tomboloRemoteError for a rank that comes later). Works of comm are not taken over. The ranks
 * meet in the store, which rank 0 keeps, or the process that called tomboloGetUniqueId. Where that process
 * has died, or the list names the rank that keeps it, they meet at the first rank that is left. Without a
 * list more than half of those ranks that may live must come, unless the process that made the id lives and
 * is none of them; else the call is tomboloRemoteError. Where the store does not answer, as after its host
 * has vanished, the call is tomboloTimeout, and a list is needed. A list on some ranks and none on others is
 * tomboloInvalidUsage. */
TOMBOLO_API tomboloResult_t tomboloCommShrink(tomboloComm_t comm, const int* excludeRanksList,
                                              int excludeRanksCount, tomboloComm_t* newcomm, int shrinkFlags);
/** Opens a store in this process for ranks that are to join `comm`, and describes it, as tomboloGetUniqueId
 * does. One member calls it, hands the id to the new ranks and passes it to tomboloCommGrow. An id serves one
 * growth. The store ends with `comm` and the communicator that came of it. Not collective. */
TOMBOLO_API tomboloResult_t tomboloCommGetUniqueId(tomboloComm_t comm, tomboloUniqueId* id);
/** Makes a communicator of the members of `comm`, which keep their ranks, and of new ranks, from the count of
 * `comm` to nranks - 1. Collective over all of them. Members pass comm, rank = -1, config = null (they keep
 * their settings), and id = null but for the one that called tomboloCommGetUniqueId. New ranks pass comm =
 * null, the id, their rank, and settings as for tomboloCommInitRankConfig. Where a new rank has not come by
 * the deadline every member fails with tomboloTimeout, and tomboloGetLastError names it. Whether it fails or
 * not, comm stays as usable as it was. The process that made the id keeps the store of *newcomm; that of
 * comm is not needed. */
TOMBOLO_API tomboloResult_t tomboloCommGrow(tomboloComm_t comm, int nranks, const tomboloUniqueId* id,
                                            int rank, tomboloComm_t* newcomm, const tomboloConfig_t* config);
/** Ends the use of a communicator: tells the other ranks, and waits up to 5 s until they have said the same.
 * Afterwards only queries and tomboloCommDestroy are possible; any other call, a second finalize included, is
 * tomboloInvalidUsage. */
TOMBOLO_API tomboloResult_t tomboloCommFinalize(tomboloComm_t comm);
/** Finalizes the communicator unless that was done or it has failed, and frees it. NULL is fine. Calls on it
 * that a group has recorded are dropped, and the group's end fails. */
TOMBOLO_API tomboloResult_t tomboloCommDestroy(tomboloComm_t comm);
/** From any thread: makes every call on this communicator, here and on all ranks, fail with tomboloAborted.
 * Does not free it. */
TOMBOLO_API tomboloResult_t tomboloCommAbort(tomboloComm_t comm);
/** From any thread: *asyncError is what made the communicator unusable, tomboloSuccess while it is usable or
 * finalized. It tells what this rank knows and does not ask the others. */
TOMBOLO_API tomboloResult_t tomboloCommGetAsyncError(tomboloComm_t comm, tomboloResult_t* asyncError);
/** The number of ranks. */
TOMBOLO_API tomboloResult_t tomboloCommCount(tomboloComm_t comm, int* count);
/** The caller's rank, from 0. */
TOMBOLO_API tomboloResult_t tomboloCommUserRank(tomboloComm_t comm, int* rank);
/** The algorithm of the last collective, such as "two-level", or "none". The text is valid until the next
 * call of this function on the communicator, or its end. */
TOMBOLO_API tomboloResult_t tomboloCommLastAlgorithm(tomboloComm_t comm, const char** name);
/** What the communicator knows of its network, and why its last collective took the algorithm that it took,
 * as JSON; docs/api.md describes the fields. It tells what this rank knows, and does not ask the others. The
 * text is valid until the next call of this function on the communicator, or its end. */
TOMBOLO_API tomboloResult_t tomboloCommExplain(tomboloComm_t comm, const char** json);
/** Has collectives on `comm` choose their algorithms by a tuning table, the JSON that tombolo perf --tune
 * writes (docs/benchmarks.md), in place of TOMBOLO_TUNING's; NULL or "": by none. Collective; rank 0's text
 * counts, and what the others pass does not. tomboloInvalidUsage on every rank, and no change, where it is no
 * table, or one for a job of another shape. Communicators that are made of `comm` begin with TOMBOLO_TUNING's
 * again. */
TOMBOLO_API tomboloResult_t tomboloCommSetTuning(tomboloComm_t comm, const char* table);
/** From here on calls on `comm` whose buffers are GPU memory begin once all that was queued on `stream`, a
 * cudaStream_t or CUstream of that GPU's primary context, before the call has run: in a group, and of calls
 * that are only started, before they were recorded or started. NULL, as at the beginning: on the default
 * stream (of which CUDA says that it waits for all others that were not made non-blocking). Of host memory,
 * page-locked or not, nothing is waited for. The stream is not followed before such a call, and must live
 * until that is over. Not collective. */
TOMBOLO_API tomboloResult_t tomboloCommSetStream(tomboloComm_t comm, void* stream);
/** Sets how many seconds any wait of this rank on `comm` may go without progress from here on, as deadline of
 * the configuration did at first: above 0 and at most 1000000, else tomboloInvalidUsage. It counts for calls
 * that are made afterwards, the end of a group and the waits for works that were started before included, and
 * for the making of communicators from `comm`, which begin with it. To give one operation a deadline of its
 * own, set it before the call and set the other one again behind it. Not collective: ranks may differ, and
 * where the first of these deadlines passes the communicator has failed on all of them. */
TOMBOLO_API tomboloResult_t tomboloCommSetDeadline(tomboloComm_t comm, double seconds);
/** @} */

/** @name Operators with a factor
 * @{ */
/** Makes an operator for tomboloAllReduce, tomboloReduce and tomboloReduceScatter, and their other forms, on
 * `comm` and elements of that type: the caller's elements are multiplied by `*scalar`, then summed. Each rank
 * has a factor of its own, and may pass tomboloSum in its place. `scalar` is one element of that type in host
 * memory, at any alignment, and is read during the call only. A product is rounded to the type once, before
 * it is added to anything, and integers wrap around, so that the result has the same bits whatever the
 * algorithm multiplies where. Not collective. */
TOMBOLO_API tomboloResult_t tomboloRedOpCreatePreMulSum(tomboloRedOp_t* op, const void* scalar,
                                                        tomboloDataType_t datatype, tomboloComm_t comm);
/** Ends an operator that tomboloRedOpCreatePreMulSum made on `comm`, as the end of `comm` does. Calls that
 * were started or recorded with it keep its factor. Any other operator, and its use afterwards or on another
 * communicator, is tomboloInvalidArgument; numbers are never used again. */
TOMBOLO_API tomboloResult_t tomboloRedOpDestroy(tomboloRedOp_t op, tomboloComm_t comm);
/** @} */

/** @name Collectives
 * Counts are elements. Buffers must not overlap, except in place as each function says. All ranks get the
 * same bits, and get them again for the same ranks, clusters and input, by the same algorithm: where no
 * cluster file says which hosts are near each other, that is measured, and may change from run to run.
 * @{ */

/** recvbuff on every rank is the reduction of all sendbuff. In place: sendbuff == recvbuff. */
TOMBOLO_API tomboloResult_t tomboloAllReduce(const void* sendbuff, void* recvbuff, size_t count,
                                             tomboloDataType_t datatype, tomboloRedOp_t op,
                                             tomboloComm_t comm);
/** How an all-reduce sends what goes from one cluster to another. */
typedef enum {
  tomboloCompressionNone = 0,
  tomboloCompressionBfloat16 = 1, /**< half of the bytes; each encoding is off by 2^-8 of a value at most */
  tomboloCompressionInt8 =
      2 /**< a quarter; off by 1/254 of the largest magnitude of its 256 values at most */
} tomboloCompression_t;

/** tomboloAllReduce of floats by tomboloSum, tomboloAvg or a sum with factors, with what goes between
 * clusters encoded, the same on every rank; TOMBOLO_COMPRESSION does it for all of them. Inside clusters
 * nothing is, nor in small vectors or where all ranks are in one cluster. The result has the same bits on
 * every rank. Each sum of a cluster is encoded once between two clusters, and with n clusters a sum on its
 * way n times at most.
 *
 * residual: null, or `count` floats of this rank that begin as zeros and are passed again with every call for
 * the same vector: what an encoding loses is kept there and added to the next (error feedback). It belongs to
 * the call as the other buffers do. */
TOMBOLO_API tomboloResult_t tomboloAllReduceCompressed(const float* sendbuff, float* recvbuff, size_t count,
                                                       tomboloRedOp_t op, tomboloCompression_t compression,
                                                       float* residual, tomboloComm_t comm);
/** sendbuff holds ranks * recvcount elements; rank r receives the r-th part of the reduction. In place:
 * recvbuff == sendbuff + rank * recvcount elements. */
TOMBOLO_API tomboloResult_t tomboloReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                                                 tomboloDataType_t datatype, tomboloRedOp_t op,
                                                 tomboloComm_t comm);
/** recvbuff receives ranks * sendcount elements, by rank. In place: sendbuff == recvbuff + rank * sendcount
 * elements. */
TOMBOLO_API tomboloResult_t tomboloAllGather(const void* sendbuff, void* recvbuff, size_t sendcount,
                                             tomboloDataType_t datatype, tomboloComm_t comm);
/** sendbuff is read on the root only. In place: sendbuff == recvbuff. */
TOMBOLO_API tomboloResult_t tomboloBroadcast(const void* sendbuff, void* recvbuff, size_t count,
                                             tomboloDataType_t datatype, int root, tomboloComm_t comm);
/** recvbuff is written on the root only. In place: sendbuff == recvbuff. */
TOMBOLO_API tomboloResult_t tomboloReduce(const void* sendbuff, void* recvbuff, size_t count,
                                          tomboloDataType_t datatype, tomboloRedOp_t op, int root,
                                          tomboloComm_t comm);
/** The root's recvbuff receives ranks * count elements, by rank; elsewhere it is not used. In place on the
 * root: sendbuff == recvbuff + root * count elements. */
TOMBOLO_API tomboloResult_t tomboloGather(const void* sendbuff, void* recvbuff, size_t count,
                                          tomboloDataType_t datatype, int root, tomboloComm_t comm);
/** The root's sendbuff holds ranks * count elements, by rank; elsewhere it is not used. In place on the root:
 * recvbuff == sendbuff + root * count elements. */
TOMBOLO_API tomboloResult_t tomboloScatter(const void* sendbuff, void* recvbuff, size_t count,
                                           tomboloDataType_t datatype, int root, tomboloComm_t comm);
/** Both hold ranks * count elements; part p of sendbuff goes to rank p. Never in place. */
TOMBOLO_API tomboloResult_t tomboloAllToAll(const void* sendbuff, void* recvbuff, size_t count,
                                            tomboloDataType_t datatype, tomboloComm_t comm);
/** Returns once every rank has called it. */
TOMBOLO_API tomboloResult_t tomboloBarrier(tomboloComm_t comm);
/** @} */

/** @name Collectives with parts of unequal size
 * As those above without the V, but rank r's part in the buffer that holds all ranks' parts has counts[r]
 * elements and begins offsets[r] elements after its start; with null offsets the parts adjoin each other by
 * rank. Parts of a buffer that is written do not overlap. The arrays have one entry for each rank, and are
 * read during the call only (in a group, when it is recorded).
 * @{ */

/** recvcounts and offsets are the same on every rank; recvcounts[rank] == sendcount. */
TOMBOLO_API tomboloResult_t tomboloAllGatherV(const void* sendbuff, size_t sendcount, void* recvbuff,
                                              const size_t* recvcounts, const size_t* offsets,
                                              tomboloDataType_t datatype, tomboloComm_t comm);
/** sendbuff holds all parts, and the rank receives recvcounts[rank] elements. recvcounts and offsets are the
 * same on every rank. */
TOMBOLO_API tomboloResult_t tomboloReduceScatterV(const void* sendbuff, void* recvbuff,
                                                  const size_t* recvcounts, const size_t* offsets,
                                                  tomboloDataType_t datatype, tomboloRedOp_t op,
                                                  tomboloComm_t comm);
/** recvcounts and offsets are used on the root only. */
TOMBOLO_API tomboloResult_t tomboloGatherV(const void* sendbuff, size_t sendcount, void* recvbuff,
                                           const size_t* recvcounts, const size_t* offsets,
                                           tomboloDataType_t datatype, int root, tomboloComm_t comm);
/** sendcounts and offsets are used on the root only. */
TOMBOLO_API tomboloResult_t tomboloScatterV(const void* sendbuff, const size_t* sendcounts,
                                            const size_t* offsets, void* recvbuff, size_t recvcount,
                                            tomboloDataType_t datatype, int root, tomboloComm_t comm);
/** sendcounts[p] here is recvcounts[rank] at rank p. */
TOMBOLO_API tomboloResult_t tomboloAllToAllV(const void* sendbuff, const size_t* sendcounts,
                                             const size_t* sendoffsets, void* recvbuff,
                                             const size_t* recvcounts, const size_t* recvoffsets,
                                             tomboloDataType_t datatype, tomboloComm_t comm);
/** @} */

/** @name Point to point
 * Messages arrive in order per pair of ranks and direction; both sides name the same number of bytes. A count
 * of zero is no message. Two ranks that send to each other do so inside a group, or both wait for the other
 * to receive.
 * @{ */

/** Sends `count` elements to rank `peer`. Returns once sendbuff is free. */
TOMBOLO_API tomboloResult_t tomboloSend(const void* sendbuff, size_t count, tomboloDataType_t datatype,
                                        int peer, tomboloComm_t comm);
/** Receives `count` elements from rank `peer`. */
TOMBOLO_API tomboloResult_t tomboloRecv(void* recvbuff, size_t count, tomboloDataType_t datatype, int peer,
                                        tomboloComm_t comm);
/** @} */

/** @name Started calls
 * Each does what the function without Async in its name does, with the same arguments, but only starts and
 * gives a work. The buffers belong to it until the work is redeemed: by tomboloWorkWait, or by
 * tomboloWorkTest once that says that it is done. Several may be under way on one communicator: up to four
 * collectives at a time move, in turns, and further ones wait for these. Where collectives that block and
 * such as are started alternate, every rank still makes all calls in the same order.
 *
 * Works make progress inside any call on their communicator; tomboloCommProgress is one that does nothing
 * else. While a rank waits on one communicator, its works on others stand still, so ranks that have works on
 * several wait for them in the same order, or call tomboloCommProgress on all. With TOMBOLO_PROGRESS=thread,
 * or progress of the configuration, a thread of the communicator's makes progress between calls too.
 *
 * All are refused in a group (tomboloInvalidUsage), and tomboloCommFinalize is while works are not redeemed.
 * tomboloCommDestroy drops works that are not done: the other ranks' fail. Where one fails, *work is null.
 * @{ */

/** Handle of a call that was started. Never used again for another one. */
typedef struct tomboloWork* tomboloWork_t;

TOMBOLO_API tomboloResult_t tomboloAllReduceAsync(const void* sendbuff, void* recvbuff, size_t count,
                                                  tomboloDataType_t datatype, tomboloRedOp_t op,
                                                  tomboloComm_t comm, tomboloWork_t* work);
TOMBOLO_API tomboloResult_t tomboloAllReduceCompressedAsync(const float* sendbuff, float* recvbuff,
                                                            size_t count, tomboloRedOp_t op,
                                                            tomboloCompression_t compression, float* residual,
                                                            tomboloComm_t comm, tomboloWork_t* work);
TOMBOLO_API tomboloResult_t tomboloReduceScatterAsync(const void* sendbuff, void* recvbuff, size_t recvcount,
                                                      tomboloDataType_t datatype, tomboloRedOp_t op,
                                                      tomboloComm_t comm, tomboloWork_t* work);
TOMBOLO_API tomboloResult_t tomboloAllGatherAsync(const void* sendbuff, void* recvbuff, size_t sendcount,
                                                  tomboloDataType_t datatype, tomboloComm_t comm,
                                                  tomboloWork_t* work);
TOMBOLO_API tomboloResult_t tomboloBroadcastAsync(const void* sendbuff, void* recvbuff, size_t count,
                                                  tomboloDataType_t datatype, int root, tomboloComm_t comm,
                                                  tomboloWork_t* work);
TOMBOLO_API tomboloResult_t tomboloReduceAsync(const void* sendbuff, void* recvbuff, size_t count,
                                               tomboloDataType_t datatype, tomboloRedOp_t op, int root,
                                               tomboloComm_t comm, tomboloWork_t* work);
TOMBOLO_API tomboloResult_t tomboloGatherAsync(const void* sendbuff, void* recvbuff, size_t count,
                                               tomboloDataType_t datatype, int root, tomboloComm_t comm,
                                               tomboloWork_t* work);
TOMBOLO_API tomboloResult_t tomboloScatterAsync(const void* sendbuff, void* recvbuff, size_t count,
                                                tomboloDataType_t datatype, int root, tomboloComm_t comm,
                                                tomboloWork_t* work);
TOMBOLO_API tomboloResult_t tomboloAllToAllAsync(const void* sendbuff, void* recvbuff, size_t count,
                                                 tomboloDataType_t datatype, tomboloComm_t comm,
                                                 tomboloWork_t* work);
TOMBOLO_API tomboloResult_t tomboloBarrierAsync(tomboloComm_t comm, tomboloWork_t* work);
TOMBOLO_API tomboloResult_t tomboloAllGatherVAsync(const void* sendbuff, size_t sendcount, void* recvbuff,
                                                   const size_t* recvcounts, const size_t* offsets,
                                                   tomboloDataType_t datatype, tomboloComm_t comm,
                                                   tomboloWork_t* work);
TOMBOLO_API tomboloResult_t tomboloReduceScatterVAsync(const void* sendbuff, void* recvbuff,
                                                       const size_t* recvcounts, const size_t* offsets,
                                                       tomboloDataType_t datatype, tomboloRedOp_t op,
                                                       tomboloComm_t comm, tomboloWork_t* work);
TOMBOLO_API tomboloResult_t tomboloGatherVAsync(const void* sendbuff, size_t sendcount, void* recvbuff,
                                                const size_t* recvcounts, const size_t* offsets,
                                                tomboloDataType_t datatype, int root, tomboloComm_t comm,
                                                tomboloWork_t* work);
TOMBOLO_API tomboloResult_t tomboloScatterVAsync(const void* sendbuff, const size_t* sendcounts,
                                                 const size_t* offsets, void* recvbuff, size_t recvcount,
                                                 tomboloDataType_t datatype, int root, tomboloComm_t comm,
                                                 tomboloWork_t* work);
TOMBOLO_API tomboloResult_t tomboloAllToAllVAsync(const void* sendbuff, const size_t* sendcounts,
                                                  const size_t* sendoffsets, void* recvbuff,
                                                  const size_t* recvcounts, const size_t* recvoffsets,
                                                  tomboloDataType_t datatype, tomboloComm_t comm,
                                                  tomboloWork_t* work);
TOMBOLO_API tomboloResult_t tomboloSendAsync(const void* sendbuff, size_t count, tomboloDataType_t datatype,
                                             int peer, tomboloComm_t comm, tomboloWork_t* work);
TOMBOLO_API tomboloResult_t tomboloRecvAsync(void* recvbuff, size_t count, tomboloDataType_t datatype,
                                             int peer, tomboloComm_t comm, tomboloWork_t* work);

/** Blocks until the work is done, and redeems it, also where it fails. */
TOMBOLO_API tomboloResult_t tomboloWorkWait(tomboloWork_t work);
/** Makes what progress is possible without blocking. *done is 1 where the work is done; it is redeemed then,
 * and where it fails. */
TOMBOLO_API tomboloResult_t tomboloWorkTest(tomboloWork_t work, int* done);
/** Has `callback` called once, with the work's result and `argument`: at once where the work is done already,
 * else by the thread that makes progress when it is, inside that thread's call. Calls on the communicator are
 * refused in it. The work is still to be redeemed. For collectives; one callback for each work. */
TOMBOLO_API tomboloResult_t tomboloWorkSetCallback(tomboloWork_t work,
                                                   void (*callback)(tomboloResult_t result, void* argument),
                                                   void* argument);
/** Makes what progress is possible without blocking, on all that was started on the communicator. */
TOMBOLO_API tomboloResult_t tomboloCommProgress(tomboloComm_t comm);
/** @} */

/** @name Groups
 * Between start and end, this thread's sends, receives and collectives, on any communicators, are recorded
 * and not yet carried out; their buffers must stay. Nothing else can be recorded. A call with wrong arguments
 * fails at once and is not recorded. Groups nest; a rank may send to itself in one.
 * @{ */

/** Opens a group. */
TOMBOLO_API tomboloResult_t tomboloGroupStart(void);
/** Closes the innermost group. That of the outermost one starts all sends and receives together, carries out
 * the collectives in the order of their calls, waits for everything, and returns the first failure; whatever
 * fails, no buffer is in use afterwards. Calls on a communicator that has been destroyed since are not made,
 * and are tomboloInvalidUsage. */
TOMBOLO_API tomboloResult_t tomboloGroupEnd(void);
/** Closes the innermost group in place of tomboloGroupEnd, and forgets what was recorded since its start. Of
 * an inner group, what the outer ones recorded before stays. */
TOMBOLO_API tomboloResult_t tomboloGroupDiscard(void);
/** @} */

#ifdef __cplusplus
}
#endif

#endif /* TOMBOLO_TOMBOLO_H_ */
