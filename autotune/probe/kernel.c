/* The timed loop, which native.py compiles and calls.
 *
 * native.py puts `enum operation { OP_ALLREDUCE, ... };`, made from OPERATIONS, and WINDOW in front of this file, so
 * that the numbers agree. Handles are addresses of mpi4py's own handles, which are pointers in one MPI and integers in
 * another. Between two readings of the clock there is only the call. After the library's own barrier the library's
 * clock is used, as in OSU's and IMB's loops, since some libraries read their clock faster. */
#include <mpi.h>
#include <stddef.h>
#include <time.h>

enum { LIBRARYS_OWN = -1, IN_A_ROW = -2 };

struct exchange {
    int operation;
    int rank;
    int size;
    int count; /* number of elements in one block */
    void *send;
    void *recv;
    const int *counts; /* count, once for each rank */
    const int *places; /* offset of each rank's block, in elements */
    MPI_Comm *comm;
    MPI_Datatype *datatype;
    MPI_Op *sum;
    MPI_Win *window;
    const int *peers; /* rank that receives each block; block j comes from peers[j ^ 1] */
    int n_peers;
    size_t bytes; /* size of one block */
    double compute_s; /* seconds of computation inside of a call */
};

struct barrier {
    MPI_Comm *comm;
    int rounds; /* number of rounds; LIBRARYS_OWN: MPI_Barrier; IN_A_ROW: MPI_Barrier only before the first call */
    const int *tell; /* rank to notify in each round */
    const int *hear; /* rank to wait for in each round */
};

static inline double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline int meet(const struct barrier *b, const double *starts, int i)
{
    if (starts) {
        while (now() < starts[i])
            ;
        return MPI_SUCCESS;
    }
    if (b->rounds == LIBRARYS_OWN)
        return MPI_Barrier(*b->comm);
    char told = 0, heard;
    for (int k = 0; k < b->rounds; k++) {
        int code = MPI_Sendrecv(&told, 1, MPI_CHAR, b->tell[k], 0, &heard, 1, MPI_CHAR, b->hear[k], 0, *b->comm,
                                MPI_STATUS_IGNORE);
        if (code != MPI_SUCCESS)
            return code;
    }
    return MPI_SUCCESS;
}

static int first_of_pingpong(const struct exchange *x)
{
    int last = x->size - 1;
    int code = MPI_Send(x->send, x->count, *x->datatype, last, 0, *x->comm);
    return code ? code : MPI_Recv(x->recv, x->count, *x->datatype, last, 0, *x->comm, MPI_STATUS_IGNORE);
}

static int last_of_pingpong(const struct exchange *x)
{
    int code = MPI_Recv(x->recv, x->count, *x->datatype, 0, 0, *x->comm, MPI_STATUS_IGNORE);
    return code ? code : MPI_Send(x->send, x->count, *x->datatype, 0, 0, *x->comm);
}

static inline int put(const struct exchange *x)
{
    return MPI_Put(x->send, x->count, *x->datatype, x->size - 1, 0, x->count, *x->datatype, *x->window);
}

static inline int get(const struct exchange *x)
{
    return MPI_Get(x->recv, x->count, *x->datatype, x->size - 1, 0, x->count, *x->datatype, *x->window);
}

static inline int accumulate(const struct exchange *x)
{
    return MPI_Accumulate(x->send, x->count, *x->datatype, x->size - 1, 0, x->count, *x->datatype, *x->sum,
                          *x->window);
}

/* Exchange WINDOW messages in each requested direction between the ranks of a pair. */
static int window(const struct exchange *x, int peer, int sends, int receives)
{
    MPI_Request requests[2 * WINDOW];
    int n = 0, code = MPI_SUCCESS;
    for (int i = 0; i < WINDOW * receives && !code; i++)
        code = MPI_Irecv(x->recv, x->count, *x->datatype, peer, 0, *x->comm, &requests[n++]);
    for (int i = 0; i < WINDOW * sends && !code; i++)
        code = MPI_Isend(x->send, x->count, *x->datatype, peer, 0, *x->comm, &requests[n++]);
    return code ? code : MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
}

/* Send WINDOW messages in one direction; the receiver sends one byte back when all have arrived. */
static int acknowledged(const struct exchange *x, int peer)
{
    char byte = 0;
    int first = x->rank < peer, code = window(x, peer, first, !first);
    if (code)
        return code;
    return first ? MPI_Recv(&byte, 1, MPI_CHAR, peer, 0, *x->comm, MPI_STATUS_IGNORE)
                 : MPI_Send(&byte, 1, MPI_CHAR, peer, 0, *x->comm);
}

enum { MOST_REQUESTS = 12 }; /* both directions, with two neighbours in each of three dimensions */

