/* Oarlock's C interface: pull rows and dense parameters from the servers of a
 * job, push gradients, lease examples, wait at barriers.
 *
 * The rules:
 *
 * - Handles are numbers. A handle that was closed, or never was one, is
 *   OARLOCK_CLOSED; nothing is read through it. 0 is no handle.
 * - What may wait is an operation: a function whose name ends in _begin makes
 *   it and returns at once; oarlock_wait waits for it, at most as long as it is
 *   told; oarlock_cancel ends the wait; oarlock_operation_free forgets it, as
 *   oarlock_finish does when it has succeeded.
 * - Every function returns a code, OARLOCK_OK or why not, and describes it in
 *   `error`, which the caller hands in; NULL: it wants no text.
 * - Nothing calls back into the program. No thread of the library runs its
 * code.
 * - Configurations and results are JSON of published messages
 *   (proto/config/client_config.proto, proto/v1/table.proto): UTF-8, with a
 *   length, no 0 at the end.
 * - Functions may be called from any thread, at once.
 * - In a process that was forked after the first client was made, every
 * function returns OARLOCK_FORKED and touches nothing.
 * - Nothing of the process is changed: no signal handler or mask, no setting of
 *   malloc, no line on standard output or error (see oarlock_log_read).
 * - An invariant of the library that is broken makes its client unusable, not
 *   the process: OARLOCK_BROKEN from then on.
 * - The library stays loaded: do not dlclose it.
 */

#ifndef OARLOCK_OARLOCK_H_
#define OARLOCK_OARLOCK_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define OARLOCK_API __attribute__((visibility("default")))

/* Grows when a function or a struct changes; a new function keeps it. */
#define OARLOCK_ABI_VERSION 1

typedef int32_t oarlock_code;
enum {
  OARLOCK_OK = 0,
  /* 1 to 16 are the codes of gRPC. Who should do what: */
  OARLOCK_CANCELLED = 1,           /* the caller wanted it */
  OARLOCK_UNKNOWN = 2,             /* nobody knows */
  OARLOCK_INVALID_ARGUMENT = 3,    /* correct the call */
  OARLOCK_DEADLINE_EXCEEDED = 4,   /* the same call again may succeed */
  OARLOCK_NOT_FOUND = 5,           /* name something that is there */
  OARLOCK_ALREADY_EXISTS = 6,      /* it is there, and differs */
  OARLOCK_PERMISSION_DENIED = 7,   /* be somebody else */
  OARLOCK_RESOURCE_EXHAUSTED = 8,  /* ask for less, or give more memory */
  OARLOCK_FAILED_PRECONDITION = 9, /* first change what the text names */
  OARLOCK_ABORTED = 10,            /* this worker was fenced: join anew */
  OARLOCK_OUT_OF_RANGE = 11,       /* beyond a limit that does not move */
  OARLOCK_UNIMPLEMENTED = 12,      /* use another release */
  OARLOCK_INTERNAL = 13,           /* a mistake of Oarlock's */
  OARLOCK_UNAVAILABLE = 14,        /* the same call again, later */
  OARLOCK_DATA_LOSS = 15,          /* resume from a checkpoint */
  OARLOCK_UNAUTHENTICATED = 16,    /* give the token, or another one */
  /* The operation goes on; the time given to oarlock_wait is over. */
  OARLOCK_NOT_DONE = 100,
  /* No open handle of this kind. */
  OARLOCK_CLOSED = 101,
  /* This process was forked from one that uses Oarlock. */
  OARLOCK_FORKED = 102,
  /* An invariant was broken before: make a new client. */
  OARLOCK_BROKEN = 103,
  /* The buffer is too small; the size that it needs was returned. */
  OARLOCK_TOO_SMALL = 104
};

/* What went wrong, in one line: what happened, the value seen, what is legal,
 * what to do. Only written by calls that do not return OARLOCK_OK. A message
 * that does not fit ends in "...". */
typedef struct oarlock_error {
  oarlock_code code;
  char message[2044];
} oarlock_error;

typedef uint64_t oarlock_client;
typedef uint64_t oarlock_operation;
/* The distinct keys of a batch. */
typedef uint64_t oarlock_keys;
/* What one push is made of. */
typedef uint64_t oarlock_step;
typedef uint64_t oarlock_features;
/* XXH3-64 of bytes that come in parts. */
typedef uint64_t oarlock_sum;

/* "1.2.0". Static memory. */
OARLOCK_API const char* oarlock_version(void);
/* OARLOCK_ABI_VERSION of the library. */
OARLOCK_API int32_t oarlock_abi_version(void);

