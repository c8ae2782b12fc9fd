/* Records the MPI calls of an application: preloaded between it and its MPI (see application/rank_files.py).
 *
 * Every rank keeps its counts in a file of its own, mapped into memory. So counts persist however the rank ends, by
 * MPI_Finalize, MPI_Abort or a signal, and ranks exchange nothing for them. Disk space is reserved at the start, and
 * where any rank finds none, no rank is recorded: a recording never harms the program.
 *
 * - A cell is (collective, blocking or not, log2 of the message size, communicator size); its number of calls is
 *   exact.
 * - Calls that are identical to the last one of their collective only add one to a run of such calls, which is in the
 *   file and is added to its cell when another call comes, or one that is timed.
 * - The first calls of a stream are all timed. Later calls form blocks of up to 1024. In a block one call is timed,
 *   drawn by a hash and weighted by the block's length (Horvitz, Thompson 1952); if calls are long on average, all
 *   calls of the block are timed. Which of the two applies is decided when the block begins, so that the sums are
 *   unbiased.
 * - Draws and blocks are the same on all ranks. So all ranks keep the entry times of the same calls, which show how
 *   long each rank waited for the last rank. A full list of times is thinned to a half.
 *
 * The library is linked to no MPI: functions are looked up in the MPI that the process has loaded, even if only a
 * Python module has loaded it. To compile the library, the header of an MPI with the same binary interface is needed.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
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

#include "file.h"
#include "table.h"
#include "others.h"
#include "library.h"
#include "state.h"
#include "ends.h"
#include "counting.h"
#include "requests.h"
#include "elsewhere.h"

/* The calls: first of C, with counts of both widths, then of Fortran, in both of its bindings. */

static __thread MPI_Datatype last_type;
static __thread int last_width;

static double asked_width(MPI_Datatype type) {
    int size = 0, a, b, c, combiner;
    inside++;
    REAL(Type_size)(type, &size);
    REAL(Type_get_envelope)(type, &a, &b, &c, &combiner);
    inside--;
    if (combiner == MPI_COMBINER_NAMED) last_type = type, last_width = size;
    else named = 0;
    return size;
}

static inline double width(MPI_Datatype type) {
    return last_width && type == last_type ? last_width : asked_width(type);
}

/* Return the number of blocks that a rank receives from neighbours. */
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

/* Common part of all wrappers of collectives: it decides whether a call is counted, as what, and in which place. */
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

