/* Calls that are no collectives: their parameters, message sizes and distances. */

/* X(family, name, MPI's name, parameters, arguments, message size, distance); see table.h. Functions with a size exist
 * for both widths of counts. Peers and sizes of receives are the largest that the call allows. */
#define APPLY(X, ...) X(__VA_ARGS__) /* with macros that expand to several arguments */
#define SENDS CVOID(s), NUM(n), DT(t), INT(peer), INT(tag), COMM(c)
#define RECEIVES VOID(s), NUM(n), DT(t), INT(peer), INT(tag), COMM(c)
#define TO (s, n, t, peer, tag, c), SIZE(n, t), FAR(c, peer)
#define MOVES(x) x(s), NUM(n), DT(t), INT(peer), AINT(d), NUM(m), DT(u), WIN(w)
#define ONE_SIDED_SIZE SIZE(n, t), NOWHERE
#define READS FH(f), VOID(s), NUM(n), DT(t), STATUS(q)
#define WRITES FH(f), CVOID(s), NUM(n), DT(t), STATUS(q)
#define READS_AT FH(f), OFF(o), VOID(s), NUM(n), DT(t), STATUS(q)
#define WRITES_AT FH(f), OFF(o), CVOID(s), NUM(n), DT(t), STATUS(q)
#define FILE_SIZE(...) (__VA_ARGS__), SIZE(n, t), NOWHERE
#define IO(X, name, P) APPLY(X, FILES, file_##name, File_##name, (P), FILE_SIZE(f, s, n, t, q))
#define IO_AT(X, name, P) APPLY(X, FILES, file_##name, File_##name, (P), FILE_SIZE(f, o, s, n, t, q))
#define EACH_SIZED(X)                                                                                         \
    APPLY(X, POINT_TO_POINT, send, Send, (SENDS), TO)                                                         \
    APPLY(X, POINT_TO_POINT, bsend, Bsend, (SENDS), TO)                                                       \
    APPLY(X, POINT_TO_POINT, ssend, Ssend, (SENDS), TO)                                                       \
    APPLY(X, POINT_TO_POINT, rsend, Rsend, (SENDS), TO)                                                       \
    APPLY(X, POINT_TO_POINT, recv, Recv, (RECEIVES, STATUS(q)), (s, n, t, peer, tag, c, q), SIZE(n, t), FAR(c, peer))\
    APPLY(X, POINT_TO_POINT, mrecv, Mrecv, (VOID(s), NUM(n), DT(t), MESSAGES(g), STATUS(q)), (s, n, t, g, q), \
      SIZE(n, t), NOWHERE)                                                                                    \
    APPLY(X, POINT_TO_POINT, sendrecv, Sendrecv,                                                              \
      (CVOID(s), NUM(n), DT(t), INT(peer), INT(tag), VOID(r), NUM(m), DT(u), INT(from), INT(other), COMM(c),  \
       STATUS(q)), (s, n, t, peer, tag, r, m, u, from, other, c, q), SIZE(n, t), FAR(c, peer))                \
    APPLY(X, POINT_TO_POINT, sendrecv_replace, Sendrecv_replace,                                              \
      (VOID(s), NUM(n), DT(t), INT(peer), INT(tag), INT(from), INT(other), COMM(c), STATUS(q)),               \
      (s, n, t, peer, tag, from, other, c, q), SIZE(n, t), FAR(c, peer))                                      \
    APPLY(X, ONE_SIDED, put, Put, (MOVES(CVOID)), (s, n, t, peer, d, m, u, w), ONE_SIDED_SIZE)                \
    APPLY(X, ONE_SIDED, get, Get, (MOVES(VOID)), (s, n, t, peer, d, m, u, w), ONE_SIDED_SIZE)                 \
    APPLY(X, ONE_SIDED, accumulate, Accumulate,                                                               \
      (CVOID(s), NUM(n), DT(t), INT(peer), AINT(d), NUM(m), DT(u), OP(o), WIN(w)),                            \
      (s, n, t, peer, d, m, u, o, w), ONE_SIDED_SIZE)                                                         \
    APPLY(X, ONE_SIDED, get_accumulate, Get_accumulate,                                                       \
      (CVOID(s), NUM(n), DT(t), VOID(r), NUM(l), DT(v), INT(peer), AINT(d), NUM(m), DT(u), OP(o), WIN(w)),    \
      (s, n, t, r, l, v, peer, d, m, u, o, w), ONE_SIDED_SIZE)                                                \
    IO(X, read, READS) IO(X, read_all, READS) IO(X, read_shared, READS)                                       \
    IO(X, read_ordered, READS) IO(X, write, WRITES)                                                           \
    IO(X, write_all, WRITES) IO(X, write_shared, WRITES)                                                      \
    IO(X, write_ordered, WRITES) IO_AT(X, read_at, READS_AT)                                                  \
    IO_AT(X, read_at_all, READS_AT) IO_AT(X, write_at, WRITES_AT)                                             \
    IO_AT(X, write_at_all, WRITES_AT)

