/* What each rank's file holds, in this order; importers/rank_files.py reads it by the same names. */

#define CELLS 1024
#define STREAMS 256
#define RUNS 32 /* at least one for each collective */
#define KEPT 512 /* entry times of one stream */

enum kind { BLOCKING, NONBLOCKING, PERSISTENT, KINDS };

struct head {
    char magic[8];
    int32_t rank, size, ended, threads, kept_out, nodes; /* ended: 0 killed, 1 finalized, 2 aborted */
    int64_t job, cells, streams;
    double begin_s, end_s, ahead_s, ahead_end_s, unsure_s; /* ahead: of the clock of rank 0 */
    double clock_s; /* of reading the clock, taken off each time */
    char host[64], library[128];
};
struct cell {
    char name[24];
    int32_t kind, bin, ranks, nodes;
    int64_t calls, timed;
    double bytes, weight, weighted_s, wait_s; /* wait_s: in MPI_Wait and its kin */
    double spread[3]; /* sums of w (w - 1) s^i, w: weight, s: seconds of a timed call, i: 0, 1, 2 */
};
struct stream {
    char name[24];
    uint64_t members; /* a hash of the world ranks of the communicator */
    int32_t bin, ranks, n, spare;
    int64_t calls;
    uint64_t limit;
};
struct sample {
    int64_t call;
    double begin_s, end_s;
    int32_t root, weight; /* world rank, -1: none; how many calls it was drawn of */
};
struct run { /* calls alike that are not in their cell and stream yet */
    int64_t calls;
    double bytes; /* of each */
    int32_t cell, stream; /* numbers; -1: none */
};
struct file {
    struct head head;
    struct run runs[RUNS];
    struct cell cells[CELLS];
    struct stream streams[STREAMS];
    struct sample samples[STREAMS][KEPT];
};
