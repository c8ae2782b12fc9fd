/* What each rank's file holds, in this order; importers/rank_file.py reads it by the same names.
 *
 * While the rank runs it has this size, but room on the disk only for what was used; MPI_Finalize leaves one
 * with nothing but that: head, environment, runs, cells, streams, each stream's samples and its longest calls. */

#define CELLS 1024
#define STREAMS 256
#define RUNS 32 /* at least one for each collective */
#define KEPT 512 /* entry times of one stream */
#define LONGEST 128 /* its longest calls */
#define CLASSES 64 /* of durations, two to a power of two, from 16 ns: the last begins at 46 s */
#define SLICES 64 /* of the timeline */
#define ENVIRONMENT 8192

enum kind { BLOCKING, NONBLOCKING, PERSISTENT, KINDS };
enum family { COLLECTIVE, POINT_TO_POINT, ONE_SIDED, FILES, COMPLETION, SETUP, FAMILIES };
enum distance { NOWHERE, SELF, SOCKET, NODE, NETWORK, DISTANCES };

struct head {
    char magic[8];
    int32_t rank, size, ended, threads, kept_out, nodes; /* ended: 0 killed, 1 finalized, 2 aborted, 3 exited */
    int32_t callers, spawned, compact, environment; /* threads that called; bytes of the environment */
    int64_t job, cells, streams;
    double begin_s, end_s, ahead_s, ahead_end_s, unsure_s; /* ahead: of the clock of rank 0 */
    double clock_s, tick_s; /* of reading the counter, taken off each time; of a tick, as found at the beginning */
    double wtime_s, wtick_s; /* what MPI_Wtime takes a call, the median of a few; its resolution */
    double squares; /* of the ticks that wrappers added to calls that were timed, their sum */
    int64_t begin, end; /* of the counter, at begin_s and end_s */
    int64_t shift; /* a slice has 2^shift ticks */
    char host[64], library[128];
    double timeline[FAMILIES][SLICES]; /* ticks */
};
struct cell {
    char name[24];
    int32_t kind, bin, ranks, family, distance, derived; /* calls whose datatype is none of MPI's own */
    int64_t calls, timed, all, ticks; /* all: calls of blocks that were timed wholly, and their ticks */
    int64_t counted, added; /* calls that did not only repeat the last; ticks of timed ones in their wrappers */
    double bytes, wait; /* ticks in MPI_Wait and its kin; of these: what went to requests */
    double weight, weighted, spread[3]; /* of those that were drawn: sums of w, w t, w (w - 1) t^i */
    double excess; /* ticks that blocks with drawn calls lasted longer than such blocks do */
    double longest; /* ticks */
    int64_t classes[CLASSES];
};
struct stream {
    char name[24];
    uint64_t members; /* a hash of the world ranks of the communicator */
    int32_t bin, ranks, n, longest; /* how many samples, and longest calls, there are */
    int64_t calls, cut; /* calls shorter than cut are not among the longest */
    uint64_t limit;
};
struct sample {
    int64_t call, begin, end;
    int32_t root, weight; /* world rank, -1: none; how many calls it was drawn of */
    int64_t outside; /* ticks outside of MPI since the rank's last collective ended; -1: not known */
};
struct run { /* calls alike that are not in their cell and stream yet */
    int64_t calls;
    double bytes; /* of each */
    int32_t cell, stream; /* numbers; -1: none */
};
struct file {
    struct head head;
    char environment[ENVIRONMENT];
    struct run runs[RUNS];
    struct cell cells[CELLS];
    struct stream streams[STREAMS];
    struct sample samples[STREAMS][KEPT + LONGEST];
};
