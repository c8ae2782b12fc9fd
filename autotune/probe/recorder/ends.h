/* The beginning and the end of a rank: its file, and how far its clock is ahead. */

#define ROUND_TRIPS 32 /* the shortest tells most of the clocks */

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

/* A page of the file that could not be written after all: a failing disk, or whoever cut the file off. What was
 * counted in it goes to memory that nobody reads, and no more is recorded; the program goes on. */
static struct sigaction others;
static void unwritten(int number, siginfo_t *info, void *context) {
    uintptr_t at = (uintptr_t)info->si_addr, begin = (uintptr_t)file, page = sysconf(_SC_PAGESIZE);
    if (file && info->si_code > 0 && at - begin < sizeof *file) {
        static const char said[] = "autotune record: the file of a rank cannot be written; it is recorded no more\n";
        int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
        if (mmap((void *)(at & ~(page - 1)), page, PROT_READ | PROT_WRITE, flags, -1, 0) != MAP_FAILED) {
            if (!off && write(2, said, sizeof said - 1) < 0) off = 1;
            off = 1;
            return;
        }
    }
    if (others.sa_flags & SA_SIGINFO) {
        others.sa_sigaction(number, info, context);
    } else if (others.sa_handler != SIG_DFL && others.sa_handler != SIG_IGN) {
        others.sa_handler(number);
    } else {
        sigaction(number, &others, NULL); /* and the same again */
    }
}

/* The file with room for all that it will ever hold: a hole in it would end the program where the disk is full. */
static int reserved(int descriptor) {
    sigset_t larger, before;
    sigemptyset(&larger);
    sigaddset(&larger, SIGXFSZ); /* a limit on sizes of files is an error like any */
    pthread_sigmask(SIG_BLOCK, &larger, &before);
    int error = posix_fallocate(descriptor, 0, sizeof(struct file));
    if (error && sigtimedwait(&larger, NULL, &(struct timespec){0}) < 0) errno = 0; /* there may be none */
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error && ftruncate(descriptor, 0)) errno = 0; /* without any content it says that there was no room */
    return error;
}

/* Whether all ranks can: of some alone nothing follows for the program. */
static int all_can(int mine, int size) {
    char can = mine, *every = calloc(size, 1);
    if (!every) return 0;
    REAL(Gather)(&can, 1, BYTE, every, 1, BYTE, 0, own);
    for (int i = 0; i < size; i++) can = can && every[i];
    free(every);
    REAL(Bcast)(&can, 1, BYTE, 0, own);
    return can;
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
    int error = descriptor < 0 ? errno : reserved(descriptor);
    struct file *mapped = MAP_FAILED;
    if (!error) {
        mapped = mmap(NULL, sizeof(struct file), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
        error = mapped == MAP_FAILED ? errno : 0;
    }
    if (error) fprintf(stderr, "autotune record: rank %d cannot write %s: %s\n", rank, path, strerror(error));
    inside++;
    int can = all_can(!error, size);
    inside--;
    if (!can) {
        if (mapped != MAP_FAILED) munmap(mapped, sizeof(struct file));
        if (descriptor >= 0 && ftruncate(descriptor, 0)) errno = 0;
        if (descriptor >= 0) close(descriptor);
        off = 1;
        return;
    }
    close(descriptor);
    struct sigaction mine = {.sa_sigaction = unwritten, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    sigemptyset(&mine.sa_mask);
    sigaction(SIGBUS, &mine, &others);
    file = mapped;
    struct head *head = &mapped->head;
    memcpy(head->magic, "autorec2", 8);
    head->rank = rank, head->size = size, head->threads = level, head->nodes = nodes, head->job = job;
    head->ahead_s = head->ahead_end_s = before, head->unsure_s = unsure;
    head->clock_s = clock_s = clocks_own_time();
    memcpy(head->host, host, sizeof host);
    memcpy(head->library, version, sizeof head->library - 1);
    threaded = level == MPI_THREAD_MULTIPLE;
    head->begin_s = head->end_s = now();
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