/* -- Clients ------------------------------------------------------------- */

/* A client of one job, which has opened no connection yet. `config`: JSON of
 * ClientConfig. Errors: INVALID_ARGUMENT, NOT_FOUND (a file that it names). */
OARLOCK_API oarlock_code oarlock_client_create(const char* config,
                                               size_t config_size,
                                               oarlock_client* client,
                                               oarlock_error* error);

/* Drops the client: cancels its operations, stops its threads, closes its
 * connections. A worker that has not left is taken for dead by the servers when
 * its lease runs out. Takes milliseconds. What its operations' arrays are, they
 * are no more when this returns. */
OARLOCK_API oarlock_code oarlock_client_free(oarlock_client client,
                                             oarlock_error* error);

/* A descriptor that is readable when an operation of the client has ended since
 * it was last read (an eventfd: read 8 bytes), and since this was first called:
 * ask once more whether what is waited for has ended. It belongs to the client.
 */
OARLOCK_API oarlock_code oarlock_client_event_fd(oarlock_client client,
                                                 int32_t* descriptor,
                                                 oarlock_error* error);

/* Operation: connects to all servers as a reader, which may pull and ask, and
 * creates, counts, touches and blocks nothing. Result: {}. Errors: UNAVAILABLE
 * (no server answered in time), FAILED_PRECONDITION (another job, version or
 * list of servers; connected already). */
OARLOCK_API oarlock_code oarlock_connect_begin(oarlock_client client,
                                               oarlock_operation* operation,
                                               oarlock_error* error);

/* Operation: connects and registers as a worker. `config`: JSON of JoinConfig.
 * Result: JSON of RegisterWorkerResponse; `unfinished` there: works of which
 * the run before has pushed a part to some servers only. Lease these first, or
 * leave with OARLOCK_LEAVE_ROLL_BACK. Errors: those of connecting;
 * ALREADY_EXISTS (the rank is taken, by whom); INVALID_ARGUMENT (a rank beyond
 * the run). */
OARLOCK_API oarlock_code oarlock_join_begin(oarlock_client client,
                                            const char* config,
                                            size_t config_size,
                                            oarlock_operation* operation,
                                            oarlock_error* error);

enum {
  /* It gives up; what it had leased goes to others. */
  OARLOCK_LEAVE_GIVE_UP = 0,
  OARLOCK_LEAVE_DONE = 1,
  /* It gives up, the run is over for all of its workers, and the servers go
   * back to the newest checkpoint, or to the beginning. */
  OARLOCK_LEAVE_ROLL_BACK = 2
};

/* Operation: the worker leaves. `how`: one of the above; `reason`: why it gives
 * up, one sentence. Pushes under way are waited for. Afterwards the client may
 * join again, and its keys stay; tables are created again. Result: {}. */
OARLOCK_API oarlock_code oarlock_leave_begin(oarlock_client client, int32_t how,
                                             const char* reason,
                                             size_t reason_size,
                                             oarlock_operation* operation,
                                             oarlock_error* error);

/* Whether the worker still takes part: OK, ABORTED (fenced), CANCELLED (the job
 * is being ended, and why). Asks nobody. */
OARLOCK_API oarlock_code oarlock_alive(oarlock_client client,
                                       oarlock_error* error);

/* -- Operations ---------------------------------------------------------- */

/* Waits for at most `timeout_ms` milliseconds, 0: not at all. OARLOCK_OK: it
 * has succeeded. OARLOCK_NOT_DONE: not yet. Else why it failed. */
OARLOCK_API oarlock_code oarlock_wait(oarlock_operation operation,
                                      uint32_t timeout_ms,
                                      oarlock_error* error);

/* As oarlock_wait, and frees the operation where it has succeeded: for those
 * whose result is not wanted. */
OARLOCK_API oarlock_code oarlock_finish(oarlock_operation operation,
                                        uint32_t timeout_ms,
                                        oarlock_error* error);

/* Asks the operation to end; it ends soon, with CANCELLED unless it was done
 * before. `*effect` (may be NULL): 1 if what it asked for may have happened or
 * may still happen, as with a push that was sent; else 0. */
OARLOCK_API oarlock_code oarlock_cancel(oarlock_operation operation,
                                        int32_t* effect, oarlock_error* error);

/* The result of an operation that has succeeded, `*size` bytes of JSON.
 * `buffer` NULL or `capacity` below that: TOO_SMALL, with the size. */
OARLOCK_API oarlock_code oarlock_result(oarlock_operation operation,
                                        char* buffer, size_t capacity,
                                        size_t* size, oarlock_error* error);

