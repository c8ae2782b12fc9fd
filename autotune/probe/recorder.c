/* Records what an application calls: preloaded into it, between it and its MPI (see recorder.py).
 *
 * Every rank keeps its counts in a file of its own, mapped into memory: what was counted is there however the
 * rank ends, by MPI_Finalize, MPI_Abort or a signal, and nothing is exchanged between ranks for it.
 *
 * - A cell is (collective, blocking or not, log2 of the message size, communicator size); its calls are exact.
 * - Calls that repeat the last of their collective to the letter do no more than add one to a run of such calls,
 *   which stands in the file and is settled when another comes, or one that is timed.
 * - The first calls of a stream are all timed, later ones one of each block of up to 1024, drawn by a hash and
 *   weighted by the block's length (Horvitz, Thompson 1952); where they take long on the average all are. Which of
 *   the two a block does is known when it begins, so that the sums are free of bias.
 * - Draw and blocks are the same on all ranks, so they keep the same calls' entry times, from which follows how
 *   long each waited for the last. A full list is thinned to a half.
 *
 * It is linked to no MPI: functions are looked up in whichever the process has loaded, also where a Python
 * module has loaded it for itself alone. It needs the header of an MPI with the same binary interface.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <mpi.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#if defined(AUTOTUNE_OPEN_MPI) && AUTOTUNE_OPEN_MPI != (defined(OPEN_MPI) ? 1 : 0)
#error "this mpicc is of another MPI"
#endif

#define CELLS 1024
#define STREAMS 256
#define RUNS 32 /* at least one for each collective */
#define KEPT 512 /* entry times of one stream */
#define LONG_S 10e-6 /* mean of calls of which all are timed */
#define ROUND_TRIPS 32

enum kind { BLOCKING, NONBLOCKING, PERSISTENT, KINDS };

/* The file, in this order; recorder.py reads it by the same names. */
struct head {
    char magic[8];
    int32_t rank, size, ended, threads, kept_out, nodes; /* ended: 0 killed, 1 finalized, 2 aborted */
    int64_t job, cells, streams;
    double begin_s, end_s, ahead_s, ahead_end_s, unsure_s; /* ahead: of the clock of rank 0 */
    double clock_s; /* of reading the clock, taken off each time */
    char host[64], library[128];
};
struct cell {
    char name[24];
    int32_t kind, bin, ranks, nodes;
    int64_t calls, timed;
    double bytes, weight, weighted_s, wait_s; /* wait_s: in MPI_Wait and its kin */
    double spread[3]; /* sums of w (w - 1) s^i, w: weight, s: seconds of a timed call, i: 0, 1, 2 */
};
struct stream {
    char name[24];
    uint64_t members; /* a hash of the world ranks of the communicator */
    int32_t bin, ranks, n, spare;
    int64_t calls;
    uint64_t limit;
};
struct sample {
    int64_t call;
    double begin_s, end_s;
    int32_t root, weight; /* world rank, -1: none; how many calls it was drawn of */
};
struct run { /* calls alike that are not in their cell and stream yet */
    int64_t calls;
    double bytes; /* of each */
    int32_t cell, stream; /* numbers; -1: none */
};
struct file {
    struct head head;
    struct run runs[RUNS];
    struct cell cells[CELLS];
    struct stream streams[STREAMS];
    struct sample samples[STREAMS][KEPT];
};

/* One for each communicator, collective, kind and size: where its calls are counted. */
struct place {
    struct place *next;
    int bin, all; /* all: every call of this block is timed */
    int64_t drawn, until; /* numbers of the call that is drawn of this block, and of the next block's first */
    double mean_s; /* of its last calls */
    struct cell *cell;
    struct stream *stream;
};

/* X(name, MPI's name, parameters, arguments, message size, root, alike): NUM a count, NUMS several, AT places.
 * Alike: calls of one communicator with the same values of these have the same size. */
