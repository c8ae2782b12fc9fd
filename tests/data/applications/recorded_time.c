/* Programs that keep books of their own time in MPI: what they were told to do, and per operation the calls and seconds
 * of a mean rank, as JSON into the file that is the first argument. Sums and their own synchronisation go past MPI's
 * public names, so that no recorder sees them. */
#define _GNU_SOURCE
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { ALLREDUCE, BARRIER, BCAST, IALLREDUCE, SEND, RECV, SENDRECV, ISEND, IRECV, WAIT, WAITALL, PUT, FENCE, LOCK,
       UNLOCK, WRITE_AT_ALL, READ_AT, WAITANY, WAITSOME, TEST, TESTALL, TESTANY, TESTSOME, STARTALL, START,
       INEIGHBOR, RPUT, OPERATIONS };
static const char *const NAMES[OPERATIONS] = {
    "allreduce", "barrier", "bcast", "iallreduce", "send", "recv", "sendrecv", "isend", "irecv", "wait", "waitall", "put",
    "win_fence", "win_lock", "win_unlock", "file_write_at_all", "file_read_at", "waitany", "waitsome", "test", "testall",
    "testany", "testsome", "startall", "start", "ineighbor_alltoall", "rput"};
static double seconds[OPERATIONS], calls[OPERATIONS], own;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int rank, size;
static char sent[1 << 20], got[1 << 20];

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}
static void book(int operation, double took) {
    pthread_mutex_lock(&mutex);
    seconds[operation] += took - own;
    calls[operation]++;
    pthread_mutex_unlock(&mutex);
}
#define TIMED(operation, call)                                                                                         \
    do {                                                                                                               \
        double begin = now();                                                                                          \
        call;                                                                                                          \
        book(operation, now() - begin);                                                                                \
    } while (0)
static void compute(double for_s) { /* as a program does, without giving up its core */
    for (double end = now() + for_s; now() < end;) continue;
}
static void allreduce(int n, MPI_Comm comm) {
    TIMED(ALLREDUCE, MPI_Allreduce(sent, got, n, MPI_DOUBLE, MPI_SUM, comm));
}

