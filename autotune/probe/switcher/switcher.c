/* Switches algorithms inside a running application: preloaded between it and its MPI (application/verbs/run.py).
 *
 * A cell is a communicator, a collective and a power of two of the message size. The calls of a cell go to the
 * application's communicator or to a hidden duplicate of it. The duplicate was made while MPI's control variables
 * forced other algorithms, since Open MPI reads the variables when a communicator is made. MPICH reads the variables
 * in each call, so they are written before the call and set back after it.
 *
 * - Whether a call is switched depends only on facts that by the standard are the same on all ranks: the communicator,
 *   the collective, its bytes (type signatures must match; counts and datatypes need not), and for reductions their
 *   operation and datatype. The counters of calls are also the same on all ranks; no rank decides anything by itself.
 * - Rank 0 of a communicator gives the orders of decide.h. At the end of an order, right after a call, the costs of
 *   the calls are reduced to rank 0 over a hidden communicator, and rank 0 broadcasts the next order.
 * - If all ranks are on one node, whose clock they share, the cost of a call is the last exit less the last entry.
 *   Over several nodes it is the shortest of the ranks' durations: the duration on the last rank to enter, which waits
 *   for no other rank. If a rank may leave before others have entered (to or from a root), this duration has no
 *   meaning, and such calls are not switched.
 * - Another tool that is preloaded after this library gets the calls that are forwarded, also on hidden communicators:
 *   otherwise the tool would call MPI past this library. Calls that the tool makes inside of a forwarded call are not
 *   taken for the application's.
 * - Hidden communicators have no attributes or names of the application's communicator; they are made only from its
 *   group. Their own error handler raises an error on the application's communicator.
 * - Nothing is switched with MPI_THREAD_MULTIPLE, with fault tolerance, without MPI_Init, in spawned processes, on
 *   intercommunicators and communicators with processes of other worlds, nor after a call of MPI_Finalize or
 *   MPI_Abort. In these cases no rank waits for another rank. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <mpi.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#if defined(AUTOTUNE_OPEN_MPI) && AUTOTUNE_OPEN_MPI != (defined(OPEN_MPI) ? 1 : 0)
#error "this mpicc is of another MPI"
#endif

#include "../recorder/table.h"
#include "../recorder/library.h"
#include "decide.h"

#ifdef OPEN_MPI
#define NO_TYPE ((MPI_Datatype)constant("ompi_mpi_datatype_null"))
#define REALS ((MPI_Datatype)constant("ompi_mpi_double"))
#define NUMBERS ((MPI_Datatype)constant("ompi_mpi_int"))
#define MOST_OF ((MPI_Op)constant("ompi_mpi_op_max"))
#define ALL_OF ((MPI_Op)constant("ompi_mpi_op_band"))
#define DUPLICATES 1
#else
#define NO_TYPE MPI_DATATYPE_NULL
#define REALS MPI_DOUBLE
#define NUMBERS MPI_INT
#define MOST_OF MPI_MAX
#define ALL_OF MPI_BAND
#define DUPLICATES 0
#endif

#define BINS 48 /* classes of message sizes: powers of two */
#define HIDDEN 128 /* hidden communicators of a process at most: some MB; Open MPI has 2^16 in all */
/* below 2^10 bytes size has no cost; from there on each power of two halves the calls before the first look */
#define FAST 10
#define TIMED (PIECES * LONGEST_PIECE)
#define LOGGED 65536 /* cells of a process whose events are written: some MB */

struct variable {
    struct variable *next;
    MPI_T_cvar_handle handle;
    int64_t value, usual; /* a number, a word of an enumerator or a flag; little-endian, whatever its width */
};
struct place { /* a cell of a communicator */
    struct place *next; /* next place of the same communicator */
    struct comm *comm;
    enum op op;
    int bin, setting, timed, number;
    int64_t calls, left; /* calls before this order; calls left in this order */
    int64_t then[64]; /* calls of the communicator's cells when this one was settled */
    MPI_Comm to;
    struct order order;
    struct cell cell; /* state of the decision, on rank 0 */
    /* times: entries, exits, -durations, and the cost of trials */
    double waits_s, waited, begin_s, times[3 * TIMED + 1];
};
struct comm {
    struct comm *next;
    MPI_Comm handle, base, made[SETTINGS];
    int ranks, rank, inter, off, asked, one_node;
    uint32_t there; /* bits of the settings in `made` that exist */
    struct place *first;
};

static struct variable *candidates[OPS][SETTINGS];
static int settings[OPS], valid[OPS];
static struct learned { /* a decision of a former run */
    struct learned *next;
    int op, numbers[3]; /* bin, ranks, setting */
} *learned;
#define RECENT 8 /* entries of each collective: sizes and communicators alternate in most programs */
static struct place nobody; /* an empty place without calls left */
static struct recent { /* calls that need no closer look: the last one, then others by their hash */
    int64_t handle, count, type, op;
    struct place *place;
} recent[OPS][1 + RECENT] = {[0 ... OPS - 1] = {[0 ... RECENT] = {.place = &nobody}}};
static struct comm *comms[1024];
#define BUCKET(handle) (((uintptr_t)(handle) >> 4 ^ (uintptr_t)(handle)) & 1023)
static int on, looked, merged, nonblocking, random_mode, dry, exact, keyval, hidden, numbers, world_ranks, world_rank;
static MPI_Errhandler raises;
static double began_s, ask_s = 1e-3; /* ask_s: duration of making a communicator's first hidden one */
static struct process process = {.alpha = 0.05, .share = 0.005, .look_s = 1e-4, .make_s = 1e-3};
static __thread int inside;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

static uint64_t stirred(uint64_t x) { /* splitmix64 of Steele, Lea, Flood 2014 */
    x += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
}

/* Append a line to the file of this process, in one write. The file is not kept open, since the program might close it
 * and reuse its descriptor. */