#define SENT CVOID(s), NUM(n), DT(t)
#define GOT VOID(r), NUM(m), DT(u)
#define SENTS CVOID(s), NUMS(n), AT(d), DT(t)
#define GOTS(at) VOID(r), NUMS(m), AT(at), DT(u)
#define REDUCED CVOID(s), VOID(r), NUM(n), DT(t), OP(o)
#define EACH(X)                                                                                               \
    X(barrier, Barrier, (COMM(c)), (c), 0, NONE, ALL_ALIKE)                                                           \
    X(bcast, Bcast, (VOID(b), NUM(n), DT(t), INT(root), COMM(c)), (b, n, t, root, c), SIZE(n, t), VAL(root), ALIKE(n, t)) \
    X(gather, Gather, (SENT, GOT, INT(root), COMM(c)), (s, n, t, r, m, u, root, c),                           \
      IS_ROOT(root) ? SIZE(m, u) : SIZE(n, t), VAL(root), UNALIKE)                                                  \
    X(gatherv, Gatherv, (SENT, GOTS(d), INT(root), COMM(c)), (s, n, t, r, m, d, u, root, c),                  \
      IS_ROOT(root) ? MEAN(m, k->peers) * WIDTH(u) : SIZE(n, t), VAL(root), UNALIKE)                                \
    X(scatter, Scatter, (SENT, GOT, INT(root), COMM(c)), (s, n, t, r, m, u, root, c),                         \
      IS_ROOT(root) ? SIZE(n, t) : SIZE(m, u), VAL(root), UNALIKE)                                                  \
    X(scatterv, Scatterv, (SENTS, GOT, INT(root), COMM(c)), (s, n, d, t, r, m, u, root, c),                   \
      IS_ROOT(root) ? MEAN(n, k->peers) * WIDTH(t) : SIZE(m, u), VAL(root), UNALIKE)                                \
    X(allgather, Allgather, (SENT, GOT, COMM(c)), (s, n, t, r, m, u, c), SIZE(m, u), NONE, ALIKE(m, u))       \
    X(allgatherv, Allgatherv, (SENT, GOTS(d), COMM(c)), (s, n, t, r, m, d, u, c),                             \
      MEAN(m, k->peers) * WIDTH(u), NONE, UNALIKE)                                                                  \
    X(alltoall, Alltoall, (SENT, GOT, COMM(c)), (s, n, t, r, m, u, c), SIZE(m, u), NONE, ALIKE(m, u))         \
    X(alltoallv, Alltoallv, (SENTS, GOTS(g), COMM(c)), (s, n, d, t, r, m, g, u, c),                           \
      MEAN(m, k->peers) * WIDTH(u), NONE, UNALIKE)                                                                  \
    X(alltoallw, Alltoallw, (CVOID(s), NUMS(n), ATW(d), DTS(t), VOID(r), NUMS(m), ATW(g), DTS(u), COMM(c)),   \
      (s, n, d, t, r, m, g, u, c), MEAN_OF(m, u, k->peers), NONE, UNALIKE)                                          \
    X(reduce, Reduce, (REDUCED, INT(root), COMM(c)), (s, r, n, t, o, root, c), SIZE(n, t), VAL(root), ALIKE(n, t)) \
    X(allreduce, Allreduce, (REDUCED, COMM(c)), (s, r, n, t, o, c), SIZE(n, t), NONE, ALIKE(n, t))            \
    X(reduce_scatter, Reduce_scatter, (CVOID(s), VOID(r), NUMS(m), DT(t), OP(o), COMM(c)),                    \
      (s, r, m, t, o, c), MEAN(m, k->ranks) * WIDTH(t), NONE, UNALIKE)                                              \
    X(reduce_scatter_block, Reduce_scatter_block, (REDUCED, COMM(c)), (s, r, n, t, o, c), SIZE(n, t),         \
      NONE, ALIKE(n, t))                                                                                      \
    X(scan, Scan, (REDUCED, COMM(c)), (s, r, n, t, o, c), SIZE(n, t), NONE, ALIKE(n, t))                      \
    X(exscan, Exscan, (REDUCED, COMM(c)), (s, r, n, t, o, c), SIZE(n, t), NONE, ALIKE(n, t))                  \
    X(neighbor_allgather, Neighbor_allgather, (SENT, GOT, COMM(c)), (s, n, t, r, m, u, c), SIZE(m, u),        \
      NONE, ALIKE(m, u))                                                                                      \
    X(neighbor_allgatherv, Neighbor_allgatherv, (SENT, GOTS(d), COMM(c)), (s, n, t, r, m, d, u, c),           \
      SIZE(n, t), NONE, ALIKE(n, t))                                                                          \
    X(neighbor_alltoall, Neighbor_alltoall, (SENT, GOT, COMM(c)), (s, n, t, r, m, u, c), SIZE(m, u),          \
      NONE, ALIKE(m, u))                                                                                      \
    X(neighbor_alltoallv, Neighbor_alltoallv, (SENTS, GOTS(g), COMM(c)), (s, n, d, t, r, m, g, u, c),         \
      MEAN(m, neighbours(k)) * WIDTH(u), NONE, UNALIKE)                                                             \
    X(neighbor_alltoallw, Neighbor_alltoallw,                                                                 \
      (CVOID(s), NUMS(n), ATN(d), DTS(t), VOID(r), NUMS(m), ATN(g), DTS(u), COMM(c)),                         \
      (s, n, d, t, r, m, g, u, c), MEAN_OF(m, u, neighbours(k)), NONE, UNALIKE)

#define NONE (-1)
enum op {
#define X(name, ...) OP_##name,
    EACH(X)
#undef X
    OPS
};
static const char *const NAMES[OPS] = {
#define X(name, ...) #name,
    EACH(X)
#undef X
};

struct comm {
    struct comm *next;
    MPI_Comm handle;
    MPI_Group group;
    int ranks, peers, rank, inter, nodes;
    uint64_t members;
    struct place *places[OPS][KINDS];
};

/* A collective that was begun and not waited for, or one that can be started again. */
struct pending {
    struct pending *next;
    MPI_Request request;
    struct comm *comm;
    struct place *place;
    double bytes;
    int persistent;
};

struct call {
    struct place *place; /* NULL: it is not timed */
    struct comm *comm;
    int64_t number;
    int kept, root, drawn_of;
    double weight, begin_s;
};

/* The last call of each collective, and how many more of its kind need no closer look. */
static int64_t unused;
static struct repeated {
    int64_t handle, count, type, limit, *calls; /* of the last; how many more, how many they have been: no run: -1 */
} last_calls[OPS] = {[0 ... OPS - 1] = {.handle = -1, .limit = -1, .calls = &unused}};

#define BUCKETS 256
#define BUCKET(handle) (((uintptr_t)(handle) ^ ((uintptr_t)(handle) >> 8)) % BUCKETS)
static struct comm *comms[BUCKETS];
static struct pending *requests[BUCKETS];
static volatile int64_t n_pending;
static struct file *file;
static int threaded, off, keyval;
static double clock_s; /* of reading the clock */
static MPI_Comm own; /* of the recorder */
static volatile unsigned epoch; /* of the communicators: one was freed */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static __thread int inside;
static __thread int named; /* whether the last datatype was MPI's own: its handle is never reused */

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

static double since(double begin_s) { return now() - begin_s - clock_s; }

/* The least mean of a few: whatever else the machine does, this is what each time has too much. */
static double clocks_own_time(void) {
    double least = 1;
    for (int i = 0; i < 20; i++) {
        double begin_s = now(), end_s = begin_s;
        for (int j = 0; j < 50; j++) end_s = now();
        if (end_s - begin_s < 50 * least) least = (end_s - begin_s) / 50;
    }
    return least;
}

static void lock(void) {
    if (threaded) pthread_mutex_lock(&mutex);
}

static void unlock(void) {
    if (threaded) pthread_mutex_unlock(&mutex);
}

