/* Records what an application calls: preloaded into it, between it and its MPI (see recorder.py).
 *
 * Every rank keeps its counts in a file of its own, mapped into memory: what was counted is there however the
 * rank ends, by MPI_Finalize, MPI_Abort or a signal, and nothing is exchanged between ranks for it.
 *
 * - A cell is (collective, blocking or not, log2 of the message size, communicator size); its calls are exact.
 * - Reading the clock twice costs as much as the shortest calls take. The first calls are all timed, then one of
 *   each block of up to 64, drawn by a hash of the block's number and weighted by the block's length (Horvitz,
 *   Thompson 1952); where calls take long all of them are.
 * - Hash and blocks are the same on all ranks, so they keep the same calls' entry times, from which follows how
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
#define KEPT 512 /* entry times of one stream */
#define LONG_S 10e-6 /* calls of which all are timed */
#define ROUND_TRIPS 32

enum kind { BLOCKING, NONBLOCKING, PERSISTENT, KINDS };

/* The file, in this order; recorder.py reads it by the same names. */
struct head {
    char magic[8];
    int32_t rank, size, ended, threads, kept_out, nodes; /* ended: 0 killed, 1 finalized, 2 aborted */
    int64_t job, cells, streams;
    double begin_s, end_s, ahead_s, ahead_end_s, unsure_s; /* ahead: of the clock of rank 0 */
    char host[64], library[128];
};
struct cell {
    char name[24];
    int32_t kind, bin, ranks, nodes;
    int64_t calls;
    double bytes, weight, weighted_s, wait_s; /* wait_s: in MPI_Wait and its kin */
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
    int32_t root, spare; /* world rank; -1: none */
};
struct file {
    struct head head;
    struct cell cells[CELLS];
    struct stream streams[STREAMS];
    struct sample samples[STREAMS][KEPT];
};

/* One for each communicator, collective, kind and size: where its calls are counted. */
struct place {
    struct place *next;
    int bin;
    int64_t drawn; /* number of the next call that is drawn */
    double typical_s; /* about the median: a few calls that were disturbed do not make it long */
    struct cell *cell;
    struct stream *stream;
};

/*       name      MPI's name  parameters  arguments  message size  root
 * NUM a count, NUMS several, AT displacements; VAL and TYPE read them in the language of the caller. */
