/* Beginning and end of a rank: its file, and the offset of its clock. */

#define ROUND_TRIPS 32 /* the shortest one gives the best estimate of the offset */

static int copied_not(MPI_Comm handle, int key, void *extra, void *value, void *copy, int *flag) {
    (void)handle, (void)key, (void)extra, (void)value, (void)copy;
    *flag = 0;
    return MPI_SUCCESS;
}

/* Forget a communicator that is freed, in C or Fortran, as its handle may be reused for another communicator. */
static int forget(MPI_Comm handle, int key, void *value, void *extra) {
    (void)key, (void)value, (void)extra;
    lock();
    struct comm **at = &comms[BUCKET(handle)];
    while (*at && (*at)->handle != handle) at = &(*at)->next;
    if (*at) *at = (*at)->next; /* it stays in memory, as a request may refer to it */
    epoch++;
    settle_all();
    unlock();
    return MPI_SUCCESS;
}

/* Return the offset of this node's clock from rank 0's clock, by the shortest round trip; first: first rank of this
 * node. */
static double ahead(double *unsure, int32_t *nodes, int32_t *first) {
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
    *first = rank;
    REAL(Bcast)(first, sizeof *first, BYTE, 0, node);
    REAL(Comm_free)(&node);
    *unsure = told[1];
    return told[0];
}

/* Refuse another MPI before MPI_Init: its handles are incompatible. */
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

/* Handle a page of the file that cannot be written after all, because of a failing disk or a truncated file. Counts in
 * this page then go to memory that nobody reads, and recording ends; the program continues. */
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
        sigaction(number, &others, NULL); /* the default action follows, as the access is repeated */
    }
}

/* Reserve disk space for a part of the file; return an error. */
static int reserved(int descriptor, off_t from, size_t size) {
    sigset_t larger, before;
    sigemptyset(&larger);
    sigaddset(&larger, SIGXFSZ); /* a limit on file sizes is an error like any other */
    pthread_sigmask(SIG_BLOCK, &larger, &before);
    int error = posix_fallocate(descriptor, from, size);
    if (error && sigtimedwait(&larger, NULL, &(struct timespec){0}) < 0) errno = 0; /* there may be no pending signal */
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

/* Return whether all ranks can record, since a recording of only some ranks is of no use. */
static int all_can(int mine, int size) {
    char can = mine, *every = calloc(size, 1);
    if (!every) return 0;
    REAL(Gather)(&can, 1, BYTE, every, 1, BYTE, 0, own);
    for (int i = 0; i < size; i++) can = can && every[i];
    free(every);
    REAL(Bcast)(&can, 1, BYTE, 0, own);
    return can;
}

/* Return the socket to which this rank is bound; 255: none. */
static int socket_of(void) {
    cpu_set_t set;
    int found = 255;
    if (sched_getaffinity(0, sizeof set, &set)) return found;
    for (int cpu = 0, first = 1; cpu < CPU_SETSIZE; cpu++) {
        char name[96], digits[16] = "";
        if (!CPU_ISSET(cpu, &set)) continue;
        snprintf(name, sizeof name, "/sys/devices/system/cpu/cpu%d/topology/physical_package_id", cpu);
        int descriptor = open(name, O_RDONLY | O_CLOEXEC);
        if (descriptor < 0) return 255;
        int package = read(descriptor, digits, sizeof digits - 1) > 0 ? atoi(digits) & 255 : 255;
        close(descriptor);
        if (!first && package != found) return 255;
        first = 0, found = package;
    }
    return found;
}

/* Keep the environment variables that MPI libraries and their transports read. */
static void keep_environment(struct file *mapped) {
    static const char *const prefixes[] = {"OMPI_MCA_", "PMIX_MCA_", "PRTE_MCA_", "UCX_", "UCC_", "HCOLL_", "I_MPI_",
                                           "MPICH_", "MPIR_CVAR_", "MV2_", "FI_", "PSM2_", "NCCL_"};
    int n = 0;
    for (char **variable = environ; variable && *variable; variable++)
        for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
            int length = strlen(*variable) + 1;
            if (strncmp(*variable, prefixes[i], strlen(prefixes[i])) || n + length > ENVIRONMENT) continue;
            memcpy(mapped->environment + n, *variable, length);
            n += length;
        }
    mapped->head.environment = n;
}

/* Note a means of communication that is not recorded, by an empty file with the name of the means. */
static void note(const char *word) {
    const char *folder = getenv("AUTOTUNE_RECORD");
    char name[4096], host[64] = "";
    if (!folder) return;
    gethostname(host, sizeof host - 1);
    snprintf(name, sizeof name, "%s/%s.%ld.%s.seen", folder, host, (long)getpid(), word);
    int descriptor = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (descriptor >= 0) close(descriptor);
}

static pid_t owner; /* owner of the file, since forked processes have it mapped too */