/* Start a halo with MPI_Irecv and MPI_Isend, or create its persistent requests. */
#define POST(takes, gives)                                                                                  \
    int n = x->n_peers, code = MPI_SUCCESS;                                                                  \
    for (int j = 0; j < n && !code; j++)                                                                     \
        code = takes((char *)x->recv + j * x->bytes, x->count, *x->datatype, x->peers[j ^ 1], j, *x->comm, \
                       &requests[j]);                                                                        \
    for (int j = 0; j < n && !code; j++)                                                                     \
        code = gives((char *)x->send + j * x->bytes, x->count, *x->datatype, x->peers[j], j, *x->comm,        \
                    &requests[n + j]);                                                                       \
    return code

static int post(const struct exchange *x, MPI_Request *requests)
{
    POST(MPI_Irecv, MPI_Isend);
}

static int prepare(const struct exchange *x, MPI_Request *requests)
{
    POST(MPI_Recv_init, MPI_Send_init);
}

/* Wait for requests; a single one is waited for by MPI_Wait, as in programs, since MPI_Waitall takes longer. */
static inline int complete(int n, MPI_Request *requests)
{
    return n == 1 ? MPI_Wait(requests, MPI_STATUS_IGNORE) : MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
}

static double away; /* seconds that the last call spent on computation */

static int computed(const struct exchange *x, int n, MPI_Request *requests)
{
    if (x->compute_s > 0) {
        double begin = now(), end = begin;
        while (end < begin + x->compute_s)
            end = now();
        away = end - begin;
    }
    return complete(n, requests);
}

/* Time each call by two readings of the clock; IN_A_ROW: time all calls together, and give each the mean time. */
#define TIMED(call)                                                                                          \
    if (b->rounds == IN_A_ROW) {                                                                             \
        int code = MPI_Barrier(*b->comm);                                                                    \
        double begin = MPI_Wtime();                                                                          \
        for (int i = 0; i < calls && !code; i++)                                                             \
            code = (call);                                                                                   \
        double each = (MPI_Wtime() - begin) / calls;                                                         \
        for (int i = 0; i < calls; i++)                                                                      \
            ends[i] = (begins[i] = begin + i * each) + each;                                                 \
        return code;                                                                                         \
    }                                                                                                        \
    for (int i = 0; i < calls; i++) {                                                                        \
        int code = meet(b, starts, i);                                                                       \
        if (code != MPI_SUCCESS)                                                                             \
            return code;                                                                                     \
        double begin = b->rounds == LIBRARYS_OWN ? MPI_Wtime() : now();                                      \
        code = (call);                                                                                       \
        double end = b->rounds == LIBRARYS_OWN ? MPI_Wtime() : now();                                        \
        if (code != MPI_SUCCESS)                                                                             \
            return code;                                                                                     \
        begins[i] = begin;                                                                                   \
        ends[i] = end - away;                                                                                \
        away = 0;                                                                                            \
    }                                                                                                        \
    return MPI_SUCCESS

static int time_persistent(int n, MPI_Request *requests, const struct barrier *b, const double *starts, int calls,
                           double *begins, double *ends)
{
    TIMED((n == 1 ? MPI_Start(requests) : MPI_Startall(n, requests)) ?: complete(n, requests));
}

/* Time calls of persistent requests, which are created before the calls and freed after them. */
#define PERSISTENT(made, how_many)                                                                           \
    int code = (made), n_made = (how_many);                                                                  \
    code = code ?: time_persistent(n_made, requests, b, starts, calls, begins, ends);                        \
    for (int i = 0; i < n_made; i++)                                                                         \
        if (requests[i] != MPI_REQUEST_NULL)                                                                 \
            MPI_Request_free(&requests[i]);                                                                  \
    return code

/* Time the first rank's epochs; the other ranks make no calls. */
#define ON_FIRST(call)                                                                                       \
    if (rank == 0) {                                                                                         \
        TIMED(call);                                                                                         \
    }                                                                                                        \
    TIMED(MPI_SUCCESS)
#define FLUSHED(call) ON_FIRST((call) ?: MPI_Win_flush(last, *x->window))
#define LOCKED(call)                                                                                         \
    ON_FIRST(MPI_Win_lock(MPI_LOCK_SHARED, last, 0, *x->window) ?: (call) ?: MPI_Win_unlock(last, *x->window))
#define FENCED(call)                                                                                         \
    TIMED(MPI_Win_fence(0, *x->window) ?: (rank ? MPI_SUCCESS : (call)) ?: MPI_Win_fence(0, *x->window))

/* Time `calls` calls, and return an MPI error code. If `starts` (seconds of CLOCK_MONOTONIC) is not NULL, each call
 * begins at its time in `starts` instead of after a barrier. */