static void rare(int n) { /* one call in a thousand waits for 20 ms, at random */
    unsigned seed = 7;
    for (int i = 0; i < n; i++) {
        int long_one = rand_r(&seed) % 1000 == 0;
        if (long_one && rank == size - 1) usleep(20000);
        allreduce(1, MPI_COMM_WORLD);
    }
}
static void skew(int n) { /* the last rank but one computes longer, each time */
    for (int i = 0; i < n; i++) {
        usleep(rank == (size > 1 ? size - 2 : 0) ? 8000 : 300);
        allreduce(1, MPI_COMM_WORLD);
    }
}
static void periodic(int n) { /* every 20th time rank 0 writes its output */
    for (int i = 0; i < n; i++) {
        usleep(500);
        if (rank == 0 && i % 20 == 19) usleep(60000);
        allreduce(1, MPI_COMM_WORLD);
    }
}
static void wandering(int n) { /* ever another rank is late */
    unsigned seed = 11;
    for (int i = 0; i < n; i++) {
        int late = rand_r(&seed) % size;
        usleep(rank == late ? 2000 : 300);
        allreduce(1, MPI_COMM_WORLD);
    }
}
static void halo(int n) {
    int left = (rank + size - 1) % size, right = (rank + 1) % size;
    for (int i = 0; i < n; i++) {
        MPI_Request four[4];
        TIMED(IRECV, MPI_Irecv(got, 65536, MPI_BYTE, left, 0, MPI_COMM_WORLD, four));
        TIMED(IRECV, MPI_Irecv(got + 65536, 65536, MPI_BYTE, right, 1, MPI_COMM_WORLD, four + 1));
        TIMED(ISEND, MPI_Isend(sent, 65536, MPI_BYTE, right, 0, MPI_COMM_WORLD, four + 2));
        TIMED(ISEND, MPI_Isend(sent, 65536, MPI_BYTE, left, 1, MPI_COMM_WORLD, four + 3));
        usleep(rank == 0 ? 400 : 100);
        TIMED(WAITALL, MPI_Waitall(4, four, MPI_STATUSES_IGNORE));
        TIMED(SENDRECV, MPI_Sendrecv(sent, 1024, MPI_BYTE, right, 2, got, 1024, MPI_BYTE, left, 2, MPI_COMM_WORLD,
                                     MPI_STATUS_IGNORE));
        if (rank % 2) TIMED(RECV, MPI_Recv(got, 512, MPI_BYTE, rank - 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        else if (rank + 1 < size) TIMED(SEND, MPI_Send(sent, 512, MPI_BYTE, rank + 1, 3, MPI_COMM_WORLD));
    }
}
static void rma(int n) {
    MPI_Win window;
    PMPI_Win_create(got, sizeof got, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    for (int i = 0; i < n; i++) {
        TIMED(FENCE, MPI_Win_fence(0, window));
        TIMED(PUT, MPI_Put(sent, 4096, MPI_BYTE, (rank + 1) % size, 0, 4096, MPI_BYTE, window));
        usleep(rank == 0 ? 1000 : 100);
        TIMED(FENCE, MPI_Win_fence(0, window));
    }
    for (int i = 0; i < n; i++) {
        TIMED(LOCK, MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window));
        TIMED(PUT, MPI_Put(sent, 4096, MPI_BYTE, 0, 8192, 4096, MPI_BYTE, window));
        TIMED(UNLOCK, MPI_Win_unlock(0, window));
    }
    PMPI_Win_free(&window);
}
static void io(int n, const char *name) {
    MPI_File file;
    PMPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    for (int i = 0; i < n; i++) {
        MPI_Offset at = (MPI_Offset)(i * size + rank) * 262144;
        TIMED(WRITE_AT_ALL, MPI_File_write_at_all(file, at, sent, 262144, MPI_BYTE, MPI_STATUS_IGNORE));
        TIMED(READ_AT, MPI_File_read_at(file, at, got, 65536, MPI_BYTE, MPI_STATUS_IGNORE));
    }
    PMPI_File_close(&file);
}
static int of_thread;
static void *in_thread(void *comm) {
    static __thread char from[8], to[8];
    for (int i = 0; i < of_thread; i++) {
        usleep(200);
        TIMED(ALLREDUCE, MPI_Allreduce(from, to, 1, MPI_DOUBLE, MPI_SUM, *(MPI_Comm *)comm));
    }
    return NULL;
}
static void threads(int n) {
    MPI_Comm comms[3];
    pthread_t all[3];
    of_thread = n;
    for (int i = 0; i < 3; i++) PMPI_Comm_dup(MPI_COMM_WORLD, comms + i);
    for (int i = 0; i < 3; i++) pthread_create(all + i, NULL, in_thread, comms + i);
    for (int i = 0; i < 3; i++) pthread_join(all[i], NULL);
}
static void communicators(int n) { /* many, short lived, of several sizes; what is new takes a recorder's time */
    for (int i = 0; i < n; i++) {
        MPI_Comm comm;
        PMPI_Comm_split(MPI_COMM_WORLD, i % 3 ? 0 : rank % 2, rank, &comm);
        MPI_Barrier(comm);
        for (int j = 0; j < 40; j++) TIMED(BCAST, MPI_Bcast(sent, 4096, MPI_BYTE, 0, comm));
        PMPI_Comm_free(&comm);
    }
}
static void requests(int n) { /* non-blocking and persistent */
    MPI_Request one;
    for (int i = 0; i < n; i++) {
        TIMED(IALLREDUCE, MPI_Iallreduce(sent, got, 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &one));
        usleep(rank == 0 ? 500 : 50);
        TIMED(WAIT, MPI_Wait(&one, MPI_STATUS_IGNORE));
    }
    MPI_Request pair[2];
    PMPI_Barrier(MPI_COMM_WORLD);
    MPI_Send_init(sent, 2048, MPI_BYTE, (rank + 1) % size, 0, MPI_COMM_WORLD, pair);
    MPI_Recv_init(got, 2048, MPI_BYTE, (rank + size - 1) % size, 0, MPI_COMM_WORLD, pair + 1);
    for (int i = 0; i < n; i++) {
        MPI_Startall(2, pair);
        TIMED(WAITALL, MPI_Waitall(2, pair, MPI_STATUSES_IGNORE));
    }
    MPI_Request_free(pair);
    MPI_Request_free(pair + 1);
}
static MPI_Request some[64];
static int messages(int i, MPI_Comm comm) { /* so many that go at once; how many requests */
    int k = 3 + i % 24, left = (rank + size - 1) % size, right = (rank + 1) % size;
    for (int j = 0; j < k; j++) TIMED(IRECV, MPI_Irecv(got + 16 * j, 16, MPI_BYTE, left, j, comm, some + j));
    for (int j = 0; j < k; j++) TIMED(ISEND, MPI_Isend(sent, j % 2 ? 16 : 4, MPI_BYTE, right, j, comm, some + k + j));
    return 2 * k;
}
static void eager(int n) { /* on two communicators */
    MPI_Comm comms[2] = {MPI_COMM_WORLD};
    PMPI_Comm_dup(MPI_COMM_WORLD, comms + 1);
    for (int i = 0; i < n; i++) {
        int m = messages(i, comms[i % 2]);
        if (rank == i % size) compute(20e-6);
        TIMED(WAITALL, MPI_Waitall(m, some, MPI_STATUSES_IGNORE));
    }
    PMPI_Comm_free(comms + 1);
}
static void completions(int n) { /* the other calls that complete requests */
    int m, left, done, which, places[64];
    for (int i = 0; i < n; i++) {
        m = messages(i, MPI_COMM_WORLD);
        if (rank == i % size) compute(20e-6);
        switch (i % 6) {
        case 0:
            for (left = m; left--;) TIMED(WAITANY, MPI_Waitany(m, some, &which, MPI_STATUS_IGNORE));
            break;
        case 1:
            for (left = m; left > 0; left -= done)
                TIMED(WAITSOME, MPI_Waitsome(m, some, &done, places, MPI_STATUSES_IGNORE));
            break;
        case 2:
            for (int j = 0; j < m; j++)
                for (done = 0; !done;) TIMED(TEST, MPI_Test(some + j, &done, MPI_STATUS_IGNORE));
            break;
        case 3:
            for (done = 0; !done;) TIMED(TESTALL, MPI_Testall(m, some, &done, MPI_STATUSES_IGNORE));
            break;
        case 4:
            for (left = m; left;) {
                TIMED(TESTANY, MPI_Testany(m, some, &which, &done, MPI_STATUS_IGNORE));
                left -= done && which != MPI_UNDEFINED;
            }
            break;
        default:
            for (left = m; left > 0; left -= done)
                TIMED(TESTSOME, MPI_Testsome(m, some, &done, places, MPI_STATUSES_IGNORE));
        }
    }
}
static void started(int n) { /* persistent ones, neighbours, and one-sided ones that have requests */
    int left = (rank + size - 1) % size, right = (rank + 1) % size, round = 1;
    for (int j = 0; j < 8; j++) {
        MPI_Recv_init(got + 16 * j, 16, MPI_BYTE, left, j, MPI_COMM_WORLD, some + j);
        MPI_Send_init(sent, 16, MPI_BYTE, right, j, MPI_COMM_WORLD, some + 8 + j);
    }
    for (int i = 0; i < n; i++) {
        if (i % 2) TIMED(STARTALL, MPI_Startall(16, some));
        else for (int j = 0; j < 16; j++) TIMED(START, MPI_Start(some + j));
        TIMED(WAITALL, MPI_Waitall(16, some, MPI_STATUSES_IGNORE));
    }
    for (int j = 0; j < 16; j++) MPI_Request_free(some + j);
    MPI_Comm ring;
    PMPI_Cart_create(MPI_COMM_WORLD, 1, &size, &round, 0, &ring);
    MPI_Win window;
    PMPI_Win_create(got, sizeof got, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    PMPI_Win_lock_all(0, window);
    for (int i = 0; i < n; i++) {
        TIMED(INEIGHBOR, MPI_Ineighbor_alltoall(sent, 8, MPI_BYTE, got + 4096, 8, MPI_BYTE, ring, some));
        TIMED(WAIT, MPI_Wait(some, MPI_STATUS_IGNORE));
        for (int j = 0; j < 5; j++)
            TIMED(RPUT, MPI_Rput(sent, 64, MPI_BYTE, right, 8192 + 64 * j, 64, MPI_BYTE, window, some + j));
        TIMED(WAITALL, MPI_Waitall(5, some, MPI_STATUSES_IGNORE));
    }
    PMPI_Win_unlock_all(window);
    PMPI_Win_free(&window);
    PMPI_Comm_free(&ring);
}
static void sizes(int n) { /* waits for many short messages, and for a few long ones among them */
    for (int i = 0; i < n; i++) {
        MPI_Request pair[2];
        int bytes = i % 200 == 199 ? sizeof sent : 8;
        TIMED(IRECV, MPI_Irecv(got, bytes, MPI_BYTE, (rank + size - 1) % size, 0, MPI_COMM_WORLD, pair));
        TIMED(ISEND, MPI_Isend(sent, bytes, MPI_BYTE, (rank + 1) % size, 0, MPI_COMM_WORLD, pair + 1));
        TIMED(WAITALL, MPI_Waitall(2, pair, MPI_STATUSES_IGNORE));
    }
}
static void tight(int n) { /* as fast as it can, with a long call now and then */
    for (int i = 0; i < n; i++) {
        if (rank == size - 1 && i % 20011 == 20010) compute(0.02);
        MPI_Allreduce(sent, got, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
}
static void apart(int n) { /* short calls, and every 500 of them the program does something else */
    for (int i = 0; i < n; i++) {
        if (i % 500 == 499) compute(0.0005);
        MPI_Allreduce(sent, got, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
}

int main(int argc, char **argv) {
    int provided, n = atoi(argv[3]);
    const char *what = argv[2];
    MPI_Init_thread(&argc, &argv, strcmp(what, "threads") ? MPI_THREAD_SINGLE : MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    own = 1;
    for (int i = 0; i < 1000; i++) { /* of its own clock */
        double begin = now(), took = now() - begin;
        if (took < own) own = took;
    }
    PMPI_Barrier(MPI_COMM_WORLD);
    double begin = now();
    if (!strcmp(what, "rare")) rare(n);
    if (!strcmp(what, "skew")) skew(n);
    if (!strcmp(what, "periodic")) periodic(n);
    if (!strcmp(what, "wandering")) wandering(n);
    if (!strcmp(what, "halo")) halo(n);
    if (!strcmp(what, "rma")) rma(n);
    if (!strcmp(what, "io")) io(n, argv[4]);
    if (!strcmp(what, "threads")) threads(n);
    if (!strcmp(what, "communicators")) communicators(n);
    if (!strcmp(what, "requests")) requests(n);
    if (!strcmp(what, "sizes")) sizes(n);
    if (!strcmp(what, "eager")) eager(n);
    if (!strcmp(what, "completions")) completions(n);
    if (!strcmp(what, "started")) started(n);
    if (!strcmp(what, "tight")) tight(n);
    if (!strcmp(what, "apart")) apart(n);
    if (!strcmp(what, "tight") || !strcmp(what, "apart"))
        seconds[ALLREDUCE] = now() - begin, calls[ALLREDUCE] = n; /* loops and all */
    double sums[2][OPERATIONS];
    PMPI_Reduce(seconds, sums[0], OPERATIONS, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    PMPI_Reduce(calls, sums[1], OPERATIONS, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        FILE *out = fopen(argv[1], "w");
        const char *between = "{";
        for (int i = 0; i < OPERATIONS; i++)
            if (sums[1][i] > 0) {
                fprintf(out, "%s\"%s\": [%.0f, %.9g]", between, NAMES[i], sums[1][i], sums[0][i] / size);
                between = ", ";
            }
        fprintf(out, "}\n");
        fclose(out);
    }
    MPI_Finalize();
    return 0;
}