/* What a run has counted goes to its cell and stream; then there is none. */
static void settle(struct repeated *q) {
    if (q->limit < 0) return;
    struct run *run = &file->runs[q - last_calls];
    int64_t n = run->calls < q->limit ? run->calls : q->limit; /* one more where this call has ended it */
    file->cells[run->cell].calls += n;
    file->cells[run->cell].bytes += n * run->bytes;
    if (run->stream >= 0) file->streams[run->stream].calls += n;
    run->calls = 0;
    q->limit = -1, q->calls = &unused;
}

static void settle_all(void) {
    for (int op = 0; op < OPS; op++) settle(&last_calls[op]), last_calls[op].handle = -1;
}

/* MPI itself. */

static int in_library(struct dl_phdr_info *info, size_t size, void *found) {
    const char *slash = strrchr(info->dlpi_name, '/'), *name = slash ? slash + 1 : info->dlpi_name;
    (void)size;
    if (strncmp(name, "libmpi", 6)) return 0;
    void **ask = found, *library = dlopen(info->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
    if (library) ask[1] = dlsym(library, ask[0]);
    return ask[1] != NULL;
}

/* A symbol of the MPI in this process, which may be loaded for a Python module alone; NULL: there is none. */
static void *symbol(const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    if (found) return found;
    void *ask[2] = {(void *)name, NULL};
    dl_iterate_phdr(in_library, ask);
    return ask[1];
}

static void *needed(const char *name) {
    void *found = symbol(name);
    if (found) return found;
    fprintf(stderr, "autotune record: no %s in the MPI of this program\n", name);
    _exit(127);
}

#define REAL(Name)                                                                                            \
    ({                                                                                                        \
        static __typeof__(&MPI_##Name) real;                                                                  \
        if (!real) real = (__typeof__(&MPI_##Name))needed("PMPI_" #Name);                                     \
        real;                                                                                                 \
    })

#ifdef OPEN_MPI
/* Constants are addresses of variables, in the library or copied from there into the program. */
static void *constant(const char *name) {
    void *found = dlsym(RTLD_DEFAULT, name);
    return found ? found : needed(name);
}
#define WORLD ((MPI_Comm)constant("ompi_mpi_comm_world"))
#define BYTE ((MPI_Datatype)constant("ompi_mpi_byte"))
#define NO_INFO ((MPI_Info)constant("ompi_mpi_info_null"))
#define MADE_FOR "Open MPI"
#else
#define WORLD MPI_COMM_WORLD
#define BYTE MPI_BYTE
#define NO_INFO MPI_INFO_NULL
#define MADE_FOR "MPICH"
#endif

/* Beginning and end. */

static int copied_not(MPI_Comm handle, int key, void *extra, void *value, void *copy, int *flag) {
    (void)handle, (void)key, (void)extra, (void)value, (void)copy;
    *flag = 0;
    return MPI_SUCCESS;
}

/* A communicator is freed, by whatever language: its handle may come back for another one. */
static int forget(MPI_Comm handle, int key, void *value, void *extra) {
    (void)key, (void)value, (void)extra;
    lock();
    struct comm **at = &comms[BUCKET(handle)];
    while (*at && (*at)->handle != handle) at = &(*at)->next;
    if (*at) *at = (*at)->next; /* kept in memory: a request may know it */
    epoch++;
    settle_all();
    unlock();
    return MPI_SUCCESS;
}


/* How far the clocks of other nodes are ahead of that of rank 0, from the shortest round trip. */
static double ahead(double *unsure, int32_t *nodes) {
    MPI_Comm node;
    int rank, size, local;
    REAL(Comm_rank)(own, &rank);
    REAL(Comm_size)(own, &size);
    REAL(Comm_split_type)(own, MPI_COMM_TYPE_SHARED, rank, NO_INFO, &node);
    REAL(Comm_rank)(node, &local);
    double told[2] = {0, 0}, t;
    char *leads = calloc(size, 1), leader = local == 0;
    REAL(Gather)(&leader, 1, BYTE, leads, 1, BYTE, 0, own);
    *nodes = 0;
    for (int other = 0; rank == 0 && other < size; other++) {
        *nodes += leads[other];
        for (int i = 0; other && leads[other] && i < ROUND_TRIPS; i++) {
            REAL(Recv)(&t, sizeof t, BYTE, other, 0, own, MPI_STATUS_IGNORE);
            t = now();
            REAL(Send)(&t, sizeof t, BYTE, other, 0, own);
        }
    }
    double least = 1e30;
    for (int i = 0; rank && leader && i < ROUND_TRIPS; i++) {
        double begin = now();
        REAL(Send)(&begin, sizeof begin, BYTE, 0, 0, own);
        REAL(Recv)(&t, sizeof t, BYTE, 0, 0, own, MPI_STATUS_IGNORE);
        double end = now();
        if (end - begin >= least) continue;
        least = end - begin;
        told[0] = (begin + end) / 2 - t;
        told[1] = least / 2;
    }
    free(leads);
    REAL(Bcast)(told, sizeof told, BYTE, 0, node);
    REAL(Bcast)(nodes, sizeof *nodes, BYTE, 0, own);
    REAL(Comm_free)(&node);
    *unsure = told[1];
    return told[0];
}

/* Before MPI_Init: with another MPI's handles nothing good would come. */
static void check_mpi(void) {
    if (!getenv("AUTOTUNE_RECORD")) return;
    Dl_info info = {0};
    int open = symbol("ompi_mpi_comm_world") != NULL;
    dladdr(needed("PMPI_Init"), &info);
    const char *name = info.dli_fname ? info.dli_fname : "?";
#ifdef OPEN_MPI
    if (open) return;
#else
    if (!open && !strstr(name, "_abi.so")) return;
#endif
    fprintf(stderr, "autotune record: made for " MADE_FOR ", but this program runs with another MPI: %s\n", name);
    _exit(127);
}

/* After MPI_Init, by all ranks. */
static void begun(void) {
    const char *folder = getenv("AUTOTUNE_RECORD");
    if (file || off || !folder) return;
    int level, rank, size, length;
    char path[4096], host[64] = "", version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    inside++;
    REAL(Query_thread)(&level);
    REAL(Comm_dup)(WORLD, &own);
    REAL(Comm_rank)(own, &rank);
    REAL(Comm_size)(own, &size);
    REAL(Get_library_version)(version, &length);
    REAL(Comm_create_keyval)(copied_not, forget, &keyval, NULL);
    int64_t job = (int64_t)(now() * 1e9) ^ ((int64_t)getpid() << 40);
    REAL(Bcast)(&job, sizeof job, BYTE, 0, own);
    int32_t nodes;
    double unsure, before = ahead(&unsure, &nodes);
    inside--;
    gethostname(host, sizeof host - 1);
    snprintf(path, sizeof path, "%s/%s.%ld.rank", folder, host, (long)getpid());
    int descriptor = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    struct file *mapped = MAP_FAILED;
    if (descriptor >= 0 && !ftruncate(descriptor, sizeof(struct file)))
        mapped = mmap(NULL, sizeof(struct file), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (descriptor >= 0) close(descriptor);
    if (mapped == MAP_FAILED) {
        fprintf(stderr, "autotune record: rank %d cannot write %s\n", rank, path);
        off = 1;
        return;
    }
    struct head *head = &mapped->head;
    memcpy(head->magic, "autorec2", 8);
    head->rank = rank, head->size = size, head->threads = level, head->nodes = nodes, head->job = job;
    head->ahead_s = head->ahead_end_s = before, head->unsure_s = unsure;
    head->clock_s = clock_s = clocks_own_time();
    memcpy(head->host, host, sizeof host);
    memcpy(head->library, version, sizeof head->library - 1);
    threaded = level == MPI_THREAD_MULTIPLE;
    head->begin_s = head->end_s = now();
    file = mapped;
}

static void ended(int how) {
    if (!file || file->head.ended) return;
    file->head.end_s = now();
    settle_all();
    file->head.ended = how;
    if (how != 1) return;
    int32_t nodes;
    double unsure;
    inside++;
    file->head.ahead_end_s = ahead(&unsure, &nodes);
    REAL(Comm_free)(&own);
    inside--;
}

/* Where a call is counted. */

static uint64_t hashed(uint64_t x) { /* splitmix64 of Steele, Lea, Flood 2014 */
    x += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
}

static struct comm *introduced(MPI_Comm handle) {
    struct comm *k = calloc(1, sizeof *k);
    if (!k) return NULL;
    MPI_Group world;
    inside++;
    k->handle = handle;
    REAL(Comm_size)(handle, &k->ranks);
    REAL(Comm_rank)(handle, &k->rank);
    REAL(Comm_test_inter)(handle, &k->inter);
    k->peers = k->ranks;
    if (k->inter) REAL(Comm_remote_size)(handle, &k->peers);
    REAL(Comm_group)(handle, &k->group);
    REAL(Comm_group)(WORLD, &world);
    int *local = malloc(2 * k->ranks * sizeof *local);
    for (int i = 0; local && i < k->ranks; i++) local[i] = i;
    if (local) REAL(Group_translate_ranks)(k->group, k->ranks, local, world, local + k->ranks);
    for (int i = 0; local && i < k->ranks; i++) k->members += hashed(local[k->ranks + i]);
    free(local);
    REAL(Group_free)(&world);
    if (k->ranks == file->head.size && !k->inter) k->nodes = file->head.nodes;
    REAL(Comm_set_attr)(handle, keyval, k);
    inside--;
    return k;
}

static __thread struct comm *last;
static __thread unsigned seen;

static struct comm *looked_up(MPI_Comm handle) {
    lock();
    seen = epoch;
    struct comm *k = comms[BUCKET(handle)];
    while (k && k->handle != handle) k = k->next;
    unlock();
    if (!k && (k = introduced(handle))) {
        lock();
        k->next = comms[BUCKET(handle)];
        comms[BUCKET(handle)] = k;
        unlock();
    }
    return last = k;
}

static inline struct comm *known(MPI_Comm handle) {
    return last && seen == epoch && last->handle == handle ? last : looked_up(handle);
}

static struct cell *cell_of(enum op op, enum kind kind, int bin, int ranks) {
    struct head *head = &file->head;
    int i = 0;
    for (; i < head->cells; i++) {
        struct cell *c = &file->cells[i];
        if (c->kind == (int)kind && c->bin == bin && c->ranks == ranks && !strcmp(c->name, NAMES[op])) return c;
    }
    if (i == CELLS) return NULL;
    struct cell *c = &file->cells[i];
    strcpy(c->name, NAMES[op]);
    c->kind = kind, c->bin = bin, c->ranks = ranks;
    head->cells++;
    return c;
}

static struct stream *stream_of(enum op op, int bin, const struct comm *k) {
    struct head *head = &file->head;
    int i = 0;
    for (; i < head->streams; i++) {
        struct stream *s = &file->streams[i];
        if (s->members == k->members && s->bin == bin && !strcmp(s->name, NAMES[op])) return s;
    }
    if (i == STREAMS) return NULL;
    struct stream *s = &file->streams[i];
    strcpy(s->name, NAMES[op]);
    s->members = k->members, s->bin = bin, s->ranks = k->ranks, s->limit = UINT64_MAX;
    head->streams++;
    return s;
}

/* Whether ranks can differ in the size of one call. */
static int uneven(enum op op) {
    return op == OP_gatherv || op == OP_scatterv || op == OP_alltoallv || op == OP_alltoallw;
}

static struct place *new_place(enum op op, enum kind kind, struct comm *k, int bin) {
    struct place *p = calloc(1, sizeof *p);
    if (!p) return NULL;
    p->bin = bin;
    p->cell = cell_of(op, kind, bin, k->ranks);
    if (!p->cell) file->head.kept_out++;
    if (kind == BLOCKING && !k->inter && k->ranks > 1 && op < OP_neighbor_allgather)
        p->stream = stream_of(op, uneven(op) ? -1 : bin, k);
    p->next = k->places[op][kind];
    return k->places[op][kind] = p;
}

static inline struct place *place_of(enum op op, enum kind kind, struct comm *k, double bytes) {
    int bin = bytes >= 1 ? 64 - __builtin_clzll((unsigned long long)bytes) : 0;
    struct place *p = k->places[op][kind];
    while (p && p->bin != bin) p = p->next;
    return p ? p : new_place(op, kind, k, bin);
}

/* Before and after a call. */

/* Calls with numbers from here on come in blocks so long; each begins at a multiple of its length. */
static int64_t block(int64_t number) {
    return number < 256 ? 1 : number < 2048 ? 8 : number < 16384 ? 64 : number < 65536 ? 256 : 1024;
}

static inline void before(struct call *v, struct place *p, double bytes, struct comm *k, int root) {
    struct cell *c = p ? p->cell : NULL;
    v->place = NULL;
    if (!c) return;
    struct stream *s = p->stream;
    int64_t number = c->calls++, length = block(number);
    c->bytes += bytes;
    if (s) length = block(number = s->calls++);
    if (number >= p->until) {
        int64_t first = number & -length;
        p->until = first + length;
        p->drawn = first + (int64_t)(hashed(first ^ file->head.job) & (length - 1));
        p->all = p->mean_s > LONG_S;
    }
    if (!p->all && number != p->drawn) return;
    *v = (struct call){p, k, number, s && number == p->drawn && hashed(number) <= s->limit, root, length,
                       p->all ? 1 : length, 0};
}

/* A call was made the second time: until this block's drawn one, or its end, such calls need only be counted. */
static inline void repeat(struct repeated *q, struct place *p, double bytes, int64_t handle, int64_t count,
                          int64_t type) {
    if (threaded || !named || !p || !p->cell || count < 0) return;
    if (q->handle != handle || q->count != count || q->type != type) {
        q->handle = handle, q->count = count, q->type = type;
        return;
    }
    struct stream *s = p->stream;
    int64_t next = s ? s->calls : p->cell->calls, limit = (next <= p->drawn ? p->drawn : p->until) - next;
    if (p->all || limit <= 0) return;
    struct run *run = &file->runs[q - last_calls];
    *run = (struct run){0, bytes, p->cell - file->cells, s ? s - file->streams : -1};
    q->limit = limit, q->calls = &run->calls;
}

static inline int repeated(struct repeated *q, int64_t handle, int64_t count, int64_t type) {
    return __builtin_expect(q->handle == handle && q->count == count && q->type == type && ++*q->calls <= q->limit, 1);
}

static void thin(struct stream *s) {
    struct sample *list = file->samples[s - file->streams];
    int n = 0;
    while (s->n == KEPT) {
        s->limit >>= 1;
        for (int i = n = 0; i < s->n; i++)
            if (hashed(list[i].call) <= s->limit) list[n++] = list[i];
        s->n = n;
    }
}

static void after(struct call *v) {
    double end_s = now() - clock_s;
    struct cell *c = v->place->cell;
    struct stream *s = v->place->stream;
    int root = v->root;
    if (v->kept && root >= 0) {
        MPI_Group world;
        REAL(Comm_group)(WORLD, &world);
        REAL(Group_translate_ranks)(v->comm->group, 1, &v->root, world, &root);
        REAL(Group_free)(&world);
    }
    lock();
    double took_s = end_s - v->begin_s, extra = v->weight * (v->weight - 1), *mean_s = &v->place->mean_s;
    c->timed++;
    c->weight += v->weight;
    c->weighted_s += v->weight * took_s;
    for (int i = 0; i < 3; i++, extra *= took_s) c->spread[i] += extra;
    *mean_s += *mean_s ? (took_s - *mean_s) / 64 : took_s;
    if (v->kept && hashed(v->number) <= s->limit) {
        file->samples[s - file->streams][s->n++] = (struct sample){v->number, v->begin_s, end_s, root, v->drawn_of};
        if (s->n == KEPT) thin(s);
    }
    unlock();
}

static int usable(void) {
    if (inside) return 0;
    return file != NULL && !file->head.ended;
}

#define TIMED(code, call, v)                                                                                  \
    inside++;                                                                                                 \
    if (__builtin_expect((v).place != NULL, 0)) {                                                             \
        (v).begin_s = now();                                                                                  \
        code = call;                                                                                          \
        after(&(v));                                                                                          \
    } else                                                                                                    \
        code = call;                                                                                          \
    inside--

/* Requests of collectives. */

static struct pending **at(MPI_Request request) {
    struct pending **at = &requests[BUCKET(request)];
    while (*at && (*at)->request != request) at = &(*at)->next;
    return at;
}

static void expect(MPI_Request request, struct place *p, struct comm *k, double bytes, int persistent) {
    struct pending *new = p && p->cell ? calloc(1, sizeof *new) : NULL;
    if (!new) return;
    *new = (struct pending){NULL, request, k, p, bytes, persistent};
    lock();
    struct pending **old = at(request);
    if (*old) { /* completed unseen, by MPI_Request_free say */
        new->next = (*old)->next;
        free(*old);
        *old = new;
    } else {
        *old = new;
        n_pending++;
    }
    unlock();
}

static void drop(MPI_Request request) {
    lock();
    struct pending **old = at(request), *gone = *old;
    if (gone) {
        *old = gone->next;
        free(gone);
        n_pending--;
    }
    unlock();
}

/* A wait or test of n requests took so long; those that are others now have completed. */
static void waited(int n, const MPI_Request *was, const MPI_Request *is, double seconds) {
    lock();
    int alike = 0;
    for (int i = 0; i < n; i++) alike += *at(was[i]) != NULL;
    for (int i = 0; i < n; i++) {
        struct pending **old = at(was[i]), *one = *old;
        if (!one) continue;
        one->place->cell->wait_s += seconds / alike;
        if (is[i] != was[i] && !one->persistent) {
            *old = one->next;
            free(one);
            n_pending--;
        }
    }
    unlock();
}

/* A call that completes requests: n of them, before and after as C knows them. */
#define WAITING(n, was_i, is_i, call)                                                                         \
    if (!n_pending || !usable() || (n) < 1) return call;                                                      \
    MPI_Request small_[64], *was_ = (n) > 32 ? malloc(2 * (n) * sizeof *was_) : small_, *is_ = was_ + (n);    \
    if (!was_) return call;                                                                                   \
    for (int i = 0; i < (n); i++) was_[i] = (was_i);                                                          \
    inside++;                                                                                                 \
    double began_ = now();                                                                                    \
    int code_ = call;                                                                                         \
    double took_ = since(began_);                                                                             \
    for (int i = 0; i < (n); i++) is_[i] = (is_i);                                                            \
    inside--;                                                                                                 \
    waited(n, was_, is_, took_);                                                                              \
    if (was_ != small_) free(was_);                                                                           \
    return code_

int MPI_Wait(MPI_Request *r, MPI_Status *s) { WAITING(1, *r, *r, REAL(Wait)(r, s)); }
int MPI_Waitall(int n, MPI_Request r[], MPI_Status s[]) { WAITING(n, r[i], r[i], REAL(Waitall)(n, r, s)); }
int MPI_Waitany(int n, MPI_Request r[], int *j, MPI_Status *s) {
    WAITING(n, r[i], r[i], REAL(Waitany)(n, r, j, s));
}
int MPI_Waitsome(int n, MPI_Request r[], int *m, int j[], MPI_Status s[]) {
    WAITING(n, r[i], r[i], REAL(Waitsome)(n, r, m, j, s));
}
int MPI_Test(MPI_Request *r, int *f, MPI_Status *s) { WAITING(1, *r, *r, REAL(Test)(r, f, s)); }
int MPI_Testall(int n, MPI_Request r[], int *f, MPI_Status s[]) {
    WAITING(n, r[i], r[i], REAL(Testall)(n, r, f, s));
}
int MPI_Testany(int n, MPI_Request r[], int *j, int *f, MPI_Status *s) {
    WAITING(n, r[i], r[i], REAL(Testany)(n, r, j, f, s));
}
int MPI_Testsome(int n, MPI_Request r[], int *m, int j[], MPI_Status s[]) {
    WAITING(n, r[i], r[i], REAL(Testsome)(n, r, m, j, s));
}

int MPI_Request_free(MPI_Request *r) {
    if (n_pending && usable()) drop(*r);
    return REAL(Request_free)(r);
}

/* Collectives among the requests are counted; all are started at once, so the time is shared by them. */
static void started(int n, const MPI_Request *r, double seconds) {
    lock();
    int alike = 0;
    for (int i = 0; i < n; i++) alike += *at(r[i]) != NULL;
    for (int i = 0; i < n; i++) {
        struct pending *one = *at(r[i]);
        if (!one) continue;
        struct cell *c = one->place->cell;
        c->calls++;
        c->bytes += one->bytes;
        c->timed++;
        c->weight += 1;
        c->weighted_s += seconds / alike;
    }
    unlock();
}

#define STARTING(n, list, call)                                                                               \
    if (!n_pending || !usable()) return call;                                                                 \
    inside++;                                                                                                 \
    double began_ = now();                                                                                    \
    int code_ = call;                                                                                         \
    started(n, list, since(began_));                                                                         \
    inside--;                                                                                                 \
    return code_

int MPI_Start(MPI_Request *r) { STARTING(1, r, REAL(Start)(r)); }
int MPI_Startall(int n, MPI_Request r[]) { STARTING(n, r, REAL(Startall)(n, r)); }

/* The calls. */

static __thread MPI_Datatype last_type;
static __thread int last_width;

static double asked_width(MPI_Datatype type) {
    int size = 0, a, b, c, combiner;
    inside++;
    REAL(Type_size)(type, &size);
    REAL(Type_get_envelope)(type, &a, &b, &c, &combiner);
    inside--;
    if ((named = combiner == MPI_COMBINER_NAMED)) last_type = type, last_width = size;
    return size;
}

static inline double width(MPI_Datatype type) {
    return last_width && type == last_type ? last_width : asked_width(type);
}

/* How many blocks a rank gets. */
static int neighbours(struct comm *k) {
    int status = MPI_UNDEFINED, in = 0, out = 0, flag = 0;
    inside++;
    REAL(Topo_test)(k->handle, &status);
    if (status == MPI_CART && !REAL(Cartdim_get)(k->handle, &in)) in *= 2;
    if (status == MPI_GRAPH) REAL(Graph_neighbors_count)(k->handle, k->rank, &in);
    if (status == MPI_DIST_GRAPH) REAL(Dist_graph_neighbors_count)(k->handle, &in, &out, &flag);
    inside--;
    return in;
}

#define IS_ROOT(root) (k->inter ? VAL(root) == MPI_ROOT : VAL(root) == k->rank)
#define MEAN(ns, peers)                                                                                       \
    ({                                                                                                        \
        double sum = 0;                                                                                       \
        int many = (peers);                                                                                   \
        for (int i = 0; i < many; i++) sum += ns[i];                                                          \
        many ? sum / many : 0;                                                                                \
    })
#define MEAN_OF(ns, ts, peers)                                                                                \
    ({                                                                                                        \
        double sum = 0;                                                                                       \
        int many = (peers);                                                                                   \
        for (int i = 0; i < many; i++) sum += ns[i] * width(TYPE(ts[i]));                                     \
        many ? sum / many : 0;                                                                                \
    })
#define OPEN(...) __VA_ARGS__
#define TEXT(x) TEXT_(x)
#define TEXT_(x) #x

/* What all wrappers of a collective share: is it counted, as what, and where? */
#define COUNTED(op, how, bytes_, root_, ...)                                                                  \
    struct comm *k = known(COMM_OF(VAL(c)));                                                                  \
    struct call v_ = {0};                                                                                     \
    struct place *p_ = NULL;                                                                                  \
    double b_ = 0;                                                                                            \
    if (k) {                                                                                                  \
        named = 1;                                                                                            \
        b_ = (bytes_);                                                                                        \
        lock();                                                                                               \
        p_ = place_of(op, how, k, b_);                                                                        \
        if (how == BLOCKING) settle(&last_calls[op]);                                                         \
        if (how != PERSISTENT) before(&v_, p_, b_, k, root_);                                                 \
        if (how == BLOCKING) repeat(&last_calls[op], p_, b_, OURS(c), __VA_ARGS__);                           \
        unlock();                                                                                             \
    }
#define REPEATED(op, ...) repeated(&last_calls[op], OURS(c), __VA_ARGS__)
#define AWAY __attribute__((noinline)) /* so that a repeated call saves no registers */

/* Parameters: in C as they are, in Fortran by address. Types: N count, D place, W place in bytes, I number,
 * T datatype, O operation, H communicator. */
#define VOID(x) void *x
#define CVOID(x) const void *x
#define NUM(x) N BY x
#define NUMS(x) const N x[]
#define AT(x) const D x[]
#define ATW(x) const W x[]
#define ATN(x) const MPI_Aint x[]
#define INT(x) I BY x
#define DT(x) T BY x
#define DTS(x) const T x[]
#define OP(x) O BY x
#define COMM(x) H BY x
#define VAL(x) (BY x)
#define KEY(x) ((int64_t)(intptr_t)VAL(x))
#define WIDTH(t) width(TYPE(VAL(t)))
#define SIZE(n, t) ((double)VAL(n) * WIDTH(t))
#define OURS(c) (KEY(c) ^ (int64_t)sizeof TEXT(NAMED()) << 40) /* of this binding: its function is known */
#define ALIKE(n, t) (int64_t) VAL(n), KEY(t)
#define ALL_ALIKE 0, 0
#define UNALIKE -1, 0

/* C. */
#define BY
#define N int
#define D int
#define W int
#define I int
#define T MPI_Datatype
#define O MPI_Op
#define H MPI_Comm
#define TYPE(x) (x)
#define COMM_OF(x) (x)

#define C_FUNCTION(name, P, ...)                                                                              \
    int name P {                                                                                              \
        static int(*real) P;                                                                                  \
        if (!real) real = needed("P" TEXT(name));                                                             \
        __VA_ARGS__                                                                                           \
    }
#define C_CALLS(name, Name, P, A, bytes, root, ...)                                                           \
    static int(*NAMED(real_##name)) P;                                                                        \
    static AWAY int NAMED(counted_##name) P {                                                                 \
        int(*real) P = NAMED(real_##name), code;                                                              \
        if (!real) real = NAMED(real_##name) = needed("P" TEXT(NAMED(MPI_##Name)));                           \
        if (!usable()) return real A;                                                                         \
        COUNTED(OP_##name, BLOCKING, bytes, root, __VA_ARGS__)                                                \
        TIMED(code, real A, v_);                                                                              \
        return code;                                                                                          \
    }                                                                                                         \
    int NAMED(MPI_##Name) P {                                                                                 \
        return REPEATED(OP_##name, __VA_ARGS__) ? NAMED(real_##name) A : NAMED(counted_##name) A;             \
    }                                                                                                         \
    C_FUNCTION(NAMED(MPI_I##name), (OPEN P, MPI_Request * q), if (!usable()) return real(OPEN A, q); int code; \
               COUNTED(OP_##name, NONBLOCKING, bytes, root, __VA_ARGS__) TIMED(code, real(OPEN A, q), v_);    \
               if (code == MPI_SUCCESS) expect(*q, p_, k, b_, 0); return code;)                               \
    STANDARD(MPI_, name, Name, P, A, bytes, root, __VA_ARGS__)                                                \
    EXTENSION(MPIX_, name, Name, P, A, bytes, root, __VA_ARGS__)
#define C_PERSISTENT(prefix, name, Name, P, A, bytes, root, ...)                                              \
    C_FUNCTION(NAMED(prefix##Name##_init), (OPEN P, MPI_Info j, MPI_Request * q),                             \
               if (!usable()) return real(OPEN A, j, q);                                                      \
               COUNTED(OP_##name, PERSISTENT, bytes, root, __VA_ARGS__) inside++;                             \
               int code = real(OPEN A, j, q); inside--;                                                       \
               if (code == MPI_SUCCESS) expect(*q, p_, k, b_, 1); return code;)

/* What the MPI lacks must not seem to be there: mpi4py looks. recorder's caller says what it has. */
#ifdef AUTOTUNE_NO_PERSISTENT
#define STANDARD(...)
#else
#define STANDARD C_PERSISTENT
#endif
#define NAMED(x) x
#define EXTENSION C_PERSISTENT /* Open MPI 4.1 */
EACH(C_CALLS)
#undef N
#undef D
#undef W
#ifndef AUTOTUNE_NO_LARGE
#undef NAMED
#undef EXTENSION
#define N MPI_Count
#define D MPI_Aint
#define W MPI_Aint
#define NAMED(x) x##_c
#define EXTENSION(...)
EACH(C_CALLS)
#undef N
#undef D
#undef W
#endif

int MPI_Init(int *n, char ***words) {
    check_mpi();
    int code = REAL(Init)(n, words);
    if (code == MPI_SUCCESS) begun();
    return code;
}
int MPI_Init_thread(int *n, char ***words, int required, int *provided) {
    check_mpi();
    int code = REAL(Init_thread)(n, words, required, provided);
    if (code == MPI_SUCCESS) begun();
    return code;
}
int MPI_Finalize(void) {
    ended(1);
    return REAL(Finalize)();
}
int MPI_Abort(MPI_Comm c, int code) {
    ended(2);
    return REAL(Abort)(c, code);
}

/* Fortran: everything by address, the error behind. Some libraries call C's MPI_ in it, others do not. */
#undef BY
#undef I
#undef T
#undef O
#undef H
#undef TYPE
#undef COMM_OF
#define BY *
#define N MPI_Fint
#define D MPI_Fint
#define W MPI_Fint
#define I MPI_Fint
#define T MPI_Fint
#define O MPI_Fint
#define H MPI_Fint
#ifdef OPEN_MPI
#define TYPE(x) REAL(Type_f2c)(x)
#define COMM_OF(x) REAL(Comm_f2c)(x)
#define REQUEST(x) REAL(Request_f2c)(x)
#else
#define TYPE(x) ((MPI_Datatype)(x))
#define COMM_OF(x) ((MPI_Comm)(x))
#define REQUEST(x) ((MPI_Request)(x))
#endif

#define F_FUNCTION(name, P, ...)                                                                              \
    void name P {                                                                                             \
        static void(*real) P;                                                                                 \
        if (!real) real = needed("p" TEXT(name));                                                             \
        __VA_ARGS__                                                                                           \
    }
#define F_CALLS(name, Name, P, A, bytes, root, ...)                                                           \
    F_FUNCTION(NAMED(mpi_##name), (OPEN P, MPI_Fint * e),                                                     \
               if (REPEATED(OP_##name, __VA_ARGS__) || !usable()) { F_WITHIN(real(OPEN A, e)) return; }       \
               int code; COUNTED(OP_##name, BLOCKING, bytes, root, __VA_ARGS__)                               \
               TIMED(code, (real(OPEN A, e), 0), v_); (void)code;)                                            \
    F_FUNCTION(NAMED(mpi_i##name), (OPEN P, MPI_Fint * q, MPI_Fint * e),                                      \
               if (!usable()) { real(OPEN A, q, e); return; }                                                 \
               MPI_Fint error = MPI_SUCCESS, *told = e ? e : &error; int code;                                \
               COUNTED(OP_##name, NONBLOCKING, bytes, root, __VA_ARGS__)                                      \
               TIMED(code, (real(OPEN A, q, told), *told), v_);                                               \
               if (code == MPI_SUCCESS) expect(REQUEST(*q), p_, k, b_, 0);)                                   \
    F_PERSISTENT(NAMED(mpi_##name##_init), name, P, A, bytes, root, __VA_ARGS__)                              \
    F_PERSISTENT(NAMED(mpix_##name##_init), name, P, A, bytes, root, __VA_ARGS__)
#define F_PERSISTENT(symbol, name, P, A, bytes, root, ...)                                                    \
    F_FUNCTION(symbol, (OPEN P, MPI_Fint * j, MPI_Fint * q, MPI_Fint * e),                                    \
               if (!usable()) { real(OPEN A, j, q, e); return; }                                              \
               MPI_Fint error = MPI_SUCCESS, *told = e ? e : &error;                                          \
               COUNTED(OP_##name, PERSISTENT, bytes, root, __VA_ARGS__)                                       \
               F_WITHIN(real(OPEN A, j, q, told))                                                             \
               if (*told == MPI_SUCCESS) expect(REQUEST(*q), p_, k, b_, 1);)
#define F_WITHIN(call)                                                                                        \
    inside++;                                                                                                 \
    call;                                                                                                     \
    inside--;
#undef NAMED
#define NAMED(x) x##_
EACH(F_CALLS)
#undef NAMED
#define NAMED(x) x##_f08_
EACH(F_CALLS)

/* Those that complete and start requests, and the beginning and the end: by the same names. */
#define F_NAMED(name, P, ...) F_FUNCTION(mpi_##name##_, P, __VA_ARGS__) F_FUNCTION(mpi_##name##_f08_, P, __VA_ARGS__)
#define F MPI_Fint *
/* Fortran's list of requests, looked at before and after; nothing is returned. */
#define F_WAITING(name, n, list, P, A)                                                                        \
    static int name##_waited_(void(*real) P, OPEN P) {                                                        \
        WAITING(n, REQUEST(list[i]), REQUEST(list[i]), (real A, 0));                                          \
    }                                                                                                         \
    F_NAMED(name, P, name##_waited_(real, OPEN A);)
F_WAITING(wait, 1, r, (F r, F s, F e), (r, s, e))
F_WAITING(waitall, *m, r, (F m, F r, F s, F e), (m, r, s, e))
F_WAITING(waitany, *m, r, (F m, F r, F j, F s, F e), (m, r, j, s, e))
F_WAITING(waitsome, *m, r, (F m, F r, F o, F j, F s, F e), (m, r, o, j, s, e))
F_WAITING(test, 1, r, (F r, F f, F s, F e), (r, f, s, e))
F_WAITING(testall, *m, r, (F m, F r, F f, F s, F e), (m, r, f, s, e))
F_WAITING(testany, *m, r, (F m, F r, F j, F f, F s, F e), (m, r, j, f, s, e))
F_WAITING(testsome, *m, r, (F m, F r, F o, F j, F s, F e), (m, r, o, j, s, e))

static void start_all(int n, MPI_Fint *r) {
    for (int i = 0; n_pending && usable() && i < n; i++) {
        MPI_Request one = REQUEST(r[i]);
        started(1, &one, 0);
    }
}
F_NAMED(start, (F r, F e), F_WITHIN(real(r, e)) start_all(1, r);)
F_NAMED(startall, (F m, F r, F e), F_WITHIN(real(m, r, e)) start_all(*m, r);)
F_NAMED(request_free, (F r, F e), if (n_pending && usable()) drop(REQUEST(*r)); real(r, e);)
F_NAMED(init, (F e), check_mpi(); F_WITHIN(real(e)) begun();)
F_NAMED(init_thread, (F a, F b, F e), check_mpi(); F_WITHIN(real(a, b, e)) begun();)
F_NAMED(finalize, (F e), ended(1); real(e);)
F_NAMED(abort, (F c, F n, F e), ended(2); real(c, n, e);)