#define EACH(X)                                                                                               \
    X(barrier, Barrier, (COMM(c)), (c), 0, NONE)                                                              \
    X(bcast, Bcast, (VOID(b), NUM(n), DT(t), INT(root), COMM(c)), (b, n, t, root, c), SIZE(n, t), VAL(root))  \
    X(gather, Gather, (CVOID(s), NUM(n), DT(t), VOID(r), NUM(m), DT(u), INT(root), COMM(c)),                  \
      (s, n, t, r, m, u, root, c), IS_ROOT(root) ? SIZE(m, u) : SIZE(n, t), VAL(root))                        \
    X(gatherv, Gatherv,                                                                                       \
      (CVOID(s), NUM(n), DT(t), VOID(r), NUMS(m), AT(d), DT(u), INT(root), COMM(c)),                          \
      (s, n, t, r, m, d, u, root, c), IS_ROOT(root) ? MEAN(m, k->peers) * WIDTH(u) : SIZE(n, t), VAL(root))   \
    X(scatter, Scatter, (CVOID(s), NUM(n), DT(t), VOID(r), NUM(m), DT(u), INT(root), COMM(c)),                \
      (s, n, t, r, m, u, root, c), IS_ROOT(root) ? SIZE(n, t) : SIZE(m, u), VAL(root))                        \
    X(scatterv, Scatterv,                                                                                     \
      (CVOID(s), NUMS(n), AT(d), DT(t), VOID(r), NUM(m), DT(u), INT(root), COMM(c)),                          \
      (s, n, d, t, r, m, u, root, c), IS_ROOT(root) ? MEAN(n, k->peers) * WIDTH(t) : SIZE(m, u), VAL(root))   \
    X(allgather, Allgather, (CVOID(s), NUM(n), DT(t), VOID(r), NUM(m), DT(u), COMM(c)),                       \
      (s, n, t, r, m, u, c), SIZE(m, u), NONE)                                                                \
    X(allgatherv, Allgatherv, (CVOID(s), NUM(n), DT(t), VOID(r), NUMS(m), AT(d), DT(u), COMM(c)),             \
      (s, n, t, r, m, d, u, c), MEAN(m, k->peers) * WIDTH(u), NONE)                                           \
    X(alltoall, Alltoall, (CVOID(s), NUM(n), DT(t), VOID(r), NUM(m), DT(u), COMM(c)),                         \
      (s, n, t, r, m, u, c), SIZE(m, u), NONE)                                                                \
    X(alltoallv, Alltoallv,                                                                                   \
      (CVOID(s), NUMS(n), AT(d), DT(t), VOID(r), NUMS(m), AT(g), DT(u), COMM(c)),                             \
      (s, n, d, t, r, m, g, u, c), MEAN(m, k->peers) * WIDTH(u), NONE)                                        \
    X(alltoallw, Alltoallw,                                                                                   \
      (CVOID(s), NUMS(n), ATW(d), DTS(t), VOID(r), NUMS(m), ATW(g), DTS(u), COMM(c)),                         \
      (s, n, d, t, r, m, g, u, c), MEAN_OF(m, u, k->peers), NONE)                                             \
    X(reduce, Reduce, (CVOID(s), VOID(r), NUM(n), DT(t), OP(o), INT(root), COMM(c)),                          \
      (s, r, n, t, o, root, c), SIZE(n, t), VAL(root))                                                        \
    X(allreduce, Allreduce, (CVOID(s), VOID(r), NUM(n), DT(t), OP(o), COMM(c)),                               \
      (s, r, n, t, o, c), SIZE(n, t), NONE)                                                                   \
    X(reduce_scatter, Reduce_scatter, (CVOID(s), VOID(r), NUMS(m), DT(t), OP(o), COMM(c)),                    \
      (s, r, m, t, o, c), MEAN(m, k->ranks) * WIDTH(t), NONE)                                                 \
    X(reduce_scatter_block, Reduce_scatter_block, (CVOID(s), VOID(r), NUM(n), DT(t), OP(o), COMM(c)),         \
      (s, r, n, t, o, c), SIZE(n, t), NONE)                                                                   \
    X(scan, Scan, (CVOID(s), VOID(r), NUM(n), DT(t), OP(o), COMM(c)), (s, r, n, t, o, c), SIZE(n, t), NONE)   \
    X(exscan, Exscan, (CVOID(s), VOID(r), NUM(n), DT(t), OP(o), COMM(c)),                                     \
      (s, r, n, t, o, c), SIZE(n, t), NONE)                                                                   \
    X(neighbor_allgather, Neighbor_allgather,                                                                 \
      (CVOID(s), NUM(n), DT(t), VOID(r), NUM(m), DT(u), COMM(c)), (s, n, t, r, m, u, c), SIZE(m, u), NONE)    \
    X(neighbor_allgatherv, Neighbor_allgatherv,                                                               \
      (CVOID(s), NUM(n), DT(t), VOID(r), NUMS(m), AT(d), DT(u), COMM(c)),                                     \
      (s, n, t, r, m, d, u, c), SIZE(n, t), NONE)                                                             \
    X(neighbor_alltoall, Neighbor_alltoall,                                                                   \
      (CVOID(s), NUM(n), DT(t), VOID(r), NUM(m), DT(u), COMM(c)), (s, n, t, r, m, u, c), SIZE(m, u), NONE)    \
    X(neighbor_alltoallv, Neighbor_alltoallv,                                                                 \
      (CVOID(s), NUMS(n), AT(d), DT(t), VOID(r), NUMS(m), AT(g), DT(u), COMM(c)),                             \
      (s, n, d, t, r, m, g, u, c), MEAN(m, neighbours(k)) * WIDTH(u), NONE)                                   \
    X(neighbor_alltoallw, Neighbor_alltoallw,                                                                 \
      (CVOID(s), NUMS(n), ATN(d), DTS(t), VOID(r), NUMS(m), ATN(g), DTS(u), COMM(c)),                         \
      (s, n, d, t, r, m, g, u, c), MEAN_OF(m, u, neighbours(k)), NONE)

