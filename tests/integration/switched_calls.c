/* Calls that an analyser of memory or threads looks at; ends with 1 where a result is wrong.
 *
 * Words: `plain N` makes N rounds on communicators of all kinds, some of which are freed while a cell of theirs
 * is tried or after it was decided; `short N` frees N communicators after 300 calls each; `idup N` has a
 * duplicate begun on one rank meanwhile and by the other only thereafter; `errors` fails; `multiple N` and
 * `serialized N` call from two threads on a communicator of each; `session N` calls on a session's; `revoke N` has
 * a communicator revoked after N rounds (-DREVOKE); `variable N` sets a control variable itself meanwhile; `many N`
 * calls on as many communicators as there are hidden ones at most, and says which number the next has; in `late N`
 * rank 1 comes 100 ms after the other.
 */
#include <mpi.h>
#ifdef REVOKE
#include <mpi-ext.h>
#endif
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rounds;
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static int in_turn;

static void check(int fine, const char *what) {
    if (fine) return;
    fprintf(stderr, "wrong: %s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void exchange(MPI_Comm comm, int n) {
    int rank, size, *mine = malloc(n * sizeof *mine), fine = 1;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    int *every = malloc(n * size * sizeof *every);
    for (int i = 0; i < n; i++) mine[i] = rank + i;
    MPI_Allreduce(MPI_IN_PLACE, mine, n, MPI_INT, MPI_SUM, comm);
    for (int i = 0; i < n; i++) fine &= mine[i] == size * (size - 1) / 2 + size * i;
    check(fine, "allreduce in place");
    for (int i = 0; i < n; i++) every[rank * n + i] = rank;
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, every, n, MPI_INT, comm);
    for (int i = 0; i < n * size; i++) fine &= every[i] == i / n;
    check(fine, "allgather in place");
    MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, every, n, MPI_INT, comm);
    for (int i = 0; i < n * size; i++) fine &= every[i] == rank;
    check(fine, "alltoall in place");
    for (int i = 0; i < n; i++) mine[i] = rank ? 0 : i;
    MPI_Bcast(mine, n, MPI_INT, 0, comm);
    for (int i = 0; i < n; i++) fine &= mine[i] == i, mine[i] = rank;
    check(fine, "bcast");
    if (!rank) MPI_Gather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, every, n, MPI_INT, 0, comm);
    else MPI_Gather(mine, n, MPI_INT, NULL, 0, MPI_DATATYPE_NULL, 0, comm);
    for (int i = n; !rank && i < n * size; i++) fine &= every[i] == i / n;
    check(fine, "gather in place");
    if (!rank) MPI_Scatter(every, n, MPI_INT, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, 0, comm);
    else MPI_Scatter(NULL, 0, MPI_DATATYPE_NULL, mine, n, MPI_INT, 0, comm);
    check(mine[n - 1] == rank, "scatter in place");
    MPI_Reduce(rank ? mine : MPI_IN_PLACE, rank ? NULL : mine, n, MPI_INT, MPI_MAX, 0, comm);
    check(rank || mine[n - 1] == size - 1, "reduce in place");
#ifdef LARGE
    MPI_Allreduce_c(MPI_IN_PLACE, mine, n, MPI_INT, MPI_MAX, comm);
    MPI_Bcast_c(mine, n, MPI_INT, 0, comm);
    check(mine[n - 1] == size - 1, "counts of MPI_Count");
#endif
    MPI_Barrier(comm);
    free(mine), free(every);
}

static int errors;
static MPI_Comm handled_by;
static void handled(MPI_Comm *comm, int *code, ...) {
    (void)code;
    handled_by = *comm, errors++;
}

static void *calls(void *comm) {
    for (int i = 0; i < rounds; i++) {
        if (in_turn) pthread_mutex_lock(&turn);
        exchange(*(MPI_Comm *)comm, 10);
        if (in_turn) pthread_mutex_unlock(&turn);
    }
    return NULL;
}

/* With MPI_THREAD_SERIALIZED both ranks must take turns alike: one thread after the other. */
static void *calls_of_two(void *comms) {
    pthread_t other;
    MPI_Comm *two = comms;
    if (!in_turn) {
        pthread_create(&other, NULL, calls, two + 1);
        calls(two);
        pthread_join(other, NULL);
        return NULL;
    }
    for (int i = 0, all = rounds; i < 10; i++) {
        rounds = all / 10;
        pthread_create(&other, NULL, calls, two + i % 2);
        pthread_join(other, NULL);
        calls(two + i % 2);
        rounds = all;
    }
    return NULL;
}

