/* State of the recorder while the application runs, shared by its calls. */

/* A place counts the calls of one (communicator, collective, kind, size) or (operation, distance, size). */
struct place {
    struct place *next;
    int bin, all; /* all: whether every call of this block is timed */
    int64_t drawn, until; /* number of this block's randomly drawn call, and of the next block's first call */
    /* of a block that is not timed completely: its start, its length, and timed_ticks at its start */
    int64_t begun, length, known;
    /* ticks: mean of its last calls, and from one call to the next in blocks that are not timed completely */
    double mean, period;
    struct cell *cell;
    struct stream *stream;
};

struct comm {
    struct comm *next;
    MPI_Comm handle;
    int ranks, peers, rank, inter, nodes;
    int *world; /* world rank of each of its ranks */
    char *far; /* enum distance of each peer */
    uint64_t members;
    struct place *places[OPS][KINDS];
};

/* A request that was begun and not waited for, or can be started again. */
struct pending {
    struct pending *next;
    MPI_Request request;
    struct place *place;
    double bytes;
    /* times: calls begun under this handle at this place; taken: those that a wait in progress is for */
    int persistent, derived, times, taken;
};

struct call {
    struct place *place; /* NULL: the call is not timed */
    struct comm *comm;
    int64_t number;
    int kept, root, drawn_of;
    double weight;
    int64_t begin, end; /* ticks at the begin and end of MPI's own function */
};

/* The last call of each collective, and how many more identical ones need no closer look. */
static int64_t unused;
static struct repeated {
    /* handle, count, type: of the last call; limit: how many identical calls may follow; calls: how many did; -1: no
     * run */
    int64_t handle, count, type, limit, *calls;
} last_calls[OPS] = {[0 ... OPS - 1] = {.handle = -1, .limit = -1, .calls = &unused}};

#define BUCKETS 4096
#define BUCKET(handle) (((uintptr_t)(handle) ^ ((uintptr_t)(handle) >> 8)) % BUCKETS)
static struct comm *comms[BUCKETS];
static struct pending *requests[BUCKETS], *spare;
static volatile int64_t n_pending;
static struct place *places[OTHERS][DISTANCES][64];
static struct file *file;
static char path[4096]; /* path of this rank's file */
static int threaded, off, keyval, kept, longest;
static struct {
    int64_t end, ticks; /* end of the last collective, -1: it was not timed; timed_ticks at that end */
} last_collective = {-1, 0};
/* ticks of one reading of the counter; ticks spent on timing; ticks in timed calls */
static int64_t clock_ticks, spent, timed_ticks;
static double tick_s, microsecond, wtime_s; /* seconds a tick; a microsecond in ticks; seconds of a call of MPI_Wtime */
static int *where; /* node and socket of each rank of the world */
static MPI_Comm own; /* communicator of the recorder */
static volatile unsigned epoch; /* changes whenever a communicator is freed */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static __thread int inside, called;
/* squared ticks that the last call's wrapper added, kept until the next call takes the lock */
static __thread double added_squared;
static __thread int named = 1; /* whether the datatypes of a call are predefined ones, whose handles are never reused */

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

/* Read the processor's counter where it has one rate on all cores, according to the kernel; else its clock. */
static int counts;
static inline int64_t ticks(void) {
#ifdef __x86_64__
    if (__builtin_expect(counts, 1)) return __builtin_ia32_rdtsc();
#elif defined __aarch64__
    int64_t t;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(t));
    return t;
#endif
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1000000000 * (int64_t)t.tv_sec + t.tv_nsec;
}

/* Read the clock and the counter at one moment: the closest of a few readings, as another program may run in between.
 */
static void both(double *clock_s, int64_t *counter) {
    int64_t least = INT64_MAX;
    for (int i = 0; i < 8; i++) {
        int64_t begin = ticks();
        double middle_s = now();
        int64_t took = ticks() - begin;
        if (took < least) least = took, *clock_s = middle_s, *counter = begin + took / 2;
    }
}

static int64_t loaded;
static double loaded_s;
__attribute__((constructor)) static void load(void) {
    char source[16] = "";
    int descriptor = open("/sys/devices/system/clocksource/clocksource0/current_clocksource", O_RDONLY | O_CLOEXEC);
    if (descriptor >= 0 && read(descriptor, source, sizeof source - 1) > 0)
        counts = !strncmp(source, "tsc", 3) || !strncmp(source, "kvm-clock", 9) || !strncmp(source, "hyperv", 6);
    if (descriptor >= 0) close(descriptor);
    both(&loaded_s, &loaded);
}

/* Measure the length of a tick since this library was loaded; the file has it exactly, from begin to end. */
static void calibrate(void) {
    double begin_s;
    int64_t counter;
    do both(&begin_s, &counter);
    while (begin_s - loaded_s < 1e-3); /* the errors of both readings are below 1e-4 of that */
    tick_s = (begin_s - loaded_s) / (counter - loaded);
    microsecond = 1e-6 / tick_s;
    int64_t least = 1 << 30; /* the least of a few readings is in every measured time, whatever else the machine does */
    for (int i = 0; i < 20; i++) {
        int64_t begin = ticks(), end = begin;
        for (int j = 0; j < 50; j++) end = ticks();
        if (end - begin < 50 * least) least = (end - begin) / 50;
    }
    clock_ticks = least;
    double (*wtime)(void) = REAL(Wtime);
    int64_t took[19]; /* the median represents a program that reads its clock around a call */
    for (int i = 0; i < 19; i++) {
        int64_t begin = ticks();
        for (int j = 0; j < 50; j++) wtime();
        int64_t each = (ticks() - begin) / 50, at = i;
        for (; at && took[at - 1] > each; at--) took[at] = took[at - 1];
        took[at] = each;
    }
    wtime_s = took[9] * tick_s;
}

static void lock(void) {
    if (threaded) pthread_mutex_lock(&mutex);
}

static void unlock(void) {
    if (threaded) pthread_mutex_unlock(&mutex);
}

/* Add the calls of a run to its cell and stream, and end the run. */
static void settle(struct repeated *q) {
    if (q->limit < 0) return;
    struct run *run = &file->runs[q - last_calls];
    /* a run counts one call too many where that call has ended it */
    int64_t n = run->calls < q->limit ? run->calls : q->limit;
    file->cells[run->cell].calls += n;
    file->cells[run->cell].bytes += n * run->bytes;
    if (run->stream >= 0) file->streams[run->stream].calls += n;
    if (n) last_collective.end = -1;
    run->calls = 0;
    q->limit = -1, q->calls = &unused;
}

static void settle_all(void) {
    for (int op = 0; op < OPS; op++) settle(&last_calls[op]), last_calls[op].handle = -1;
}