/* Functions that begin an operation; their last parameter is its request. */
#define EACH_BEGUN(X)                                                                                         \
    APPLY(X, POINT_TO_POINT, isend, Isend, (SENDS), TO)                                                       \
    APPLY(X, POINT_TO_POINT, ibsend, Ibsend, (SENDS), TO)                                                     \
    APPLY(X, POINT_TO_POINT, issend, Issend, (SENDS), TO)                                                     \
    APPLY(X, POINT_TO_POINT, irsend, Irsend, (SENDS), TO)                                                     \
    APPLY(X, POINT_TO_POINT, irecv, Irecv, (RECEIVES), TO)                                                    \
    APPLY(X, POINT_TO_POINT, imrecv, Imrecv, (VOID(s), NUM(n), DT(t), MESSAGES(g)), (s, n, t, g), SIZE(n, t), NOWHERE)\
    APPLY(X, ONE_SIDED, rput, Rput, (MOVES(CVOID)), (s, n, t, peer, d, m, u, w), ONE_SIDED_SIZE)              \
    APPLY(X, ONE_SIDED, rget, Rget, (MOVES(VOID)), (s, n, t, peer, d, m, u, w), ONE_SIDED_SIZE)               \
    APPLY(X, FILES, file_iread, File_iread, (FH(f), VOID(s), NUM(n), DT(t)), FILE_SIZE(f, s, n, t))           \
    APPLY(X, FILES, file_iwrite, File_iwrite, (FH(f), CVOID(s), NUM(n), DT(t)), FILE_SIZE(f, s, n, t))        \
    APPLY(X, FILES, file_iread_at, File_iread_at, (FH(f), OFF(o), VOID(s), NUM(n), DT(t)), FILE_SIZE(f, o, s, n, t))\
    APPLY(X, FILES, file_iwrite_at, File_iwrite_at, (FH(f), OFF(o), CVOID(s), NUM(n), DT(t)), FILE_SIZE(f, o, s, n, t))

/* Functions that create a request which is started later. */
#define EACH_STARTED(X)                                                                                       \
    APPLY(X, POINT_TO_POINT, send_init, Send_init, (SENDS), TO)                                               \
    APPLY(X, POINT_TO_POINT, bsend_init, Bsend_init, (SENDS), TO)                                             \
    APPLY(X, POINT_TO_POINT, ssend_init, Ssend_init, (SENDS), TO)                                             \
    APPLY(X, POINT_TO_POINT, rsend_init, Rsend_init, (SENDS), TO)                                             \
    APPLY(X, POINT_TO_POINT, recv_init, Recv_init, (RECEIVES), TO)