/* Forgets it; a push goes on. NOT_DONE where it still fills arrays of the
 * caller: cancel it and wait. */
OARLOCK_API oarlock_code oarlock_operation_free(oarlock_operation operation,
                                                oarlock_error* error);

/* -- Tables -------------------------------------------------------------- */

/* Operation: creates the table on all servers, or makes sure that it is the
 * same as theirs. `config`: JSON of TableConfig; id 0: the one of its name
 * (oarlock_table_id). Result: JSON of TableConfig. Errors: ALREADY_EXISTS (it
 * differs, and how); INVALID_ARGUMENT; FAILED_PRECONDITION for a reader. */
OARLOCK_API oarlock_code oarlock_create_table_begin(
    oarlock_client client, const char* config, size_t config_size,
    oarlock_operation* operation, oarlock_error* error);

/* Operation: asks the servers for the table of this name. Result: JSON of
 * TableConfig. Errors: NOT_FOUND. */
OARLOCK_API oarlock_code oarlock_open_table_begin(oarlock_client client,
                                                  const char* name,
                                                  size_t name_size,
                                                  oarlock_operation* operation,
                                                  oarlock_error* error);

/* The id that a table has by its name: 1,025 to 2^32 - 1. */
OARLOCK_API oarlock_code oarlock_table_id(const char* name, size_t name_size,
                                          uint32_t* id, oarlock_error* error);

/* -- Keys ---------------------------------------------------------------- */

/* The distinct ones of `count` keys (fewer than 2^30), copied. Their order is
 * the library's. The client must be connected. */
OARLOCK_API oarlock_code oarlock_keys_create(oarlock_client client,
                                             const uint64_t* keys, size_t count,
                                             oarlock_keys* handle,
                                             size_t* num_distinct,
                                             oarlock_error* error);
/* Fills `distinct` [num_distinct], the keys in their order, and `inverse`
 * [count], for each key given its index there. Either may be NULL. */
OARLOCK_API oarlock_code oarlock_keys_read(oarlock_keys keys,
                                           uint64_t* distinct,
                                           size_t num_distinct,
                                           int32_t* inverse, size_t count,
                                           oarlock_error* error);
/* Sums `gradients` [count, dim], one row for each key given, into `sums`
 * [num_distinct, dim], which is overwritten: in float32, in the order of the
 * keys given, so that the same batch gives the same bits. */
OARLOCK_API oarlock_code oarlock_keys_sum(oarlock_keys keys,
                                          const float* gradients, size_t count,
                                          size_t dim, float* sums,
                                          size_t num_distinct,
                                          oarlock_error* error);
OARLOCK_API oarlock_code oarlock_keys_free(oarlock_keys keys,
                                           oarlock_error* error);

/* Keys of texts: XXH64 with this seed of each of `count` texts; text i is bytes
 * offsets[i] to offsets[i + 1] of `bytes`. */
OARLOCK_API oarlock_code oarlock_hash_texts(
    const char* bytes, size_t bytes_size, const int64_t* offsets, size_t count,
    uint64_t seed, uint64_t* keys, oarlock_error* error);

/* -- Pulls and pushes ---------------------------------------------------- */

typedef struct oarlock_sparse_pull {
  uint32_t table;
  uint32_t reserved; /* 0 */
  oarlock_keys keys;
  /* [num_distinct, dim], float32. */
  float* values;
  /* Floats in it: num_distinct * dim. */
  size_t num_values;
} oarlock_sparse_pull;

/* Operation: rows of `count` tables, in one message to each server. `values`
 * belong to the operation until oarlock_wait says that it has ended. Errors:
 * NOT_FOUND (no such table here), INVALID_ARGUMENT, UNAVAILABLE, DATA_LOSS. */
OARLOCK_API oarlock_code oarlock_pull_begin(oarlock_client client,
                                            const oarlock_sparse_pull* pulls,
                                            size_t count,
                                            oarlock_operation* operation,
                                            oarlock_error* error);
/* oarlock_pull_begin and oarlock_wait in one call. `*operation` is 0 unless
 * NOT_DONE is returned: then it goes on. */
OARLOCK_API oarlock_code oarlock_pull(oarlock_client client,
                                      const oarlock_sparse_pull* pulls,
                                      size_t count, uint32_t timeout_ms,
                                      oarlock_operation* operation,
                                      oarlock_error* error);

/* Operation: all `num_values` floats of a dense table. */
OARLOCK_API oarlock_code oarlock_pull_dense_begin(oarlock_client client,
                                                  uint32_t table, float* values,
                                                  size_t num_values,
                                                  oarlock_operation* operation,
                                                  oarlock_error* error);