int main(int n, char **words) {
    const char *how = n > 1 ? words[1] : "plain";
    int provided, rank;
    rounds = n > 2 ? atoi(words[2]) : 100;
    in_turn = !strcmp(how, "serialized");
    int wanted = in_turn ? MPI_THREAD_SERIALIZED : !strcmp(how, "multiple") ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE;
    MPI_Init_thread(&n, &words, wanted, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm two[2];
    MPI_Comm_dup(MPI_COMM_WORLD, two);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, two + 1);
    if (wanted != MPI_THREAD_SINGLE) calls_of_two(two);
    else if (!strcmp(how, "plain")) {
        calls(two), calls(two + 1), exchange(MPI_COMM_WORLD, 5000);
        for (int i = 1; i < 6; i++) { /* freed in the middle of whatever is tried */
            MPI_Comm freed;
            MPI_Comm_dup(MPI_COMM_WORLD, &freed);
            for (int j = 0; j < rounds * i / 3; j++) MPI_Allreduce(MPI_IN_PLACE, &n, 1, MPI_INT, MPI_MAX, freed);
            MPI_Comm_free(&freed);
        }
    } else if (!strcmp(how, "short"))
        for (int i = 0; i < rounds; i++) {
            MPI_Comm freed;
            MPI_Comm_dup(MPI_COMM_WORLD, &freed);
            for (int j = 0; j < 300; j++) MPI_Bcast(&n, 1, MPI_INT, 0, freed);
            MPI_Comm_free(&freed);
        }
    else if (!strcmp(how, "idup"))
        for (int i = 0; i < rounds; i++) {
            MPI_Comm one, made;
            MPI_Request request;
            MPI_Comm_dup(MPI_COMM_WORLD, &one);
            if (!rank) MPI_Comm_idup(two[0], &made, &request);
            for (int j = 0; j < 400; j++) MPI_Bcast(&n, 1, MPI_INT, 0, one);
            if (rank) MPI_Comm_idup(two[0], &made, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            MPI_Comm_free(&made), MPI_Comm_free(&one);
        }
    else if (!strcmp(how, "many")) {
        MPI_Comm many[128], next;
        for (int i = 0; i < 128; i++) MPI_Comm_dup(MPI_COMM_WORLD, many + i);
        for (int j = 0; j < rounds; j++)
            for (int i = 0; i < 128; i++) MPI_Bcast(&n, 1, MPI_INT, 0, many[i]);
        MPI_Comm_dup(MPI_COMM_WORLD, &next);
        if (!rank) printf("next: %d\n", (int)MPI_Comm_c2f(next));
        MPI_Comm_free(&next);
        for (int i = 0; i < 128; i++) MPI_Comm_free(many + i);
    } else if (!strcmp(how, "late"))
        for (int i = 0; i < rounds; i++) {
            if (rank) usleep(100000);
            MPI_Allreduce(MPI_IN_PLACE, &n, 1, MPI_INT, MPI_MAX, two[0]);
        }
    else if (!strcmp(how, "errors")) { /* at the end of each kind of order an error has its communicator and class */
        MPI_Errhandler own;
        MPI_Comm_create_errhandler(handled, &own);
        MPI_Comm_set_errhandler(two[0], own);
        for (int i = 0; i < rounds; i++) {
            MPI_Bcast(&n, 1, MPI_INT, 0, two[0]);
            int class, code = i % 7 ? 0 : MPI_Bcast(&n, 1, MPI_INT, 99, two[0]);
            check(!code == !!(i % 7), "an error");
            if (code) MPI_Error_class(code, &class);
            check(!code || (class == MPI_ERR_ROOT && handled_by == two[0]), "class or communicator of an error");
        }
        check(errors == (rounds + 6) / 7, "errors that were handled once");
        MPI_Errhandler_free(&own);
    }
#ifdef REVOKE
    else if (!strcmp(how, "revoke")) {
        MPI_Comm freed;
        MPI_Comm_dup(MPI_COMM_WORLD, &freed);
        MPI_Comm_set_errhandler(freed, MPI_ERRORS_RETURN);
        calls(&freed);
        MPIX_Comm_revoke(freed);
        for (int i = 0; i < rounds; i++) {
            int class = 0, code = MPI_Bcast(&n, 1, MPI_INT, 0, freed);
            MPI_Error_class(code, &class);
            check(class == MPIX_ERR_REVOKED, "a revoked communicator");
        }
        MPI_Comm_free(&freed);
        calls(two);
    }
#endif
    else if (!strcmp(how, "variable")) {
        static const char *const names[] = {"coll_tuned_bcast_algorithm", "MPIR_CVAR_BCAST_INTRA_ALGORITHM"};
        int64_t own = 1, seen = 0;
        int index, count;
        MPI_T_cvar_handle handle;
        MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
        check(!MPI_T_cvar_get_index(names[0], &index) || !MPI_T_cvar_get_index(names[1], &index), "a variable");
        check(!MPI_T_cvar_handle_alloc(index, NULL, &handle, &count), "its handle");
        calls(two);
        check(!MPI_T_cvar_write(handle, &own), "its value");
        calls(two), calls(two + 1);
        check(!MPI_T_cvar_read(handle, &seen) && seen == own, "what the program itself set");
        MPI_T_finalize();
    }
#if MPI_VERSION > 3 || OMPI_MAJOR_VERSION > 4
    else {
        MPI_Session session;
        MPI_Group group;
        MPI_Comm own;
        MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
        MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
        MPI_Comm_create_from_group(group, "autotune", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &own);
        MPI_Group_free(&group);
        calls(&own);
        MPI_Comm_free(&own);
        MPI_Session_finalize(&session);
    }
#endif
    MPI_Comm_free(two), MPI_Comm_free(two + 1);
    MPI_Finalize();
    if (!rank) printf("all calls were right\n");
    return 0;
}