int autotune_time(const struct exchange *x, const struct barrier *b, const double *starts, int calls,
                  double *begins, double *ends)
{
    /* Local copies, so that handles are loaded before and not between the readings of the clock. */
    MPI_Comm comm = *x->comm;
    MPI_Datatype type = *x->datatype;
    MPI_Op sum = *x->sum;
    void *send = x->send, *recv = x->recv;
    const int n = x->count, *counts = x->counts, *places = x->places, rank = x->rank, last = x->size - 1;
    MPI_Request requests[MOST_REQUESTS];
    for (int i = 0; i < MOST_REQUESTS; i++)
        requests[i] = MPI_REQUEST_NULL;

    switch ((enum operation)x->operation) {
    case OP_ALLREDUCE:
        TIMED(MPI_Allreduce(send, recv, n, type, sum, comm));
    case OP_REDUCE:
        TIMED(MPI_Reduce(send, recv, n, type, sum, 0, comm));
    case OP_BCAST:
        TIMED(MPI_Bcast(rank ? recv : send, n, type, 0, comm));
    case OP_ALLGATHER:
        TIMED(MPI_Allgather(send, n, type, recv, n, type, comm));
    case OP_ALLGATHERV:
        TIMED(MPI_Allgatherv(send, n, type, recv, counts, places, type, comm));
    case OP_ALLTOALL:
        TIMED(MPI_Alltoall(send, n, type, recv, n, type, comm));
    case OP_ALLTOALLV:
        TIMED(MPI_Alltoallv(send, counts, places, type, recv, counts, places, type, comm));
    case OP_GATHER:
        TIMED(MPI_Gather(send, n, type, recv, n, type, 0, comm));
    case OP_SCATTER:
        TIMED(MPI_Scatter(send, n, type, recv, n, type, 0, comm));
    case OP_REDUCE_SCATTER:
        TIMED(MPI_Reduce_scatter(send, recv, counts, type, sum, comm));
    case OP_REDUCE_SCATTER_BLOCK:
        TIMED(MPI_Reduce_scatter_block(send, recv, n, type, sum, comm));
    case OP_BARRIER:
        TIMED(MPI_Barrier(comm));
    case OP_SCAN:
        TIMED(MPI_Scan(send, recv, n, type, sum, comm));
    case OP_EXSCAN:
        TIMED(MPI_Exscan(send, recv, n, type, sum, comm));
    case OP_PINGPONG:
        if (last == 0) {
            TIMED(MPI_Sendrecv(send, n, type, 0, 0, recv, n, type, 0, 0, comm, MPI_STATUS_IGNORE));
        } else if (rank == 0) {
            TIMED(first_of_pingpong(x));
        } else if (rank == last) {
            TIMED(last_of_pingpong(x));
        }
        TIMED(MPI_SUCCESS);
    case OP_PUT:
        FLUSHED(put(x));
    case OP_GET:
        FLUSHED(get(x));
    case OP_ACCUMULATE:
        FLUSHED(accumulate(x));
    case OP_PUT_LOCK:
        LOCKED(put(x));
    case OP_GET_LOCK:
        LOCKED(get(x));
    case OP_ACCUMULATE_LOCK:
        LOCKED(accumulate(x));
    case OP_PUT_FENCE:
        FENCED(put(x));
    case OP_GET_FENCE:
        FENCED(get(x));
    case OP_ACCUMULATE_FENCE:
        FENCED(accumulate(x));
    case OP_MULTIPAIR:
        if (x->n_peers) {
            TIMED(acknowledged(x, x->peers[0]));
        }
        TIMED(MPI_SUCCESS);
    case OP_BIDIRECTIONAL:
        if (x->n_peers) {
            TIMED(window(x, x->peers[0], 1, 1));
        }
        TIMED(MPI_SUCCESS);
    case OP_HALO:
    case OP_HALO3D:
    case OP_HALO_OVERLAP:
        TIMED(post(x, requests) ?: computed(x, 2 * x->n_peers, requests));
    case OP_HALO_PERSISTENT: {
        PERSISTENT(prepare(x, requests), 2 * x->n_peers);
    }
    case OP_HALO_NEIGHBOR:
        TIMED(MPI_Neighbor_alltoallv(send, counts, places, type, recv, counts, places, type, comm));
    case OP_IALLREDUCE:
    case OP_IALLREDUCE_OVERLAP:
        TIMED(MPI_Iallreduce(send, recv, n, type, sum, comm, requests) ?: computed(x, 1, requests));
    case OP_IALLTOALL:
    case OP_IALLTOALL_OVERLAP:
        TIMED(MPI_Ialltoall(send, n, type, recv, n, type, comm, requests) ?: computed(x, 1, requests));
    case OP_ALLREDUCE_INIT: {
#if MPI_VERSION >= 4 || (defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5)
        PERSISTENT(MPI_Allreduce_init(send, recv, n, type, sum, comm, MPI_INFO_NULL, requests), 1);
#else
        return MPI_ERR_UNSUPPORTED_OPERATION;
#endif
    }
    }
    return MPI_ERR_OTHER;
}

/* Time an empty loop body: the cost of two readings of the clock. */
int autotune_time_nothing(const struct barrier *b, int calls, double *begins, double *ends)
{
    const double *starts = 0;
    TIMED(MPI_SUCCESS);
}

/* Return the address of a function of the MPI library that this file is linked to; no tool replaces this function. */
void *autotune_library(void)
{
    return (void *)&PMPI_Get_library_version;
}