typedef struct oarlock_sparse_push {
  uint32_t table;
  uint32_t reserved; /* 0 */
  oarlock_keys keys;
  /* [num_distinct, dim], float32, in the order of the keys. */
  const float* gradients;
  size_t num_gradients;
  /* [num_distinct] each, or NULL: impressions and clicks to add. */
  const float* shows;
  const float* clicks;
} oarlock_sparse_push;

typedef struct oarlock_dense_push {
  uint32_t table;
  uint32_t reserved; /* 0 */
  /* The whole table. */
  const float* gradients;
  size_t num_gradients;
} oarlock_dense_push;

/* A step: gradients of any tables, each once, that are pushed under one name,
 * so applied once whatever is restarted meanwhile. `lease`: of the part whose
 * examples they are; 0: none. The client must be connected. */
OARLOCK_API oarlock_code oarlock_step_create(oarlock_client client,
                                             uint64_t lease, oarlock_step* step,
                                             oarlock_error* error);
/* Adds gradients of rows, and of a dense table. All arrays are copied before
 * these return. Errors: NOT_FOUND (no such table here); INVALID_ARGUMENT;
 * FAILED_PRECONDITION (the step was pushed). */
OARLOCK_API oarlock_code oarlock_step_add(oarlock_step step,
                                          const oarlock_sparse_push* push,
                                          oarlock_error* error);
OARLOCK_API oarlock_code oarlock_step_add_dense(oarlock_step step,
                                                const oarlock_dense_push* push,
                                                oarlock_error* error);
/* Operation: pushes the step, and frees it when this returns OARLOCK_OK. A step
 * without gradients is pushed, too: its part is done. Result: {}. Errors: those
 * of pulls; INVALID_ARGUMENT also for a gradient that is not finite. */
OARLOCK_API oarlock_code oarlock_step_push_begin(oarlock_step step,
                                                 oarlock_operation* operation,
                                                 oarlock_error* error);
/* oarlock_step_push_begin and oarlock_wait in one call, as oarlock_pull. */
OARLOCK_API oarlock_code oarlock_step_push(oarlock_step step,
                                           uint32_t timeout_ms,
                                           oarlock_operation* operation,
                                           oarlock_error* error);
/* Forgets a step that is not pushed. */
OARLOCK_API oarlock_code oarlock_step_free(oarlock_step step,
                                           oarlock_error* error);

/* -- The job ------------------------------------------------------------- */

/* Operation: the next part of a work. `config`: JSON of LeaseConfig, the same
 * in all workers. Waits while others hold the last parts, since those of a
 * worker that dies come back. Result: JSON of LeasedPart. Errors:
 * FAILED_PRECONDITION (`begins`, and this run has finished the work). */
OARLOCK_API oarlock_code oarlock_lease_begin(oarlock_client client,
                                             const char* config,
                                             size_t config_size,
                                             oarlock_operation* operation,
                                             oarlock_error* error);

/* Operation, sync mode: from the next round on this worker has a part in every
 * round, or (`joins` 0) in none any more. A round is applied when all of its
 * workers have pushed; each step is this worker's part of one, and has every
 * table that the client has created or opened. Result: {"complete": rounds}. */
OARLOCK_API oarlock_code oarlock_rounds_begin(oarlock_client client,
                                              int32_t joins,
                                              oarlock_operation* operation,
                                              oarlock_error* error);

/* Operation: ends when all live workers have called it with this name. Each
 * name is passed once. */
OARLOCK_API oarlock_code oarlock_barrier_begin(oarlock_client client,
                                               const char* name,
                                               size_t name_size,
                                               oarlock_operation* operation,
                                               oarlock_error* error);

/* Adds examples of this worker to the evaluation `name`/`epoch`: `labels`, 0 or
 * 1, and `predictions`, probabilities, `count` of each, which are read before
 * this returns. Errors: INVALID_ARGUMENT (another value, and nothing was added;
 * the name of a work); RESOURCE_EXHAUSTED (more than 16 that are not summed
 * up); FAILED_PRECONDITION (a reader). */
OARLOCK_API oarlock_code oarlock_evaluation_add(
    oarlock_client client, const char* name, size_t name_size, uint32_t epoch,
    const float* labels, const float* predictions, size_t count,
    oarlock_error* error);

/* Operation: what all workers of the run have added, when all have called it;
 * once for each evaluation. Result: JSON of Evaluation. It is in the job's list
 * of evaluations then. Errors: FAILED_PRECONDITION (summed up before). */