#define NONE (-1)
enum op {
#define X(name, Name, P, A, size, root) OP_##name,
    EACH(X)
#undef X
    OPS
};
static const char *const NAMES[OPS] = {
#define X(name, Name, P, A, size, root) #name,
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
    struct place *place;
    int64_t number;
    int timed, kept, root;
    double weight;
    struct comm *comm;
    double begin_s;
};

#define BUCKETS 256
#define BUCKET(handle) (((uintptr_t)(handle) ^ ((uintptr_t)(handle) >> 8)) % BUCKETS)
static struct comm *comms[BUCKETS];
static struct pending *requests[BUCKETS];
static volatile int64_t n_pending;
static struct file *file;
static int threaded, off, keyval;
static MPI_Comm own; /* of the recorder */
static volatile unsigned epoch; /* of the communicators: one was freed */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static __thread int inside;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

static void lock(void) {
    if (threaded) pthread_mutex_lock(&mutex);
}

static void unlock(void) {
    if (threaded) pthread_mutex_unlock(&mutex);
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
    memcpy(head->magic, "autorec1", 8);
    head->rank = rank, head->size = size, head->threads = level, head->nodes = nodes, head->job = job;
    head->ahead_s = head->ahead_end_s = before, head->unsure_s = unsure;
    memcpy(head->host, host, sizeof host);
    memcpy(head->library, version, sizeof head->library - 1);
    threaded = level == MPI_THREAD_MULTIPLE;
    head->begin_s = head->end_s = now();
    file = mapped;
}

