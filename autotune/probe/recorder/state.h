/* What is known while the application runs, and what calls share. */

/* One for each communicator, collective, kind and size, or operation, distance and size: where calls are counted. */
struct place {
    struct place *next;
    int bin, all; /* all: every call of this block is timed */
    int64_t drawn, until; /* numbers of the call that is drawn of this block, and of the next block's first */
    int64_t begun, length, known; /* of a block that is not timed wholly: when, how many, what was timed by then */
    double mean, period; /* ticks: of its last calls, and from one to the next in blocks that are not timed wholly */
    struct cell *cell;
    struct stream *stream;
};

struct comm {
    struct comm *next;
    MPI_Comm handle;
    int ranks, peers, rank, inter, nodes;
    int *world; /* of its ranks */
    char *far; /* enum distance of its peers */
    uint64_t members;
    struct place *places[OPS][KINDS];
};

/* What was begun and not waited for, or can be started again. */
struct pending {
    struct pending *next;
    MPI_Request request;
    struct place *place;
    double bytes;
    int persistent, derived, times, taken; /* begun under this handle at this place; of these, that a wait under way is for */
};

struct call {
    struct place *place; /* NULL: it is not timed */
    struct comm *comm;
    int64_t number;
    int kept, root, drawn_of;
    double weight;
    int64_t begin, end; /* of the MPI's own */
};

/* The last call of each collective, and how many more of its kind need no closer look. */
static int64_t unused;
static struct repeated {
    int64_t handle, count, type, limit, *calls; /* of the last; how many more, how many they have been: no run: -1 */
} last_calls[OPS] = {[0 ... OPS - 1] = {.handle = -1, .limit = -1, .calls = &unused}};

#define BUCKETS 4096
#define BUCKET(handle) (((uintptr_t)(handle) ^ ((uintptr_t)(handle) >> 8)) % BUCKETS)
static struct comm *comms[BUCKETS];
static struct pending *requests[BUCKETS], *spare;
static volatile int64_t n_pending;
static struct place *places[OTHERS][DISTANCES][64];
static struct file *file;
static char path[4096]; /* of the file */
static int threaded, off, keyval, kept, longest;
static struct {
    int64_t end, ticks; /* when, -1: it was not timed; what had been timed by then */
} last_collective = {-1, 0};
static int64_t clock_ticks, spent, timed_ticks; /* of reading the counter; on timing; in calls that were timed */
static double tick_s, microsecond, wtime_s; /* in ticks; of a call of MPI_Wtime */
static int *where; /* node and socket of each rank */
static MPI_Comm own; /* of the recorder */
static volatile unsigned epoch; /* of the communicators: one was freed */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static __thread int inside, called;
static __thread double added_squared; /* of the last call, until the next takes the lock */
static __thread int named = 1; /* whether the datatypes of a call are MPI's own: their handles are never reused */

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

/* The processor's counter where it runs at one rate on all cores, as the kernel found; else its clock. */
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

/* The clock and the counter at one moment: the nearest of a few readings, as another program may run between. */
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

/* How long a tick is, since this was loaded; the file has it exactly, from begin to end. */
static void calibrate(void) {
    double begin_s;
    int64_t counter;
    do both(&begin_s, &counter);
    while (begin_s - loaded_s < 1e-3); /* errors of reading both are below 1e-4 of that */
    tick_s = (begin_s - loaded_s) / (counter - loaded);
    microsecond = 1e-6 / tick_s;
    int64_t least = 1 << 30; /* of a few: whatever else the machine does, this is what each time has too much */
    for (int i = 0; i < 20; i++) {
        int64_t begin = ticks(), end = begin;
        for (int j = 0; j < 50; j++) end = ticks();
        if (end - begin < 50 * least) least = (end - begin) / 50;
    }
    clock_ticks = least;
    double (*wtime)(void) = REAL(Wtime);
    int64_t took[19]; /* the median is that of a program which looks at its clock around a call */
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

/* What a run has counted goes to its cell and stream; then there is none. */
static void settle(struct repeated *q) {
    if (q->limit < 0) return;
    struct run *run = &file->runs[q - last_calls];
    int64_t n = run->calls < q->limit ? run->calls : q->limit; /* one more where this call has ended it */
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