/* Begin recording after MPI_Init; called by all ranks. */
static void begun(void) {
    const char *folder = getenv("AUTOTUNE_RECORD");
    if (file || off || !folder) return;
    int level, rank, size, length;
    char host[64] = "", version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    MPI_Comm parent;
    inside++;
    REAL(Query_thread)(&level);
    REAL(Comm_dup)(WORLD, &own);
    REAL(Comm_rank)(own, &rank);
    REAL(Comm_size)(own, &size);
    REAL(Comm_get_parent)(&parent);
    REAL(Get_library_version)(version, &length);
    REAL(Comm_create_keyval)(copied_not, forget, &keyval, NULL);
    int64_t job = (int64_t)(now() * 1e9) ^ ((int64_t)getpid() << 40);
    REAL(Bcast)(&job, sizeof job, BYTE, 0, own);
    int32_t nodes, node;
    double unsure, before = ahead(&unsure, &nodes, &node);
    where = calloc(size, sizeof *where);
    int here = node << 8 | socket_of(), error = where == NULL;
    inside--;
    gethostname(host, sizeof host - 1);
    snprintf(path, sizeof path, "%s/%s.%ld.rank", folder, host, (long)getpid());
    int descriptor = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (!error) error = descriptor < 0 ? errno : reserved(descriptor, 0, offsetof(struct file, streams));
    if (!error && ftruncate(descriptor, sizeof(struct file))) error = errno;
    struct file *mapped = MAP_FAILED;
    if (!error) {
        mapped = mmap(NULL, sizeof(struct file), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
        error = mapped == MAP_FAILED ? errno : 0;
    }
    if (error) fprintf(stderr, "autotune record: rank %d cannot write %s: %s\n", rank, path, strerror(error));
    inside++;
    int can = all_can(!error, size);
    if (can) REAL(Allgather)(&here, sizeof here, BYTE, where, sizeof here, BYTE, own);
    inside--;
    if (!can) {
        if (mapped != MAP_FAILED) munmap(mapped, sizeof(struct file));
        if (descriptor >= 0 && ftruncate(descriptor, 0)) errno = 0; /* an empty file: there was no disk space */
        if (descriptor >= 0) close(descriptor);
        off = 1;
        return;
    }
    close(descriptor);
    struct sigaction mine = {.sa_sigaction = unwritten, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    sigemptyset(&mine.sa_mask);
    sigaction(SIGBUS, &mine, &others);
    calibrate();
    struct head *head = &mapped->head;
    memcpy(head->magic, "autorec5", 8);
    head->rank = rank, head->size = size, head->threads = level, head->nodes = nodes, head->job = job;
    head->ahead_s = head->ahead_end_s = before, head->unsure_s = unsure;
    head->clock_s = clock_ticks * tick_s, head->tick_s = tick_s;
    head->wtime_s = wtime_s, head->wtick_s = REAL(Wtick)();
    head->spawned = parent != NO_COMM;
    memcpy(head->host, host, sizeof host);
    memcpy(head->library, version, sizeof head->library - 1);
    if (!rank) keep_environment(mapped);
    threaded = level == MPI_THREAD_MULTIPLE;
    /* With many ranks each keeps fewer calls: together they show as much, and must be readable at once. */
    kept = size > 1 << 13 ? 32 : size > 1 << 9 ? (1 << 18) / size : KEPT;
    longest = kept / 4;
    both(&head->begin_s, &head->begin);
    while (((int64_t)(10 / tick_s) >> head->shift) >= SLICES) head->shift++; /* room for ten seconds */
    head->end = head->begin, head->end_s = head->begin_s;
    owner = getpid();
    file = mapped;
}

/* Replace the file, which has holes, by a file of only the used parts; if this fails, the old file remains. */
static void compact(void) {
    char name[sizeof path + 8];
    snprintf(name, sizeof name, "%s.part", path);
    int descriptor = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    FILE *out = descriptor < 0 ? NULL : fdopen(descriptor, "wb");
    if (!out) return;
    struct head head = file->head;
    head.compact = 1;
    int well = fwrite(&head, sizeof head, 1, out) == 1;
    well &= fwrite(file->environment, 1, head.environment, out) == (size_t)head.environment;
    well &= fwrite(file->runs, sizeof *file->runs, RUNS, out) == RUNS;
    well &= fwrite(file->cells, sizeof *file->cells, head.cells, out) == (size_t)head.cells;
    well &= fwrite(file->streams, sizeof *file->streams, head.streams, out) == (size_t)head.streams;
    for (int i = 0; i < head.streams; i++) {
        const struct stream *s = &file->streams[i];
        const struct sample *list = file->samples[i];
        well &= fwrite(list, sizeof *list, s->n, out) == (size_t)s->n;
        well &= fwrite(list + KEPT, sizeof *list, s->longest, out) == (size_t)s->longest;
    }
    well &= !fclose(out);
    if (!well || rename(name, path)) unlink(name);
}

static void ended(int how) {
    if (!file || file->head.ended) return;
    both(&file->head.end_s, &file->head.end);
    settle_all();
    file->head.ended = how;
    if (how == 1) {
        int32_t nodes, node;
        double unsure;
        inside++;
        file->head.ahead_end_s = ahead(&unsure, &nodes, &node);
        REAL(Comm_free)(&own);
        inside--;
    }
    if (!off) compact();
}

/* Record a process that exits without MPI_Finalize; note a process that opens MPI itself, so that no call is seen. */
__attribute__((destructor)) static void exits(void) {
    int (*initialized)(int *), flag = 0;
    if (file && owner == getpid()) ended(3);
    if (file || off || !getenv("AUTOTUNE_RECORD") || !(initialized = symbol("PMPI_Initialized"))) return;
    if (initialized(&flag) == MPI_SUCCESS && flag) note("an MPI that it opens itself (dlopen)");
}