#define NO_SIZE 0, NOWHERE
#define WINDOW(X, name, P, A) APPLY(X, ONE_SIDED, win_##name, Win_##name, P, A, NO_SIZE)
#define EACH_PLAIN(X)                                                                                         \
    APPLY(X, POINT_TO_POINT, probe, Probe, (INT(peer), INT(tag), COMM(c), STATUS(q)), (peer, tag, c, q), 0, FAR(c, peer))\
    APPLY(X, POINT_TO_POINT, iprobe, Iprobe, (INT(peer), INT(tag), COMM(c), NUMBER(x), STATUS(q)),            \
      (peer, tag, c, x, q), 0, FAR(c, peer))                                                                  \
    APPLY(X, POINT_TO_POINT, mprobe, Mprobe, (INT(peer), INT(tag), COMM(c), MESSAGES(g), STATUS(q)),          \
      (peer, tag, c, g, q), 0, FAR(c, peer))                                                                  \
    APPLY(X, POINT_TO_POINT, improbe, Improbe, (INT(peer), INT(tag), COMM(c), NUMBER(x), MESSAGES(g), STATUS(q)),\
      (peer, tag, c, x, g, q), 0, FAR(c, peer))                                                               \
    APPLY(X, ONE_SIDED, fetch_and_op, Fetch_and_op, (CVOID(s), VOID(r), DT(t), INT(peer), AINT(d), OP(o), WIN(w)),\
      (s, r, t, peer, d, o, w), WIDTH(t), NOWHERE)                                                            \
    APPLY(X, ONE_SIDED, compare_and_swap, Compare_and_swap,                                                   \
      (CVOID(s), CVOID(k), VOID(r), DT(t), INT(peer), AINT(d), WIN(w)), (s, k, r, t, peer, d, w),             \
      WIDTH(t), NOWHERE)                                                                                      \
    WINDOW(X, fence, (INT(a), WIN(w)), (a, w))                                                                \
    WINDOW(X, start, (GROUP(g), INT(a), WIN(w)), (g, a, w))                                                   \
    WINDOW(X, complete, (WIN(w)), (w))                                                                        \
    WINDOW(X, post, (GROUP(g), INT(a), WIN(w)), (g, a, w))                                                    \
    WINDOW(X, wait, (WIN(w)), (w))                                                                            \
    WINDOW(X, test, (WIN(w), NUMBER(x)), (w, x))                                                              \
    WINDOW(X, lock, (INT(l), INT(peer), INT(a), WIN(w)), (l, peer, a, w))                                     \
    WINDOW(X, unlock, (INT(peer), WIN(w)), (peer, w))                                                         \
    WINDOW(X, lock_all, (INT(a), WIN(w)), (a, w))                                                             \
    WINDOW(X, unlock_all, (WIN(w)), (w))                                                                      \
    WINDOW(X, flush, (INT(peer), WIN(w)), (peer, w))                                                          \
    WINDOW(X, flush_all, (WIN(w)), (w))                                                                       \
    WINDOW(X, flush_local, (INT(peer), WIN(w)), (peer, w))                                                    \
    WINDOW(X, flush_local_all, (WIN(w)), (w))                                                                 \
    WINDOW(X, sync, (WIN(w)), (w))                                                                            \
    WINDOW(X, free, (WINS(w)), (w))                                                                           \
    APPLY(X, FILES, file_close, File_close, (FHS(f)), (f), NO_SIZE)                                           \
    APPLY(X, FILES, file_sync, File_sync, (FH(f)), (f), NO_SIZE)                                              \
    APPLY(X, FILES, file_set_size, File_set_size, (FH(f), OFF(o)), (f, o), NO_SIZE)                           \
    APPLY(X, SETUP, comm_dup, Comm_dup, (COMM(c), COMMS(x)), (c, x), NO_SIZE)                                 \
    APPLY(X, SETUP, comm_split, Comm_split, (COMM(c), INT(a), INT(k), COMMS(x)), (c, a, k, x), NO_SIZE)       \
    APPLY(X, SETUP, comm_create, Comm_create, (COMM(c), GROUP(g), COMMS(x)), (c, g, x), NO_SIZE)              \
    APPLY(X, SETUP, comm_free, Comm_free, (COMMS(x)), (x), NO_SIZE)

/* Functions with text parameters: in Fortran the lengths of the texts follow all parameters. */
#define EACH_NAMED(X)                                                                                         \
    APPLY(X, FILES, file_open, File_open, (COMM(c), const char *s, INT(a), INFO(i), FHS(f)), (c, s, a, i, f), NO_SIZE)\
    APPLY(X, FILES, file_set_view, File_set_view, (FH(f), OFF(o), DT(t), DT(u), const char *s, INFO(i)),       \
      (f, o, t, u, s, i), NO_SIZE)

#define EACH_COMPLETION(X)                                                                                    \
    X(COMPLETION, wait) X(COMPLETION, waitall) X(COMPLETION, waitany) X(COMPLETION, waitsome)                 \
    X(COMPLETION, test) X(COMPLETION, testall) X(COMPLETION, testany) X(COMPLETION, testsome)

#define EACH_OTHER(X)                                                                                         \
    EACH_SIZED(X) EACH_BEGUN(X) EACH_STARTED(X) EACH_PLAIN(X) EACH_NAMED(X) EACH_COMPLETION(X)
enum other {
#define X(family, name, ...) OTHER_##name,
    EACH_OTHER(X)
#undef X
    OTHERS
};
static const char *const OTHER_NAMES[OTHERS] = {
#define X(family, name, ...) #name,
    EACH_OTHER(X)
#undef X
};
static const char OTHER_FAMILIES[OTHERS] = {
#define X(family, name, ...) family,
    EACH_OTHER(X)
#undef X
};