static void ended(int how) {
    if (!file || file->head.ended) return;
    file->head.end_s = now();
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

/* Calls with numbers from here on come in blocks so long. */
static int64_t block(int64_t number) { return number < 256 ? 1 : number < 1024 ? 4 : number < 16384 ? 16 : 64; }

/* The number that is drawn of the block that a number is in. */
static int64_t drawn(int64_t number) {
    int64_t length = block(number), first = number - number % length;
    return first + (int64_t)(hashed(first) % length);
}

static inline void before(struct call *v, struct place *p, double bytes, struct comm *k, int root) {
    struct cell *c = p ? p->cell : NULL;
    v->place = NULL;
    if (!c) return;
    struct stream *s = p->stream;
    int64_t number = c->calls++;
    c->bytes += bytes;
    if (s) number = s->calls++;
    int taken = number >= p->drawn;
    if (taken && number > p->drawn) taken = number == drawn(number); /* others counted here too */
    v->timed = taken || p->typical_s > LONG_S;
    if (!v->timed) return;
    v->place = p, v->comm = k, v->root = root, v->number = number;
    v->weight = p->typical_s > LONG_S ? 1 : block(number);
    v->kept = s && taken && hashed(number) <= s->limit;
    if (number >= p->drawn) {
        p->drawn = drawn(number);
        if (p->drawn <= number) p->drawn = drawn(number - number % block(number) + block(number));
    }
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
    double end_s = now();
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
    double took_s = end_s - v->begin_s, *typical_s = &v->place->typical_s;
    c->weight += v->weight;
    c->weighted_s += v->weight * took_s;
    *typical_s = *typical_s ? *typical_s * (took_s > *typical_s ? 1.1 : 1 / 1.1) : took_s;
    if (v->kept && hashed(v->number) <= s->limit) {
        file->samples[s - file->streams][s->n++] = (struct sample){v->number, v->begin_s, end_s, root, 0};
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
    if (__builtin_expect((v).place && (v).timed, 0)) {                                                                           \
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
    double took_ = now() - began_;                                                                            \
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
    started(n, list, now() - began_);                                                                         \
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
    if (combiner == MPI_COMBINER_NAMED) last_type = type, last_width = size; /* its handle is never reused */
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

#define SIZE(n, t) ((double)VAL(n) * WIDTH(t))
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
#define COUNTED(op, how, bytes_, root_)                                                                       \
    struct comm *k = known(COMM_OF(c));                                                                       \
    struct call v_;                                                                                           \
    v_.place = NULL;                                                                                          \
    struct place *p_ = NULL;                                                                                  \
    double b_ = 0;                                                                                            \
    if (k) {                                                                                                  \
        b_ = (bytes_);                                                                                        \
        lock();                                                                                               \
        p_ = place_of(op, how, k, b_);                                                                        \
        if (how != PERSISTENT) before(&v_, p_, b_, k, root_);                                                 \
        unlock();                                                                                             \
    }

/* C. */
#define VOID(x) void *x
#define CVOID(x) const void *x
#define NUM(x) N x
#define NUMS(x) const N x[]
#define AT(x) const D x[]
#define ATW(x) const D x[]
#define ATN(x) const MPI_Aint x[]
#define INT(x) int x
#define DT(x) MPI_Datatype x
#define DTS(x) const MPI_Datatype x[]
#define OP(x) MPI_Op x
#define COMM(x) MPI_Comm x
#define VAL(x) (x)
#define TYPE(x) (x)
#define WIDTH(x) width(x)
#define COMM_OF(x) (x)

#define C_CALLS(name, Name, P, A, bytes, root)                                                                \
    int NAMED(MPI_##Name)P {                                                                                  \
        static int(*real) P;                                                                                  \
        if (!real) real = needed(TEXT(NAMED(PMPI_##Name)));                                                   \
        if (!usable()) return real A;                                                                         \
        int code;                                                                                             \
        COUNTED(OP_##name, BLOCKING, bytes, root)                                                             \
        TIMED(code, real A, v_);                                                                              \
        return code;                                                                                          \
    }                                                                                                         \
    int NAMED(MPI_I##name)(OPEN P, MPI_Request * q) {                                                         \
        static int (*real)(OPEN P, MPI_Request *);                                                            \
        if (!real) real = needed(TEXT(NAMED(PMPI_I##name)));                                                  \
        if (!usable()) return real(OPEN A, q);                                                                \
        int code;                                                                                             \
        COUNTED(OP_##name, NONBLOCKING, bytes, root)                                                          \
        TIMED(code, real(OPEN A, q), v_);                                                                     \
        if (code == MPI_SUCCESS) expect(*q, p_, k, b_, 0);                                                    \
        return code;                                                                                          \
    }                                                                                                         \
    STANDARD(name, Name, P, A, bytes, root)                                                                   \
    EXTENSION(name, Name, P, A, bytes, root)
#define C_PERSISTENT(prefix, pprefix, name, Name, P, A, bytes, root)                                                   \
    int NAMED(prefix##Name##_init)(OPEN P, MPI_Info j, MPI_Request * q) {                                     \
        static int (*real)(OPEN P, MPI_Info, MPI_Request *);                                                  \
        if (!real) real = needed(TEXT(NAMED(pprefix##Name##_init)));                                        \
        if (!usable()) return real(OPEN A, j, q);                                                             \
        COUNTED(OP_##name, PERSISTENT, bytes, root)                                                           \
        inside++;                                                                                             \
        int code = real(OPEN A, j, q);                                                                        \
        inside--;                                                                                             \
        if (code == MPI_SUCCESS) expect(*q, p_, k, b_, 1);                                                    \
        return code;                                                                                          \
    }

/* What the MPI lacks must not seem to be there: mpi4py looks. recorder's caller says what it has. */
#ifdef AUTOTUNE_NO_PERSISTENT
#define STANDARD(...)
#else
#define STANDARD(...) C_PERSISTENT(MPI_, PMPI_, __VA_ARGS__)
#endif
#define N int
#define D int
#undef ATW
#define ATW(x) const int x[]
#define NAMED(x) x
#define EXTENSION(...) C_PERSISTENT(MPIX_, PMPIX_, __VA_ARGS__) /* Open MPI 4.1 */
EACH(C_CALLS)
#ifndef AUTOTUNE_NO_LARGE
#undef N
#undef D
#undef NAMED
#undef ATW
#undef EXTENSION
#define N MPI_Count
#define D MPI_Aint
#define ATW(x) const MPI_Aint x[]
#define NAMED(x) x##_c
#define EXTENSION(...)
EACH(C_CALLS)
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
#undef VOID
#undef CVOID
#undef NUM
#undef NUMS
#undef AT
#undef ATW
#undef ATN
#undef INT
#undef DT
#undef DTS
#undef OP
#undef COMM
#undef VAL
#undef TYPE
#undef WIDTH
#undef COMM_OF
#define VOID(x) void *x
#define CVOID(x) void *x
#define NUM(x) MPI_Fint *x
#define NUMS(x) MPI_Fint *x
#define AT(x) MPI_Fint *x
#define ATW(x) MPI_Fint *x
#define ATN(x) MPI_Aint *x
#define INT(x) MPI_Fint *x
#define DT(x) MPI_Fint *x
#define DTS(x) MPI_Fint *x
#define OP(x) MPI_Fint *x
#define COMM(x) MPI_Fint *x
#define VAL(x) (*(x))
#ifdef OPEN_MPI
#define TYPE(x) REAL(Type_f2c)(x)
#define COMM_OF(x) REAL(Comm_f2c)(*(x))
#define REQUEST(x) REAL(Request_f2c)(x)
#else
#define TYPE(x) ((MPI_Datatype)(x))
#define COMM_OF(x) ((MPI_Comm)(*(x)))
#define REQUEST(x) ((MPI_Request)(x))
#endif
#define WIDTH(x) width(TYPE(*(x)))

#define F_CALLS_(name, P, A, bytes, root, suffix)                                                             \
    void mpi_##name##suffix(OPEN P, MPI_Fint * e) {                                                           \
        static void (*real)(OPEN P, MPI_Fint *);                                                              \
        if (!real) real = needed("pmpi_" #name #suffix);                                                      \
        if (!usable()) {                                                                                      \
            real(OPEN A, e);                                                                                  \
            return;                                                                                           \
        }                                                                                                     \
        int code;                                                                                             \
        COUNTED(OP_##name, BLOCKING, bytes, root)                                                             \
        TIMED(code, (real(OPEN A, e), 0), v_);                                                                \
        (void)code;                                                                                           \
    }                                                                                                         \
    void mpi_i##name##suffix(OPEN P, MPI_Fint * q, MPI_Fint * e) {                                            \
        static void (*real)(OPEN P, MPI_Fint *, MPI_Fint *);                                                  \
        if (!real) real = needed("pmpi_i" #name #suffix);                                                     \
        if (!usable()) {                                                                                      \
            real(OPEN A, q, e);                                                                               \
            return;                                                                                           \
        }                                                                                                     \
        MPI_Fint error = MPI_SUCCESS, *told = e ? e : &error;                                                 \
        int code;                                                                                             \
        COUNTED(OP_##name, NONBLOCKING, bytes, root)                                                          \
        TIMED(code, (real(OPEN A, q, told), *told), v_);                                                      \
        if (code == MPI_SUCCESS) expect(REQUEST(*q), p_, k, b_, 0);                                           \
    }                                                                                                         \
    F_PERSISTENT(mpi_, "pmpi_", name, P, A, bytes, root, suffix)                                                       \
    F_PERSISTENT(mpix_, "pmpix_", name, P, A, bytes, root, suffix)
#define F_PERSISTENT(prefix, pprefix, name, P, A, bytes, root, suffix)                                                 \
    void prefix##name##_init##suffix(OPEN P, MPI_Fint * j, MPI_Fint * q, MPI_Fint * e) {                      \
        static void (*real)(OPEN P, MPI_Fint *, MPI_Fint *, MPI_Fint *);                                      \
        if (!real) real = needed(pprefix #name "_init" #suffix);                                          \
        if (!usable()) {                                                                                      \
            real(OPEN A, j, q, e);                                                                            \
            return;                                                                                           \
        }                                                                                                     \
        MPI_Fint error = MPI_SUCCESS, *told = e ? e : &error;                                                 \
        COUNTED(OP_##name, PERSISTENT, bytes, root)                                                           \
        inside++;                                                                                             \
        real(OPEN A, j, q, told);                                                                             \
        inside--;                                                                                             \
        if (*told == MPI_SUCCESS) expect(REQUEST(*q), p_, k, b_, 1);                                          \
    }
#define F_CALLS(name, Name, P, A, bytes, root)                                                                \
    F_CALLS_(name, P, A, bytes, root, _) F_CALLS_(name, P, A, bytes, root, _f08_)
EACH(F_CALLS)

/* Those that complete and start requests, and the beginning and the end: by the same names. */
#define F_NAMED(name, P, body)                                                                                \
    F_ONE(name, _, P, body) F_ONE(name, _f08_, P, body)
#define F_ONE(name, suffix, P, body)                                                                          \
    void mpi_##name##suffix P {                                                                               \
        static void(*real) P;                                                                                 \
        if (!real) real = needed("pmpi_" #name #suffix);                                                      \
        body;                                                                                                 \
    }
#define F MPI_Fint *
/* Fortran's list of requests, looked at before and after; nothing is returned. */
#define F_WAITING(name, n, list, P, A)                                                                        \
    static int name##_waited_(void(*real) P, OPEN P) {                                                        \
        WAITING(n, REQUEST(list[i]), REQUEST(list[i]), (real A, 0));                                          \
    }                                                                                                         \
    F_NAMED(name, P, name##_waited_(real, OPEN A))
F_WAITING(wait, 1, r, (F r, F s, F e), (r, s, e))
F_WAITING(waitall, *m, r, (F m, F r, F s, F e), (m, r, s, e))
F_WAITING(waitany, *m, r, (F m, F r, F j, F s, F e), (m, r, j, s, e))
F_WAITING(waitsome, *m, r, (F m, F r, F o, F j, F s, F e), (m, r, o, j, s, e))
F_WAITING(test, 1, r, (F r, F f, F s, F e), (r, f, s, e))
F_WAITING(testall, *m, r, (F m, F r, F f, F s, F e), (m, r, f, s, e))
F_WAITING(testany, *m, r, (F m, F r, F j, F f, F s, F e), (m, r, j, f, s, e))
F_WAITING(testsome, *m, r, (F m, F r, F o, F j, F s, F e), (m, r, o, j, s, e))

static int start_all(int n, MPI_Fint *r, int code) {
    for (int i = 0; i < n; i++) {
        MPI_Request one = REQUEST(r[i]);
        started(1, &one, 0);
    }
    return code;
}
F_NAMED(start, (F r, F e), inside++; real(r, e); inside--; if (n_pending && usable()) start_all(1, r, 0))
F_NAMED(startall, (F m, F r, F e), inside++; real(m, r, e); inside--; if (n_pending && usable()) start_all(*m, r, 0))
F_NAMED(request_free, (F r, F e), if (n_pending && usable()) drop(REQUEST(*r)); real(r, e))
F_NAMED(init, (F e), check_mpi(); inside++; real(e); inside--; begun())
F_NAMED(init_thread, (F a, F b, F e), check_mpi(); inside++; real(a, b, e); inside--; begun())
F_NAMED(finalize, (F e), ended(1); real(e))
F_NAMED(abort, (F c, F n, F e), ended(2); real(c, n, e))
