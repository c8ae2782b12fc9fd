/* The collectives: their parameters, and their message sizes. */

/* X(name, MPI's name, parameters, arguments, message size, root, alike): NUM a count, NUMS several, AT displacements.
 * Alike: calls of one communicator with equal values of these have the same size. */
#define SENT CVOID(s), NUM(n), DT(t)
#define GOT VOID(r), NUM(m), DT(u)
#define SENTS CVOID(s), NUMS(n), AT(d), DT(t)
#define GOTS(at) VOID(r), NUMS(m), AT(at), DT(u)
#define REDUCED CVOID(s), VOID(r), NUM(n), DT(t), OP(o)
#define EACH(X)                                                                                               \
    X(barrier, Barrier, (COMM(c)), (c), 0, NONE, ALL_ALIKE)                                                           \
    X(bcast, Bcast, (VOID(b), NUM(n), DT(t), INT(root), COMM(c)), (b, n, t, root, c), SIZE(n, t), VAL(root), ALIKE(n, t)) \
    X(gather, Gather, (SENT, GOT, INT(root), COMM(c)), (s, n, t, r, m, u, root, c),                           \
      IS_ROOT(root) ? SIZE(m, u) : SIZE(n, t), VAL(root), UNALIKE)                                                  \
    X(gatherv, Gatherv, (SENT, GOTS(d), INT(root), COMM(c)), (s, n, t, r, m, d, u, root, c),                  \
      IS_ROOT(root) ? MEAN(m, k->peers) * WIDTH(u) : SIZE(n, t), VAL(root), UNALIKE)                                \
    X(scatter, Scatter, (SENT, GOT, INT(root), COMM(c)), (s, n, t, r, m, u, root, c),                         \
      IS_ROOT(root) ? SIZE(n, t) : SIZE(m, u), VAL(root), UNALIKE)                                                  \
    X(scatterv, Scatterv, (SENTS, GOT, INT(root), COMM(c)), (s, n, d, t, r, m, u, root, c),                   \
      IS_ROOT(root) ? MEAN(n, k->peers) * WIDTH(t) : SIZE(m, u), VAL(root), UNALIKE)                                \
    X(allgather, Allgather, (SENT, GOT, COMM(c)), (s, n, t, r, m, u, c), SIZE(m, u), NONE, ALIKE(m, u))       \
    X(allgatherv, Allgatherv, (SENT, GOTS(d), COMM(c)), (s, n, t, r, m, d, u, c),                             \
      MEAN(m, k->peers) * WIDTH(u), NONE, UNALIKE)                                                                  \
    X(alltoall, Alltoall, (SENT, GOT, COMM(c)), (s, n, t, r, m, u, c), SIZE(m, u), NONE, ALIKE(m, u))         \
    X(alltoallv, Alltoallv, (SENTS, GOTS(g), COMM(c)), (s, n, d, t, r, m, g, u, c),                           \
      MEAN(m, k->peers) * WIDTH(u), NONE, UNALIKE)                                                                  \
    X(alltoallw, Alltoallw, (CVOID(s), NUMS(n), ATW(d), DTS(t), VOID(r), NUMS(m), ATW(g), DTS(u), COMM(c)),   \
      (s, n, d, t, r, m, g, u, c), MEAN_OF(m, u, k->peers), NONE, UNALIKE)                                          \
    X(reduce, Reduce, (REDUCED, INT(root), COMM(c)), (s, r, n, t, o, root, c), SIZE(n, t), VAL(root), ALIKE(n, t)) \
    X(allreduce, Allreduce, (REDUCED, COMM(c)), (s, r, n, t, o, c), SIZE(n, t), NONE, ALIKE(n, t))            \
    X(reduce_scatter, Reduce_scatter, (CVOID(s), VOID(r), NUMS(m), DT(t), OP(o), COMM(c)),                    \
      (s, r, m, t, o, c), MEAN(m, k->ranks) * WIDTH(t), NONE, UNALIKE)                                              \
    X(reduce_scatter_block, Reduce_scatter_block, (REDUCED, COMM(c)), (s, r, n, t, o, c), SIZE(n, t),         \
      NONE, ALIKE(n, t))                                                                                      \
    X(scan, Scan, (REDUCED, COMM(c)), (s, r, n, t, o, c), SIZE(n, t), NONE, ALIKE(n, t))                      \
    X(exscan, Exscan, (REDUCED, COMM(c)), (s, r, n, t, o, c), SIZE(n, t), NONE, ALIKE(n, t))                  \
    X(neighbor_allgather, Neighbor_allgather, (SENT, GOT, COMM(c)), (s, n, t, r, m, u, c), SIZE(m, u),        \
      NONE, ALIKE(m, u))                                                                                      \
    X(neighbor_allgatherv, Neighbor_allgatherv, (SENT, GOTS(d), COMM(c)), (s, n, t, r, m, d, u, c),           \
      SIZE(n, t), NONE, ALIKE(n, t))                                                                          \
    X(neighbor_alltoall, Neighbor_alltoall, (SENT, GOT, COMM(c)), (s, n, t, r, m, u, c), SIZE(m, u),          \
      NONE, ALIKE(m, u))                                                                                      \
    X(neighbor_alltoallv, Neighbor_alltoallv, (SENTS, GOTS(g), COMM(c)), (s, n, d, t, r, m, g, u, c),         \
      MEAN(m, neighbours(k)) * WIDTH(u), NONE, UNALIKE)                                                             \
    X(neighbor_alltoallw, Neighbor_alltoallw,                                                                 \
      (CVOID(s), NUMS(n), ATN(d), DTS(t), VOID(r), NUMS(m), ATN(g), DTS(u), COMM(c)),                         \
      (s, n, d, t, r, m, g, u, c), MEAN_OF(m, u, neighbours(k)), NONE, UNALIKE)

#define NONE (-1)
#define AWAY __attribute__((noinline)) /* so that a repeated call saves no registers */
#define MAYBE __attribute__((unused))
enum op {
#define X(name, ...) OP_##name,
    EACH(X)
#undef X
    OPS
};
static const char *const NAMES[OPS] = {
#define X(name, ...) #name,
    EACH(X)
#undef X
};