OARLOCK_API oarlock_code oarlock_evaluation_sum_begin(
    oarlock_client client, const char* name, size_t name_size, uint32_t epoch,
    oarlock_operation* operation, oarlock_error* error);

/* Operation: a call of proto/v1/coordinator_service.proto or
 * server_admin_service.proto, such as "CoordinatorService/Checkpoint", at one
 * server, with JSON of its request. Worker index and generation are filled in
 * where the request has them. Result: JSON of its response. */
OARLOCK_API oarlock_code
oarlock_call_begin(oarlock_client client, uint32_t server, const char* method,
                   size_t method_size, const char* request, size_t request_size,
                   oarlock_operation* operation, oarlock_error* error);

/* What the environment says of this process (TRAINING_ROLE, PADDLE_*,
 * TF_CONFIG, OARLOCK_*): JSON {"role", "rank", "world", "server_endpoints",
 * "job_id", "reason"}. As oarlock_result. */
OARLOCK_API oarlock_code oarlock_role(char* buffer, size_t capacity,
                                      size_t* size, oarlock_error* error);

/* -- Features ------------------------------------------------------------ */

/* Record batches of the Arrow C data interface become blocks of the engine's:
 * keys, dense features, labels (data/features/feature_block.h). Nothing of the
 * caller's is released. */
struct ArrowSchema;
struct ArrowArray;

/* `list`: JSON of FeatureList (proto/v1/features.proto). INVALID_ARGUMENT names
 * the feature, and what is legal. */
OARLOCK_API oarlock_code oarlock_features_create(const char* list,
                                                 size_t list_size,
                                                 oarlock_features* features,
                                                 oarlock_error* error);
/* The list with the types that the columns of a file have, where it says
 * AS_IT_IS. `schema`: of a struct, with the columns as children.
 * INVALID_ARGUMENT: a column that holds no ids. As oarlock_result. */
OARLOCK_API oarlock_code oarlock_features_resolve(
    oarlock_features features, const struct ArrowSchema* schema, char* buffer,
    size_t capacity, size_t* size, oarlock_error* error);
/* The batches that follow have this schema. INVALID_ARGUMENT names a column
 * that is missing, or has a type that its feature does not take.
 * FAILED_PRECONDITION: the list has no numbers. */
OARLOCK_API oarlock_code oarlock_features_bind(oarlock_features features,
                                               const struct ArrowSchema* schema,
                                               oarlock_error* error);
/* How large the block of this batch is. Then writes it, to memory at a multiple
 * of 64 bytes. Dictionaries of batches stay where they are, and as they are,
 * until the next oarlock_features_bind. */
OARLOCK_API oarlock_code oarlock_features_prepare(
    oarlock_features features, const struct ArrowArray* batch, uint64_t* bytes,
    oarlock_error* error);
OARLOCK_API oarlock_code oarlock_features_write(oarlock_features features,
                                                const struct ArrowArray* batch,
                                                void* memory, uint64_t bytes,
                                                oarlock_error* error);
OARLOCK_API oarlock_code oarlock_features_free(oarlock_features features,
                                               oarlock_error* error);

/* -- Sums ---------------------------------------------------------------- */

/* The XXH3-64 by which a checkpoint's MANIFEST knows its files, seed 0. Parts
 * are added in their order; the value is that of all so far. One thread at a
 * time has a sum; others wait. */
OARLOCK_API oarlock_code oarlock_sum_create(oarlock_sum* sum,
                                            oarlock_error* error);
OARLOCK_API oarlock_code oarlock_sum_add(oarlock_sum sum, const void* bytes,
                                         size_t size, oarlock_error* error);
OARLOCK_API oarlock_code oarlock_sum_value(oarlock_sum sum, uint64_t* value,
                                           oarlock_error* error);
OARLOCK_API oarlock_code oarlock_sum_free(oarlock_sum sum,
                                          oarlock_error* error);

/* -- The library --------------------------------------------------------- */

/* Takes the oldest line that the library has logged: `*size` bytes, without an
 * end of line, and its level (0 info, 1 warning, 2 error). *size 0: there is
 * none. The newest 1,000 are kept. Never waits. */
OARLOCK_API oarlock_code oarlock_log_read(char* buffer, size_t capacity,
                                          size_t* size, int32_t* level,
                                          oarlock_error* error);

/* The one function that changes the process: malloc keeps freed memory instead
 * of returning it to the system, which makes large pulls faster. */
OARLOCK_API oarlock_code oarlock_keep_memory(oarlock_error* error);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* OARLOCK_OARLOCK_H_ */
