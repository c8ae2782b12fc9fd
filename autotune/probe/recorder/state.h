/* What is known while the application runs, and what calls share. */

/* One for each communicator, collective, kind and size: where its calls are counted. */
struct place {
    struct place *next;
    int bin, all; /* all: every call of this block is timed */
    int64_t drawn, until; /* numbers of the call that is drawn of this block, and of the next block's first */
    double mean_s; /* of its last calls */
    struct cell *cell;
    struct stream *stream;
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