/* Common part of all other wrappers. */
#define FAR(c, peer) far_off(COMM_OF(VAL(c)), VAL(peer))
static inline int far_off(MPI_Comm handle, int peer) {
    struct comm *k = known(handle);
    return k && k->far && peer >= 0 && peer < k->peers ? k->far[peer] : NOWHERE;
}
#define SEEN(name, bytes, whom)                                                                               \
    named = 1;                                                                                                \
    double b_ = (bytes);                                                                                      \
    int far_ = (whom);                                                                                        \
    struct call v_ = noticed(OTHER_##name, far_, b_);

#include "parameters.h"
#define WIDTH(t) width(TYPE(VAL(t)))
#define SIZE(n, t) ((double)VAL(n) * WIDTH(t))
/* key of the communicator in this binding, so that the function is known */
#define OURS(c) (KEY(c) ^ (int64_t)sizeof TEXT(NAMED()) << 40)

/* Bindings of C. */
#define BY
#define N int
#define D int
#define W int
#define I int
#define T MPI_Datatype
#define O MPI_Op
#define H MPI_Comm
#define G MPI_Group
#define MW MPI_Win
#define F_ MPI_File
#define J MPI_Info
#define S MPI_Status
#define M MPI_Message
#define TYPE(x) (x)
#define COMM_OF(x) (x)

#define C_FUNCTION(name, P, ...)                                                                              \
    int name P {                                                                                              \
        static int(*real) P;                                                                                  \
        int64_t entered_ MAYBE = real ? 0 : ticks();                                                          \
        if (!real) real = following(TEXT(name), "P" TEXT(name));                                                             \
        __VA_ARGS__                                                                                           \
    }
#define C_CALLS(name, Name, P, A, bytes, root, ...)                                                           \
    static int(*NAMED(real_##name)) P;                                                                        \
    static AWAY int NAMED(counted_##name) P {                                                                 \
        int64_t entered_ = ticks();                                                                           \
        int(*real) P = NAMED(real_##name), code;                                                              \
        if (!real) real = NAMED(real_##name) = following(TEXT(NAMED(MPI_##Name)), "P" TEXT(NAMED(MPI_##Name)));\
        if (!usable()) return real A;                                                                         \
        COUNTED(OP_##name, BLOCKING, bytes, root, __VA_ARGS__)                                                \
        TIMED(code, real A, v_);                                                                              \
        LEFT                                                                                                  \
        return code;                                                                                          \
    }                                                                                                         \
    int NAMED(MPI_##Name) P {                                                                                 \
        return REPEATED(OP_##name, __VA_ARGS__) ? NAMED(real_##name) A : NAMED(counted_##name) A;             \
    }                                                                                                         \
    C_FUNCTION(NAMED(MPI_I##name), (OPEN P, MPI_Request * q),                                                 \
               ENTERED if (!usable()) return real(OPEN A, q); int code;                                       \
               COUNTED(OP_##name, NONBLOCKING, bytes, root, __VA_ARGS__) TIMED(code, real(OPEN A, q), v_);    \
               if (code == MPI_SUCCESS) expect(*q, p_, b_, 0); LEFT return code;)                               \
    STANDARD(MPI_, name, Name, P, A, bytes, root, __VA_ARGS__)                                                \
    EXTENSION(MPIX_, name, Name, P, A, bytes, root, __VA_ARGS__)
#define C_PERSISTENT(prefix, name, Name, P, A, bytes, root, ...)                                              \
    C_FUNCTION(NAMED(prefix##Name##_init), (OPEN P, MPI_Info j, MPI_Request * q),                             \
               if (!usable()) return real(OPEN A, j, q);                                                      \
               COUNTED(OP_##name, PERSISTENT, bytes, root, __VA_ARGS__) inside++;                             \
               int code = real(OPEN A, j, q); inside--;                                                       \
               if (code == MPI_SUCCESS) expect(*q, p_, b_, 1); return code;)

/* Functions that the MPI lacks must not exist here either, since mpi4py looks for them; recorder's caller defines
 * which. */
#ifdef AUTOTUNE_NO_PERSISTENT
#define STANDARD(...)
#else
#define STANDARD C_PERSISTENT
#endif
#define NAMED(x) x
#define EXTENSION C_PERSISTENT /* extension of Open MPI 4.1 */
EACH(C_CALLS)
#define C_OTHER(family, name, Name, P, A, bytes, far)                                                         \
    C_FUNCTION(NAMED(MPI_##Name), P, ENTERED if (!usable()) return real A; SEEN(name, bytes, far) int code;   \
               TIMED(code, real A, v_); LEFT return code;)
#define C_BEGUN(family, name, Name, P, A, bytes, far)                                                         \
    C_FUNCTION(NAMED(MPI_##Name), (OPEN P, MPI_Request * h), ENTERED if (!usable()) return real(OPEN A, h);   \
               SEEN(name, bytes, far) int code; TIMED(code, real(OPEN A, h), v_);                             \
               if (code == MPI_SUCCESS) expect(*h, place_for(OTHER_##name, far_, b_), b_, 0); LEFT return code;)
#define C_STARTED(family, name, Name, P, A, bytes, whom)                                                      \
    C_FUNCTION(NAMED(MPI_##Name), (OPEN P, MPI_Request * h), if (!usable()) return real(OPEN A, h);           \
               named = 1; double b_ = bytes; int far_ = whom; inside++; int code = real(OPEN A, h); inside--;  \
               if (code == MPI_SUCCESS) expect(*h, place_for(OTHER_##name, far_, b_), b_, 1); return code;)
EACH_SIZED(C_OTHER)
EACH_BEGUN(C_BEGUN)
EACH_STARTED(C_STARTED)
EACH_PLAIN(C_OTHER)
EACH_NAMED(C_OTHER)
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
EACH_SIZED(C_OTHER)
EACH_BEGUN(C_BEGUN)
EACH_STARTED(C_STARTED)
#undef N
#undef D
#undef W
#endif

#include "init.h"

int MPI_Finalize(void) {
    ended(1);
    return NEXT(Finalize)();
}
int MPI_Abort(MPI_Comm c, int code) {
    ended(2);
    return NEXT(Abort)(c, code);
}

/* the following functions take most of the compilation, and each adds little to a call of C */
#pragma GCC optimize("O1")

/* Bindings of Fortran: all arguments by address, the error code last. Some libraries call C's MPI_ functions in them.
 */
#undef BY
#undef I
#undef T
#undef O
#undef H
#undef G
#undef MW
#undef F_
#undef J
#undef S
#undef M
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
#define G MPI_Fint
#define MW MPI_Fint
#define F_ MPI_Fint
#define J MPI_Fint
#define S MPI_Fint
#define M MPI_Fint
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
        int64_t entered_ MAYBE = real ? 0 : ticks();                                                          \
        if (!real) real = following(TEXT(name), "p" TEXT(name));                                                             \
        __VA_ARGS__                                                                                           \
    }
#define F_CALLS(name, Name, P, A, bytes, root, ...)                                                           \
    F_FUNCTION(NAMED(mpi_##name), (OPEN P, MPI_Fint * e),                                                     \
               if (REPEATED(OP_##name, __VA_ARGS__) || !usable()) { F_WITHIN(real(OPEN A, e)) return; }       \
               ENTERED int code; COUNTED(OP_##name, BLOCKING, bytes, root, __VA_ARGS__)                               \
               TIMED(code, (real(OPEN A, e), 0), v_); LEFT (void)code;)                                            \
    F_FUNCTION(NAMED(mpi_i##name), (OPEN P, MPI_Fint * q, MPI_Fint * e),                                      \
               ENTERED if (!usable()) { real(OPEN A, q, e); return; }                                         \
               MPI_Fint error = MPI_SUCCESS, *told = e ? e : &error; int code;                                \
               COUNTED(OP_##name, NONBLOCKING, bytes, root, __VA_ARGS__)                                      \
               TIMED(code, (real(OPEN A, q, told), *told), v_);                                               \
               if (code == MPI_SUCCESS) expect(REQUEST(*q), p_, b_, 0); LEFT)                                   \
    F_PERSISTENT(NAMED(mpi_##name##_init), name, P, A, bytes, root, __VA_ARGS__)                              \
    F_PERSISTENT(NAMED(mpix_##name##_init), name, P, A, bytes, root, __VA_ARGS__)
#define F_PERSISTENT(symbol, name, P, A, bytes, root, ...)                                                    \
    F_FUNCTION(symbol, (OPEN P, MPI_Fint * j, MPI_Fint * q, MPI_Fint * e),                                    \
               if (!usable()) { real(OPEN A, j, q, e); return; }                                              \
               MPI_Fint error = MPI_SUCCESS, *told = e ? e : &error;                                          \
               COUNTED(OP_##name, PERSISTENT, bytes, root, __VA_ARGS__)                                       \
               F_WITHIN(real(OPEN A, j, q, told))                                                             \
               if (*told == MPI_SUCCESS) expect(REQUEST(*q), p_, b_, 1);)
#define F_WITHIN(call)                                                                                        \
    inside++;                                                                                                 \
    call;                                                                                                     \
    inside--;
#define F_OTHER(family, name, Name, P, A, bytes, far)                                                         \
    F_FUNCTION(NAMED(mpi_##name), (OPEN P, MPI_Fint * e), ENTERED if (!usable()) { real(OPEN A, e); return; } \
               SEEN(name, bytes, far) int code; TIMED(code, (real(OPEN A, e), 0), v_); LEFT (void)code;)
#define F_BEGUN(family, name, Name, P, A, bytes, far)                                                         \
    F_FUNCTION(NAMED(mpi_##name), (OPEN P, MPI_Fint * h, MPI_Fint * e),                                       \
               ENTERED if (!usable()) { real(OPEN A, h, e); return; }                                         \
               MPI_Fint error = MPI_SUCCESS, *told = e ? e : &error; int code;                                \
               SEEN(name, bytes, far) TIMED(code, (real(OPEN A, h, told), *told), v_);                        \
               if (code == MPI_SUCCESS) expect(REQUEST(*h), place_for(OTHER_##name, far_, b_), b_, 0); LEFT)
#define F_STARTED(family, name, Name, P, A, bytes, whom)                                                      \
    F_FUNCTION(NAMED(mpi_##name), (OPEN P, MPI_Fint * h, MPI_Fint * e),                                       \
               if (!usable()) { real(OPEN A, h, e); return; }                                                 \
               MPI_Fint error = MPI_SUCCESS, *told = e ? e : &error;                                          \
               named = 1; double b_ = bytes; int far_ = whom; F_WITHIN(real(OPEN A, h, told))                  \
               if (*told == MPI_SUCCESS) expect(REQUEST(*h), place_for(OTHER_##name, far_, b_), b_, 1);)
#define F_TEXT(family, name, Name, P, A, bytes, far)                                                          \
    F_FUNCTION(NAMED(mpi_##name), (OPEN P, MPI_Fint * e, size_t length),                                      \
               ENTERED if (!usable()) { real(OPEN A, e, length); return; }                                    \
               SEEN(name, bytes, far) int code; TIMED(code, (real(OPEN A, e, length), 0), v_); LEFT (void)code;)
#define EACH_FORTRAN                                                                                          \
    EACH_NAMED(F_TEXT) EACH(F_CALLS) EACH_SIZED(F_OTHER) EACH_BEGUN(F_BEGUN) EACH_STARTED(F_STARTED) EACH_PLAIN(F_OTHER)
#undef NAMED
#define NAMED(x) x##_
EACH_FORTRAN
#undef NAMED
#define NAMED(x) x##_f08_
EACH_FORTRAN

/* Functions that complete and start requests, and begin and end MPI, have the same names in both bindings. */
#define F_NAMED(name, P, ...) F_FUNCTION(mpi_##name##_, P, __VA_ARGS__) F_FUNCTION(mpi_##name##_f08_, P, __VA_ARGS__)
#define F MPI_Fint *
/* A wait for Fortran's list of requests, with the handles before and after the wait; nothing is returned. */
#define F_WAITING(name, n, list, P, A)                                                                        \
    static int name##_waited_(void(*real) P, OPEN P) {                                                        \
        WAITING(name, n, REQUEST(list[i]), REQUEST(list[i]), (real A, 0));                                        \
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

static void F_started(int n, MPI_Fint *r, int64_t entered, int64_t begin, int64_t end) {
    MPI_Request *list = n_pending && n > 0 && usable() ? malloc(n * sizeof *list) : NULL;
    for (int i = 0; list && i < n; i++) list[i] = REQUEST(r[i]);
    if (list) started(n, list, entered, begin, end);
    free(list);
}
#define F_STARTING(n, call)                                                                                   \
    ENTERED                                                                                                   \
    int64_t began = ticks();                                                                                  \
    F_WITHIN(call)                                                                                            \
    F_started(n, r, entered_, began, ticks());
F_NAMED(start, (F r, F e), F_STARTING(1, real(r, e)))
F_NAMED(startall, (F m, F r, F e), F_STARTING(*m, real(m, r, e)))
F_NAMED(request_free, (F r, F e), if (n_pending && usable()) drop(REQUEST(*r)); real(r, e);)
F_NAMED(init, (F e), check_mpi(); F_WITHIN(real(e)) begun();)
F_NAMED(init_thread, (F a, F b, F e), check_mpi(); F_WITHIN(real(a, b, e)) begun();)
F_NAMED(finalize, (F e), ended(1); real(e);)
F_NAMED(abort, (F c, F n, F e), ended(2); real(c, n, e);)
