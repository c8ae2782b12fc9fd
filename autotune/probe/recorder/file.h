/* Content of each rank's file, in this order; application/rank_file.py reads it by the same names.
 *
 * While the rank runs the file has this size, but disk space only for the used parts. MPI_Finalize leaves a file of
 * only the used parts: head, environment, runs, cells, streams, each stream's samples and its longest calls. */

#define CELLS 1024
#define STREAMS 256
#define RUNS 32 /* runs, at least one for each collective */
#define KEPT 512 /* samples of one stream */
#define LONGEST 128 /* longest calls of one stream */
#define CLASSES 64 /* classes of durations, two for each power of two, from 16 ns on: the last begins at 46 s */
#define SLICES 64 /* slices of the timeline */
#define ENVIRONMENT 8192

enum kind { BLOCKING, NONBLOCKING, PERSISTENT, KINDS };
enum family { COLLECTIVE, POINT_TO_POINT, ONE_SIDED, FILES, COMPLETION, SETUP, FAMILIES };
enum distance { NOWHERE, SELF, SOCKET, NODE, NETWORK, DISTANCES };

struct head {
    char magic[8];
    int32_t rank, size, ended, threads, kept_out, nodes; /* ended: 0 killed, 1 finalized, 2 aborted, 3 exited */
    int32_t callers, spawned, compact, environment; /* callers: threads that called; environment: its bytes */
    int64_t job, cells, streams;
    /* ahead: offset of this clock from that of rank 0, at the begin and the end; unsure: its bound */
    double begin_s, end_s, ahead_s, ahead_end_s, unsure_s;
    /* clock_s: one reading of the counter, subtracted from each time; tick_s: a tick, as measured at the beginning */
    double clock_s, tick_s;
    double wtime_s, wtick_s; /* wtime_s: median duration of a call of MPI_Wtime; wtick_s: its resolution */
    double squares; /* sum of the squared ticks that wrappers added to timed calls */
    int64_t begin, end; /* values of the counter at begin_s and end_s */
    int64_t shift; /* a slice has 2^shift ticks */
    char host[64], library[128];
    double timeline[FAMILIES][SLICES]; /* ticks */
};
struct cell {
    char name[24];
    int32_t kind, bin, ranks, family, distance, derived; /* derived: calls whose datatype is not predefined */
    int64_t calls, timed, all, ticks; /* all: calls of completely timed blocks, and their ticks */
    /* counted: calls that did not only repeat the last one; added: ticks of timed ones in their wrappers */
    int64_t counted, added;
    /* wait: ticks in MPI_Wait and similar calls; in cells of such calls: ticks attributed to requests */
    double bytes, wait;
    /* for randomly drawn calls of weight w and t ticks: sums of w, of w t and of w (w - 1) t^i */
    double weight, weighted, spread[3];
    double excess; /* ticks by which blocks with drawn calls were longer than usual */
    double longest; /* ticks */
    int64_t classes[CLASSES];
};
struct stream {
    char name[24];
    uint64_t members; /* hash of the world ranks of the communicator */
    int32_t bin, ranks, n, longest; /* n: number of samples; longest: number of longest calls */
    int64_t calls, cut; /* calls shorter than cut ticks are not among the longest */
    uint64_t limit;
};
struct sample {
    int64_t call, begin, end;
    int32_t root, weight; /* root: world rank, -1: none; weight: number of calls among which it was drawn */
    int64_t outside; /* ticks outside of MPI since the rank's last collective ended; -1: not known */
};
struct run { /* identical calls that are not added to their cell and stream yet */
    int64_t calls;
    double bytes; /* bytes of each call */
    int32_t cell, stream; /* indices of the cell and the stream; -1: none */
};
struct file {
    struct head head;
    char environment[ENVIRONMENT];
    struct run runs[RUNS];
    struct cell cells[CELLS];
    struct stream streams[STREAMS];
    struct sample samples[STREAMS][KEPT + LONGEST];
};