static char path[4096];
static pid_t owner; /* owner of the file */
__attribute__((format(printf, 2, 3))) static void event(const struct place *q, const char *format, ...) {
    int file = q && q->number >= LOGGED ? -1 : open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    va_list list;
    if (file < 0) return;
    va_start(list, format);
    vdprintf(file, format, list);
    va_end(list);
    close(file);
}

/* Control variables. */

#define TOOL(Name)                                                                                            \
    ({                                                                                                        \
        static __typeof__(&MPI_T_##Name) real;                                                                \
        LOOKED_UP(real, "MPI_T_" #Name);                                                                      \
    })

/* Find the number of a word: in the enumerator, or in MPICH's description, which has a line "name  - meaning" for each
 * number from 0 on. */
static int number_of(const char *word, const char *described, int64_t *number) {
    char *end;
    size_t length = strlen(word);
    *number = strtoll(word, &end, 10);
    if (*word && !*end) return 1;
    int64_t value = 0;
    for (const char *line = described; line && *line; line = strchr(line, '\n'), line += line != NULL) {
        while (*line == ' ' || *line == '\t') line++;
        size_t name = strspn(line, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
        size_t gap = strspn(line + name, " ");
        if (!name || !gap || strncmp(line + name + gap, "- ", 2)) continue;
        if (name == length && !strncmp(line, word, length)) return *number = value, 1;
        value++;
    }
    return 0;
}

static int bound(const char *name, const char *word, struct variable **list) {
    int index, length = 256, described = 8192, verbosity, binding, scope, count = 0;
    char own[256], text[8192] = "";
    MPI_Datatype type;
    MPI_T_enum words;
    struct variable *v = calloc(1, sizeof *v);
    if (!v) return 0;
    if (!TOOL(cvar_get_index)(name, &index) &&
        !TOOL(cvar_get_info)(index, own, &length, &verbosity, &type, &words, text, &described, &binding, &scope) &&
        number_of(word, text, &v->value) && !TOOL(cvar_handle_alloc)(index, NULL, &v->handle, &count) && count == 1 &&
        !TOOL(cvar_read)(v->handle, &v->usual) &&
        (v->usual == v->value || /* variables that some releases of 4.1 let nobody write */
         (!TOOL(cvar_write)(v->handle, &v->value) && !TOOL(cvar_write)(v->handle, &v->usual)))) {
        v->next = *list, *list = v;
        return 1;
    }
    free(v);
    return 0;
}

/* Set variables, or (`usual`) set them back to the values that the program gave them in the meantime. They are set back
 * in reverse order, as some variables are in several lists. */
static void force(struct variable *v, int usual) {
    for (; v; v = v->next) {
        if (!usual) TOOL(cvar_read)(v->handle, &v->usual);
        TOOL(cvar_write)(v->handle, usual ? &v->usual : &v->value);
    }
}

/* Communicators. */

static void forget_recent(const struct place *q) { /* NULL: forget all */
    for (int op = 0; op < OPS; op++)
        for (int i = 0; i <= RECENT; i++)
            if (!q || recent[op][i].place == q) recent[op][i].place = &nobody;
}

/* Raise an error in a hidden communicator on the application's own. */
static void raised(MPI_Comm *handle, int *code, ...) {
    for (int i = 0; i < 1024; i++)
        for (struct comm *k = comms[i]; k; k = k->next) {
            int its = k->asked && !k->off && k->base == *handle;
            for (int j = 1; j < SETTINGS && k->there >> j; j++) its |= DUPLICATES && k->made[j] == *handle;
            if (its) {
                REAL(Comm_call_errhandler)(k->handle, *code);
                return;
            }
        }
}

static int forget(MPI_Comm handle, int key, void *value, void *extra) {
    struct comm *k = value, **at = &comms[BUCKET(handle)];
    (void)key, (void)extra;
    while (*at && *at != k) at = &(*at)->next;
    if (*at) *at = k->next;
    forget_recent(NULL);
    for (struct place *q = k->first, *next; q; q = next) next = q->next, free(q);
    free(k);
    return MPI_SUCCESS;
}

static struct comm *introduced(MPI_Comm handle) {
    struct comm *k = calloc(1, sizeof *k);
    MPI_Group group, world;
    if (!k) return NULL;
    k->handle = handle;
    if (REAL(Comm_test_inter)(handle, &k->inter) || REAL(Comm_size)(handle, &k->ranks) ||
        REAL(Comm_rank)(handle, &k->rank) || REAL(Comm_set_attr)(handle, keyval, k)) {
        free(k); /* it is no communicator, and another may get its handle */
        return NULL;
    }
    k->off = k->inter || k->ranks < 2;
    int *ranks = k->off || !merged ? NULL : malloc(2 * k->ranks * sizeof *ranks);
    if (ranks) { /* processes of another world may not have this library; Open MPI compares every two ranks */
        REAL(Comm_group)(handle, &group);
        REAL(Comm_group)(WORLD, &world);
        for (int i = 0; i < k->ranks; i++) ranks[i] = i;
        REAL(Group_translate_ranks)(group, k->ranks, ranks, world, ranks + k->ranks);
        for (int i = k->ranks; i < 2 * k->ranks; i++) k->off |= ranks[i] == MPI_UNDEFINED;
        REAL(Group_free)(&group);
        REAL(Group_free)(&world);
    }
    free(ranks);
    k->next = comms[BUCKET(handle)];
    return comms[BUCKET(handle)] = k;
}

static struct comm *known(MPI_Comm handle) {
    if (!handle || handle == NO_COMM) return NULL;
    struct comm *k = comms[BUCKET(handle)];
    while (k && k->handle != handle) k = k->next;
    return k ? k : introduced(handle);
}

static int rooted(enum op op) { return op == OP_bcast || op == OP_gather || op == OP_scatter || op == OP_reduce; }

/* Predict a duration as equal to the last one, but with a limit, so that a process that was stopped once does not
 * prevent trials for long. */
static double likely(double before_s, double last_s) { return fmin(last_s, 2 * before_s); }

/* Check whether all ranks have room for hidden communicators and time within their budgets; then make the first hidden
 * communicator, for our own messages. Return 0 if there is no time yet. */
static int ask(struct comm *k, int at_once) {
    double begin_s = now();
    int late = !at_once && process.spent_s + ask_s > process.share * (begin_s - began_s);
    int most[3], own[3] = {hidden, late, nonblocking};
    MPI_Comm node;
    int failed = REAL(Allreduce)(own, most, 3, NUMBERS, MOST_OF, k->handle);
    if (!failed && most[1]) return 0;
    k->asked = 1;
    if (failed || most[0] + SETTINGS > HIDDEN || most[2] || REAL(Comm_split)(k->handle, 0, k->rank, &k->base)) {
        k->off = 1, k->base = NO_COMM;
        return 1;
    }
    hidden++;
    REAL(Comm_set_errhandler)(k->base, raises);
    k->there = DUPLICATES ? 1 : ~0u;
    REAL(Comm_split_type)(k->base, MPI_COMM_TYPE_SHARED, 0, NO_INFO, &node);
    REAL(Comm_size)(node, &k->one_node);
    k->one_node = k->one_node == k->ranks;
    REAL(Comm_free)(&node);
    ask_s = likely(ask_s, now() - begin_s);
    return 1;
}

static void make(struct comm *k, int setting) {
    if (k->there >> setting & 1) return;
    double begin_s = now();
    /* other communicators may have taken the room that there was when it was checked */
    int failed, none = nonblocking || hidden >= HIDDEN;
    int apart = REAL(Allreduce)(&none, &failed, 1, NUMBERS, MOST_OF, k->base);
    for (int op = 0; op < OPS; op++) force(candidates[op][setting], 0);
    failed = apart || failed || REAL(Comm_dup)(k->base, &k->made[setting]);
    for (int op = OPS; op--;) force(candidates[op][setting], 1);
    if (failed) k->made[setting] = k->base;
    else REAL(Comm_set_errhandler)(k->made[setting], raises), hidden++;
    k->there |= 1u << setting;
    process.make_s = likely(process.make_s, now() - begin_s);
}

static void drop(struct comm *k, uint32_t which) {
    for (int i = 1; i < SETTINGS; i++)
        if (DUPLICATES && (k->there & which) >> i & 1) {
            if (k->made[i] != k->base) REAL(Comm_free)(&k->made[i]), hidden--;
            k->there &= ~(1u << i);
        }
}

/* Places. */

static int64_t calls_of(const struct place *q) {
    return q->calls + (q->order.what == BLOCK ? PIECES : 1) * (int64_t)q->order.calls - q->left;
}

static void obey(struct place *q, struct order order) {
    q->calls = calls_of(q);
    q->order = order;
    q->left = (order.what == BLOCK ? PIECES : 1) * (int64_t)order.calls;
    q->timed = order.what != CALLS;
    forget_recent(q);
}

static uint32_t offered(const struct place *q) {
    const struct learned *l = learned;
    while (l && (l->op != (int)q->op || l->numbers[0] != q->bin || l->numbers[1] != q->comm->ranks)) l = l->next;
    if (dry || (rooted(q->op) && !q->comm->one_node)) return 0;
    return (l ? 1u << l->numbers[2] : ~0u) & valid[q->op] & ~1u;
}

static struct place *place_of(struct comm *k, enum op op, double bytes) {
    int bin = 0;
    for (double size = bytes; size >= 2 && bin < BINS - 1; size /= 2) bin++;
    if (bytes < 0 || (bytes == 0 && op != OP_barrier)) return NULL;
    struct place **at = &k->first, *q;
    for (; (q = *at); at = &q->next)
        if (q->op == op && q->bin == bin) return q;
    if (!(q = calloc(1, sizeof *q))) return NULL; /* a rank without memory, whose job will end soon */
    q->comm = k, q->op = op, q->bin = bin;
    q->left = bin < FAST ? REST : bin < FAST + 4 ? REST >> (bin - FAST) : 4;
    q->order = (struct order){CALLS, 0, 0, (int)q->left};
    q->number = numbers++;
    return *at = q;
}

/* Write the counts of a place. Among few calls, a call of a process that was stopped makes the mean wait long, so the
 * mean is limited by the time from call to call. */
static void count(const struct place *q) {
    double calls = calls_of(q), most_s = fmax(0, (now() - began_s) / calls - q->cell.seconds[0]);
    event(q, "calls %d %.0f %.9g %.9g %.9g\n", q->number, calls, q->cell.seconds[0],
          q->waited ? fmin(q->waits_s / q->waited, most_s) : 0, process.spent_s);
}

static void open_cell(struct place *q) {
    begin(&q->cell, settings[q->op], offered(q));
    event(q, "cell %d %s %d %d %d\n", q->number, NAMES[q->op], q->bin, q->comm->ranks, q->comm->one_node);
}

static void log_order(const struct place *q, int settled) {
    const struct cell *c = &q->cell;
    if (q->order.what == TRY) event(q, "try %d %d %.9g\n", q->number, q->order.setting, c->seconds[q->order.setting]);
    if (q->order.what == BLOCK) {
        char y[32 * PIECES] = "";
        int at = 0;
        for (int i = 0; i < PIECES; i++) at += snprintf(y + at, sizeof y - at, " %.9g", c->last[i]);
        event(q, "block %d %d %d%s\n", q->number, q->order.setting, q->order.pattern, y);
    }
    if (settled) event(q, "settled %d %d %lld\n", q->number, c->best, (long long)calls_of(q));
}

/* Decide the next order on rank 0, after an order was carried out. */
static void decide(struct place *q, const double *most, struct order *next, uint32_t *unused) {
    struct comm *k = q->comm;
    struct cell *c = &q->cell;
    double costs_s[TIMED], then[64], since[64];
    int n = q->timed ? (q->order.what == BLOCK ? PIECES : 1) * q->order.calls : 0, cells = 0, settled = 0;
    for (int i = 0; i < n; i++) {
        costs_s[i] = k->one_node ? most[n + i] - most[i] : -most[2 * n + i];
        int by_default = q->order.what == TRY ? !q->order.setting : !(q->order.pattern >> (i / q->order.calls) & 1);
        if (by_default) q->waits_s += fmax(0, -q->times[2 * n + i] - costs_s[i]), q->waited++;
    }
    process.elapsed_s = now() - began_s;
    if (!c->settings) open_cell(q);
    if (n) {
        settled = told(c, &process, q->order, costs_s, 0);
        log_order(q, settled);
    }
    for (struct place *p = k->first; p && cells < 64; p = p->next, cells++) {
        then[cells] = q->then[cells], since[cells] = calls_of(p) - q->then[cells];
        if (settled) q->then[cells] = calls_of(p);
    }
    if (!n && c->state == SETTLED && (~c->out & valid[q->op]) && other_mix(then, since, cells)) {
        begin(c, settings[q->op], offered(q));
        event(q, "again %d %lld\n", q->number, (long long)calls_of(q));
    }
    c->period_s = process.elapsed_s / calls_of(q);
    struct process limits = process;
    limits.spent_s = fmax(process.spent_s, n ? most[3 * n] : 0);
    *next = next_order(c, &limits, k->there, stirred((uint64_t)(now() * 1e9) ^ (uint64_t)getpid() << 32));
    process.tests = limits.tests;
    count(q);
    *unused = DUPLICATES ? ~0u : 0;
    for (struct place *p = k->first; p; p = p->next)
        *unused &= p->cell.settings && p->cell.state == SETTLED ? ~(1u << p->cell.best) : 0;
    *unused &= ~(1u << next->setting);
}

/* Look at the end of an order, right after its last call, on all ranks. */
static void look(struct place *q) {
    struct comm *k = q->comm;
    struct {
        struct order next;
        uint32_t unused;
        double harm_s;
    } message = {.next = {CALLS, 0, 0, LONGEST_REST}};
    double begin_s = now(), most[3 * TIMED + 1];
    int n = q->timed ? (int)(calls_of(q) - q->calls) : 0;
    if (!k->asked && !ask(k, 0)) {
        int calls = q->order.calls < LONGEST_REST ? 2 * q->order.calls : LONGEST_REST;
        obey(q, (struct order){CALLS, 0, 0, calls});
        process.spent_s += now() - begin_s;
        return;
    }
    if (k->off) return;
    if (n) {
        if (n < TIMED) {
            memmove(q->times + n, q->times + TIMED, n * sizeof(double));
            memmove(q->times + 2 * n, q->times + 2 * TIMED, n * sizeof(double));
        }
        q->times[3 * n] = process.spent_s;
        k->off = REAL(Reduce)(q->times, most, 3 * n + 1, REALS, MOST_OF, 0, k->base);
    }
    if (!k->rank && !k->off) {
        double before_s = process.spent_s;
        decide(q, most, &message.next, &message.unused);
        message.harm_s = process.spent_s - before_s;
    }
    if (k->off || (k->off = REAL(Bcast)(&message, sizeof message, BYTE, 0, k->base))) return;
    if (k->rank) process.spent_s += message.harm_s;
    process.look_s += (likely(process.look_s, now() - begin_s) - process.look_s) / 8; /* moving average */
    drop(k, message.unused);
    make(k, message.next.setting);
    paid(&q->cell, &process, now() - begin_s);
    obey(q, message.next);
}

static void directed(struct place *q) {
    int64_t done = calls_of(q) - q->calls;
    q->setting = q->order.setting;
    if (q->order.what == BLOCK) q->setting *= q->order.pattern >> (done / q->order.calls) & 1;
    if (random_mode) {
        uint64_t drawn = stirred(((uint64_t)q->op << 48) + ((uint64_t)q->bin << 40) + (uint64_t)calls_of(q));
        do q->setting = drawn % settings[q->op], drawn = stirred(drawn);
        while (q->setting && !(valid[q->op] >> q->setting & 1));
        if (!q->comm->asked) ask(q->comm, 1);
        if (q->comm->off) q->setting = 0;
        else make(q->comm, q->setting);
        if (!q->comm->off && !q->comm->rank && !q->cell.settings) open_cell(q);
    }
    q->to = q->setting && DUPLICATES ? q->comm->made[q->setting] : q->comm->handle;
}

static MPI_Comm before(struct place *q) {
    directed(q);
    if (!DUPLICATES) force(candidates[q->op][q->setting], 0);
    if (q->timed) q->begin_s = now();
    return q->to;
}

static int after(struct place *q, int code) {
    if (q->timed) {
        double end_s = now();
        int64_t i = calls_of(q) - q->calls;
        q->times[i] = q->begin_s, q->times[TIMED + i] = end_s, q->times[2 * TIMED + i] = q->begin_s - end_s;
    }
    if (!DUPLICATES) force(candidates[q->op][q->setting], 1);
    if (!--q->left) {
        if (random_mode) obey(q, (struct order){CALLS, 0, 0, LONGEST_REST});
        else look(q);
        if (q->comm->off) obey(q, (struct order){CALLS, 0, 0, LONGEST_REST});
    }
    return code;
}

/* Beginning and end. */

static void read_plan(char *text) {
    char *line_end, *word_end;
    for (char *line = strtok_r(text, "\n", &line_end); line; line = strtok_r(NULL, "\n", &line_end)) {
        char *kind = strtok_r(line, " ", &word_end), *name = strtok_r(NULL, " ", &word_end), *word;
        int op = 0;
        if (!kind || !name) continue;
        if (!strcmp(kind, "budget")) process.share = atof(name);
        if (!strcmp(kind, "dry")) dry = atoi(name);
        if (!strcmp(kind, "exact")) exact = atoi(name);
        while (op < OPS && strcmp(NAMES[op], name)) op++;
        if (op == OPS) continue;
        if (!strcmp(kind, "candidate") && (word = strtok_r(NULL, " ", &word_end))) {
            int number = atoi(word), well = number > 0 && number < SETTINGS;
            while (well && (word = strtok_r(NULL, " ", &word_end))) {
                char *value = strchr(word, '=');
                if (value) *value++ = 0, well = bound(word, value, &candidates[op][number]);
            }
            if (well) valid[op] |= 1 << number;
            if (number < SETTINGS && number >= settings[op]) settings[op] = number + 1;
        } else if (!strcmp(kind, "learned")) {
            struct learned *l = calloc(1, sizeof *l);
            for (int i = 0; l && i < 3 && (word = strtok_r(NULL, " ", &word_end)); i++) l->numbers[i] = atoi(word);
            if (l && l->numbers[2] >= 0 && l->numbers[2] < SETTINGS) l->op = op, l->next = learned, learned = l;
        }
    }
}

static int copied_not(MPI_Comm c, int k, void *extra, void *value, void *copy, int *flag) {
    (void)c, (void)k, (void)extra, (void)value, (void)copy;
    return *flag = 0;
}

static int tolerant(void) { /* whether MPI tolerates processes that fail */
    int index, count, value = 0;
    MPI_T_cvar_handle handle;
    return !TOOL(cvar_get_index)("mpi_ft_enable", &index) && !TOOL(cvar_handle_alloc)(index, NULL, &handle, &count) &&
           !TOOL(cvar_read)(handle, &value) && (value & 255);
}

static void check_mpi(void) {
#ifdef OPEN_MPI
    if (!getenv("AUTOTUNE_RUN") || symbol("ompi_mpi_comm_world")) return;
#else
    if (!getenv("AUTOTUNE_RUN") || !symbol("ompi_mpi_comm_world")) return;
#endif
    fprintf(stderr, "autotune run: made for " MADE_FOR ", but this program runs with another MPI\n");
    _exit(127);
}

static void begun(void) {
    const char *folder = getenv("AUTOTUNE_RUN"), *mode = getenv("AUTOTUNE_RUN_MODE");
    char host[65] = "", *plan = NULL;
    int level, provided, length = 0, mine[OPS + 1], all[OPS + 1];
    struct stat told_;
    MPI_Comm parent;
    if (looked++ || !folder) return;
    REAL(Comm_get_parent)(&parent);
    /* spawned processes: the spawning ones may not have passed this library to each of them */
    if (parent != NO_COMM) return;
    REAL(Query_thread)(&level);
    REAL(Comm_size)(WORLD, &world_ranks);
    REAL(Comm_rank)(WORLD, &world_rank);
    if (!world_rank) {
        snprintf(path, sizeof path, "%s/plan", folder);
        FILE *file = fopen(path, "re");
        if (file && !fstat(fileno(file), &told_) && (plan = calloc(1, told_.st_size + 1)))
            length = (int)fread(plan, 1, told_.st_size, file);
        if (file) fclose(file);
    }
    REAL(Bcast)(&length, 1, NUMBERS, 0, WORLD);
    if (length > 0 && !plan) plan = calloc(1, length + 1);
    if (length <= 0 || !plan) return;
    REAL(Bcast)(plan, length, BYTE, 0, WORLD);
    TOOL(init_thread)(MPI_THREAD_SINGLE, &provided);
    read_plan(plan);
    free(plan);
    valid[OPS - 1] = 0;
    memcpy(mine, valid, sizeof valid);
    mine[OPS] = level != MPI_THREAD_MULTIPLE ? ~0 : ~1;
    if (tolerant()) mine[OPS] &= ~2;
    REAL(Allreduce)(mine, all, OPS + 1, NUMBERS, ALL_OF, WORLD);
    memcpy(valid, all, sizeof valid);
    random_mode = mode && !strcmp(mode, "random");
    /* Rank 0 is the root of most communicators: its cells have half of the error rate, all others the other half. */
    process.alpha *= world_rank ? 0.5 / fmax(1, world_ranks - 1) : 0.5;
    began_s = now();
    gethostname(host, sizeof host - 1);
    owner = getpid();
    snprintf(path, sizeof path, "%s/%s.%d.%ld.run", folder, host, world_rank, (long)owner);
    on = all[OPS] == ~0;
    if (!world_rank) event(NULL, "job %d %d %s\n", world_ranks, dry, on ? "on" : all[OPS] & 1 ? "tolerant" : "threads");
    REAL(Comm_create_keyval)(copied_not, forget, &keyval, NULL);
    REAL(Comm_create_errhandler)(raised, &raises);
}

static void ended(const char *how) {
    if (!on) return;
    for (int i = 0; i < 1024; i++)
        for (struct comm *k = comms[i]; k; k = k->next)
            for (struct place *q = k->first; q && !k->rank; q = q->next)
                if (q->cell.settings) count(q);
    if (!world_rank) event(NULL, "end %s %.9g %.9g\n", how, now() - began_s, process.spent_s);
    forget_recent(NULL);
    on = 0;
}

__attribute__((destructor)) static void exits(void) { /* an exit without MPI_Finalize; forked processes exit here too */
    if (owner == getpid()) ended("exited");
}

static void freed(MPI_Comm handle) {
    if (!on || handle == NO_COMM) return;
    struct comm *k = comms[BUCKET(handle)];
    while (k && k->handle != handle) k = k->next;
    if (!k || !k->asked) return;
    for (struct place *q = k->first; q && !k->rank; q = q->next)
        if (q->cell.settings) count(q);
    drop(k, ~0u);
    if (k->base != NO_COMM) REAL(Comm_free)(&k->base), hidden--;
    k->off = 1;
}

/* The calls: first of C, with counts of both widths, then of Fortran, in both of its bindings. */

static double asked_width(MPI_Datatype type) {
    int size = 0, a, b, c, combiner;
    if (!type || type == NO_TYPE) return -1;
    REAL(Type_size)(type, &size);
    REAL(Type_get_envelope)(type, &a, &b, &c, &combiner);
    /* below -1: the handle may be reused for another type */
    return combiner == MPI_COMBINER_NAMED ? size : -2.0 - size;
}
static MPI_Datatype last_type;
static double last_width;
static double width(MPI_Datatype type) {
    if (last_width > 0 && type == last_type) return last_width;
    double found = asked_width(type);
    if (found > 0) return last_type = type, last_width = found;
    return found < -1 ? -2 - found : found;
}

#ifdef OPEN_MPI
/* Return a handle of the library; NULL: the library has no handle of that name. */
static void *handle_of(const char *prefix, const char *name) {
    char whole[64];
    snprintf(whole, sizeof whole, "%s%s", prefix, name);
    void *found = dlsym(RTLD_DEFAULT, whole);
    return found ? found : symbol(whole);
}
#endif

/* Return the number of a predefined operation in MPI's order, from 1; 0: it is the program's own. */
/* operations before those with an index; for integers each of them is independent of the order */
#define FREE_OF_ORDER 10
static int predefined(MPI_Op op) {
#ifdef OPEN_MPI
    static const char *const names[] = {"max", "min", "sum", "prod", "land", "band",
                                        "lor", "bor", "lxor", "bxor", "maxloc", "minloc"};
    static MPI_Op known_[12];
    for (int i = 0; i < 12; i++) {
        if (!known_[i]) known_[i] = (MPI_Op)handle_of("ompi_mpi_op_", names[i]);
        if (op == known_[i]) return i + 1;
    }
    return 0;
#else
    return op >= MPI_MAX && op <= MPI_MAXLOC ? op - MPI_MAX + 1 : 0;
#endif
}

/* Return whether a datatype has integers: they wrap around, so that no order changes a bit of a sum. For reals even the
 * larger of two zeros depends on the order. Integers of 8 and 16 bits are excluded: Open MPI 5.0.11 adds them by vector
 * instructions that saturate, and the remainder in a loop that wraps around. */
#define WHOLE(X)                                                                                              \
    X(INT, int) X(LONG, long) X(LONG_LONG, long_long_int) X(UNSIGNED, unsigned)                                \
    X(UNSIGNED_LONG, unsigned_long) X(UNSIGNED_LONG_LONG, unsigned_long_long) X(BYTE, byte) X(C_BOOL, c_bool)   \
    X(INT32_T, int32_t) X(INT64_T, int64_t) X(UINT32_T, uint32_t) X(UINT64_T, uint64_t) X(AINT, aint)          \
    X(OFFSET, offset) X(COUNT, count) X(INTEGER, integer) X(LOGICAL, logical)
static int whole(MPI_Datatype type) {
    static MPI_Datatype types[] = {
#ifdef OPEN_MPI
#define X(name, small) NULL,
        WHOLE(X)
#undef X
    };
    static const char *const names[] = {
#define X(name, small) #small,
        WHOLE(X)
#undef X
    };
    for (size_t i = sizeof types / sizeof *types; !types[0] && i--;) /* the first one is looked up last */
        types[i] = (MPI_Datatype)handle_of("ompi_mpi_", names[i]);
#else
#define X(name, small) MPI_##name,
        WHOLE(X)
#undef X
    };
#endif
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (type && type == types[i]) return 1;
    return 0;
}

/* Return whether a reduction may use another algorithm. */
static int reduced(MPI_Op op, MPI_Datatype type) {
    int number = predefined(op);
    return number && (!exact || (number <= FREE_OF_ORDER && whole(type)));
}

/* Return the communicator of a call that may be switched; NULL: the call is forwarded as it is. */
static struct comm *switchable(enum op op, MPI_Comm handle) {
    struct comm *k = on && !inside && settings[op] > 1 ? known(handle) : NULL;
    return k && !k->off ? k : NULL;
}

#define IS_ROOT(root) (VAL(root) == k->rank)
#include "../recorder/parameters.h"
#define SIZE(n, t) (VAL(n) < 0 ? -1 : (double)VAL(n) * width(TYPE(VAL(t))))

#define LAST(...) LAST_(__VA_ARGS__)
#define LAST_(first, second) second

/* Calls that are switched: by the standard their counts are the same on all ranks. For reductions the operation also
 * matters. */
#define SWITCH(X, name, may, key, ...) APPLY_(X, name, may, key, __VA_ARGS__)
#define APPLY_(X, ...) X(__VA_ARGS__)
#define PLAIN 1, 0
#define BY_O reduced(OP_OF(VAL(o)), TYPE(VAL(t))), KEY(o)
#define FOR_barrier(X, ...) SWITCH(X, barrier, PLAIN, __VA_ARGS__)
#define FOR_bcast(X, ...) SWITCH(X, bcast, PLAIN, __VA_ARGS__)
#define FOR_gather(X, ...) SWITCH(X, gather, PLAIN, __VA_ARGS__)
#define FOR_scatter(X, ...) SWITCH(X, scatter, PLAIN, __VA_ARGS__)
#define FOR_allgather(X, ...) SWITCH(X, allgather, PLAIN, __VA_ARGS__)
#define FOR_alltoall(X, ...) SWITCH(X, alltoall, PLAIN, __VA_ARGS__)
#define FOR_reduce(X, ...) SWITCH(X, reduce, BY_O, __VA_ARGS__)
#define FOR_allreduce(X, ...) SWITCH(X, allreduce, BY_O, __VA_ARGS__)
#define FOR_reduce_scatter_block(X, ...) SWITCH(X, reduce_scatter_block, BY_O, __VA_ARGS__)
#define FOR_gatherv(...)
#define FOR_scatterv(...)
#define FOR_allgatherv(...)
#define FOR_alltoallv(...)
#define FOR_alltoallw(...)
#define FOR_reduce_scatter(...)
#define FOR_scan(...)
#define FOR_exscan(...)
#define FOR_neighbor_allgather(...)
#define FOR_neighbor_allgatherv(...)
#define FOR_neighbor_alltoall(...)
#define FOR_neighbor_alltoallv(...)
#define FOR_neighbor_alltoallw(...)

/* A call that repeats a recent call of its collective, during an untimed order, is counted and goes to the same
 * communicator as that call. */
static inline int repeats(const struct recent *r, int64_t handle, int64_t by, int64_t count_, int64_t type) {
    return r->handle == handle && r->count == count_ && r->type == type && r->op == by && r->place->left > 1;
}
static inline struct recent *others(enum op op, int64_t handle, int64_t count_) { /* Fibonacci hashing */
    return &recent[op][1 + (uint64_t)(handle ^ count_) * 0x9e3779b97f4a7c15 / (UINT64_MAX / RECENT + 1)];
}
static struct place *repeated(enum op op, int64_t handle, int64_t by, int64_t count_, int64_t type) {
    struct recent *r = others(op, handle, count_);
    if (inside || !repeats(r, handle, by, count_, type)) return NULL;
    recent[op][0] = *r;
    r->place->left--;
    return r->place;
}
static void remember(struct place *q, MPI_Datatype named, int64_t handle, int64_t by, int64_t count_, int64_t type) {
    if (!q->timed && !random_mode && count_ >= 0 && (DUPLICATES || !q->setting) &&
        (q->op == OP_barrier || named == last_type))
        recent[q->op][0] = *others(q->op, handle, count_) = (struct recent){handle, count_, type, by, q};
}

#define BY
#define N int
#define I int
#define T MPI_Datatype
#define O MPI_Op
#define H MPI_Comm
#define TYPE(x) (x)
#define OP_OF(x) (x)
#define COMM_OF(x) (x)
/* key of the communicator in this width, so that the function is known */
#define HERE (KEY(c) ^ (int64_t)(sizeof TEXT(NAMED()) - 1) << 40)
/* Return the function to which a call is forwarded: another preloaded tool's, or MPI's. */
static int chained; /* whether any of these is a tool's: then no call is made without a frame */
static void *next_of(const char *name, const char *profiled) {
    void *found = following(name, profiled);
    if (found != needed(profiled)) chained = 1;
    return found;
}
#define GOES_ON(real, name, profiled)                                                                         \
    ({                                                                                                        \
        if (!FOUND(real)) __atomic_store_n(&real, (__typeof__(real))next_of(name, profiled), __ATOMIC_RELAXED);  \
        FOUND(real);                                                                                          \
    })
#define THROUGH(call)                                                                                         \
    ({                                                                                                        \
        inside++;                                                                                             \
        int code_ = call;                                                                                     \
        inside--;                                                                                             \
        code_;                                                                                                \
    })
#define C_CALL(name, may, key, Name, P, A, bytes, root, ...)                                                  \
    static int(*NAMED(real_##name)) P;                                                                        \
    static AWAY int NAMED(switched_##name) P {                                                                \
        int(*real) P = GOES_ON(NAMED(real_##name), TEXT(NAMED(MPI_##Name)), "P" TEXT(NAMED(MPI_##Name)));     \
        struct place *q = repeated(OP_##name, HERE, key, __VA_ARGS__);                                        \
        if (q) return c = q->to, THROUGH(real A);                                                             \
        struct comm *k = switchable(OP_##name, c);                                                            \
        if (k && (may)) q = place_of(k, OP_##name, bytes);                                                    \
        if (!q) return THROUGH(real A);                                                                       \
        int64_t handle = HERE;                                                                                \
        c = before(q);                                                                                        \
        remember(q, (MPI_Datatype)(intptr_t)LAST(__VA_ARGS__), handle, key, __VA_ARGS__);                     \
        return after(q, THROUGH(real A));                                                                     \
    }                                                                                                         \
    int NAMED(MPI_##Name) P { /* without a frame: nothing is done behind the call */                          \
        const struct recent *last = recent[OP_##name];                                                        \
        if (chained || !repeats(last, HERE, key, __VA_ARGS__)) return NAMED(switched_##name) A;               \
        last->place->left--;                                                                                  \
        c = last->place->to;                                                                                  \
        return NAMED(real_##name) A;                                                                          \
    }
#define C_CALLS(name, ...) FOR_##name(C_CALL, __VA_ARGS__)
#define NAMED(x) x
EACH(C_CALLS)
#undef N
#ifndef AUTOTUNE_NO_LARGE
#undef NAMED
#define N MPI_Count
#define NAMED(x) x##_c
#undef FOR_barrier
#define FOR_barrier(...)
EACH(C_CALLS)
#undef FOR_barrier
#define FOR_barrier(X, ...) SWITCH(X, barrier, PLAIN, __VA_ARGS__)
#undef N
#endif

#include "../recorder/init.h"

int MPI_Finalize(void) {
    ended("finalized");
    return NEXT(Finalize)();
}
int MPI_Abort(MPI_Comm c, int code) {
    ended("aborted");
    return NEXT(Abort)(c, code);
}
int MPI_Comm_free(MPI_Comm *c) {
    if (!inside) freed(*c);
    return NEXT(Comm_free)(c);
}
int MPI_Comm_disconnect(MPI_Comm *c) {
    if (!inside) freed(*c);
    return NEXT(Comm_disconnect)(c);
}
/* Open MPI 5.0.11 makes one communicator after the other: while the program has begun one on only some ranks, making a
 * hidden communicator would never end. */
int MPI_Comm_idup(MPI_Comm c, MPI_Comm *made, MPI_Request *request) {
    nonblocking = 1;
    return NEXT(Comm_idup)(c, made, request);
}
#ifndef AUTOTUNE_NO_PERSISTENT /* also in MPI 4 */
int MPI_Comm_idup_with_info(MPI_Comm c, MPI_Info info, MPI_Comm *made, MPI_Request *request) {
    nonblocking = 1;
    return NEXT(Comm_idup_with_info)(c, info, made, request);
}
#endif
#ifndef AUTOTUNE_NO_REVOKE /* programs check whether it exists */
/* Ranks that wait in a hidden communicator also leave it. Open MPI 5 has this function even without fault tolerance. */
int MPIX_Comm_revoke(MPI_Comm c);
int MPIX_Comm_revoke(MPI_Comm c) {
    static int (*real)(MPI_Comm);
    int (*revoke)(MPI_Comm) = LOOKED_UP(real, "MPIX_Comm_revoke");
    struct comm *k = on && c && c != NO_COMM ? known(c) : NULL;
    for (int i = 1; k && k->asked && !k->off && DUPLICATES && i < SETTINGS; i++)
        if (k->there >> i & 1 && k->made[i] != k->base) revoke(k->made[i]);
    if (k && k->asked && !k->off) revoke(k->base);
    if (k) k->off = 1, forget_recent(NULL);
    return revoke(c);
}
#endif
/* Only by one of these functions can a communicator get processes of another world. */
int MPI_Intercomm_merge(MPI_Comm c, int high, MPI_Comm *made) {
    merged = 1;
    return NEXT(Intercomm_merge)(c, high, made);
}
int MPI_Comm_remote_group(MPI_Comm c, MPI_Group *group) {
    merged = 1;
    return NEXT(Comm_remote_group)(c, group);
}

/* Bindings of Fortran: all arguments by address, the error code last. Some libraries call C's MPI_ functions in them.
 */
#undef BY
#undef I
#undef T
#undef O
#undef H
#undef TYPE
#undef OP_OF
#undef COMM_OF
#undef NAMED
#define BY *
#define N MPI_Fint
#define I MPI_Fint
#define T MPI_Fint
#define O MPI_Fint
#define H MPI_Fint
#ifdef OPEN_MPI
#define TYPE(x) REAL(Type_f2c)(x)
#define OP_OF(x) REAL(Op_f2c)(x)
#define COMM_OF(x) REAL(Comm_f2c)(x)
#define BACK(x) REAL(Comm_c2f)(x)
#else
#define TYPE(x) ((MPI_Datatype)(x))
#define OP_OF(x) ((MPI_Op)(x))
#define COMM_OF(x) ((MPI_Comm)(x))
#define BACK(x) ((MPI_Fint)(x))
#endif
#define F_FUNCTION(name, of, P, ...)                                                                          \
    void name P {                                                                                             \
        static void(*real_) P;                                                                                \
        void(*real) P = GOES_ON(real_, TEXT(name), of TEXT(name));                                            \
        __VA_ARGS__                                                                                           \
    }
#define WITHIN(call) inside++, call, inside--
#define F_CALL(name, may, key, Name, P, A, bytes, root, ...)                                                  \
    F_FUNCTION(NAMED(mpi_##name), "p", (OPEN P, MPI_Fint * e),                                                 \
               MPI_Fint error = MPI_SUCCESS, to, *said = e ? e : &error;                                      \
               int64_t handle = KEY(c);                                                                       \
               struct place *q = repeated(OP_##name, handle, key, __VA_ARGS__);                               \
               struct comm *k = q ? NULL : switchable(OP_##name, COMM_OF(*c));                                \
               if (q) to = BACK(q->to), c = &to;                                                              \
               if (k && (may) && (q = place_of(k, OP_##name, bytes))) {                                       \
                   to = BACK(before(q)), c = &to;                                                             \
                   remember(q, TYPE(LAST(__VA_ARGS__)), handle, key, __VA_ARGS__);                            \
               } else k = NULL;                                                                               \
               recent[OP_##name][0].place = &nobody; /* C's function may be called in it */                   \
               WITHIN(real(OPEN A, said));                                                                    \
               if (k) after(q, *said);)
#define F_CALLS(name, ...) FOR_##name(F_CALL, __VA_ARGS__)
#define F MPI_Fint *
#define F_ENDS(name, P, ...) F_FUNCTION(NAMED(mpi_##name), "", P, __VA_ARGS__)
#define EACH_FORTRAN                                                                                          \
    EACH(F_CALLS)                                                                                             \
    F_ENDS(init, (F e), check_mpi(); WITHIN(real(e)); begun();)                                                       \
    F_ENDS(init_thread, (F a, F b, F e), check_mpi(); WITHIN(real(a, b, e)); begun();)                                \
    F_ENDS(finalize, (F e), ended("finalized"); WITHIN(real(e));)                                                     \
    F_ENDS(abort, (F c, F n, F e), ended("aborted"); WITHIN(real(c, n, e));)                                          \
    F_ENDS(comm_idup, (F c, F m, F r, F e), nonblocking = 1; WITHIN(real(c, m, r, e));)                                \
    F_ENDS(intercomm_merge, (F c, F h, F m, F e), merged = 1; WITHIN(real(c, h, m, e));)                              \
    F_ENDS(comm_remote_group, (F c, F g, F e), merged = 1; WITHIN(real(c, g, e));)                                    \
    F_ENDS(comm_free, (F c, F e), freed(COMM_OF(*c)); WITHIN(real(c, e));)                                            \
    F_ENDS(comm_disconnect, (F c, F e), freed(COMM_OF(*c)); WITHIN(real(c, e));)
#define NAMED(x) x##_
EACH_FORTRAN
#undef NAMED
#define NAMED(x) x##_f08_
EACH_FORTRAN
