/* Communication by other means than MPI calls. It is not recorded but noted, so that nobody takes the recording for
 * complete. */

struct nccl_id {
    char internal[128];
};
#define NOTED(name, word, P, A)                                                                               \
    int name P {                                                                                              \
        static int(*real) P;                                                                                  \
        if (!real) real = needed(#name), note(word);                                                          \
        return real A;                                                                                        \
    }
NOTED(ncclCommInitRank, "NCCL", (void **c, int n, struct nccl_id id, int rank), (c, n, id, rank))
NOTED(ncclCommInitRankConfig, "NCCL", (void **c, int n, struct nccl_id id, int rank, void *g), (c, n, id, rank, g))
NOTED(ncclCommInitAll, "NCCL", (void **c, int n, const int *devices), (c, n, devices))

/* Libraries that are linked statically are detected by the names of their threads: pt_gloo_runloop of PyTorch, and
 * NCCL's names. */
int pthread_setname_np(pthread_t thread, const char *name) {
    static int (*real)(pthread_t, const char *), gloo, nccl;
    if (!real) real = needed("pthread_setname_np");
    if (strcasestr(name, "gloo") && !gloo++) note("gloo");
    if (strcasestr(name, "nccl") && !nccl++) note("NCCL");
    return real(thread, name);
}
#ifndef AUTOTUNE_NO_PERSISTENT /* persistent collectives and sessions came together, with MPI 4 */
NOTED(MPI_Session_init, "MPI sessions", (MPI_Info i, MPI_Errhandler h, MPI_Session *s), (i, h, s))
#endif
