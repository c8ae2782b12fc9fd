/* What is tried next in a cell, and what is decided: a function of what was measured; no MPI, no clock, no lot.
 *
 * A cell is (communicator, collective, power of two of the message size). Its calls go by the default until the
 * root has decided otherwise. The root gives orders: so many calls by a setting, not timed; a trial of a few timed
 * calls; a block, SIDE pieces of a candidate and as many of the default in an order drawn by lot. After each it is
 * told what every timed call cost, and what the order cost beside.
 *
 * - Every candidate has one trial. One that is SLOW times as slow as the default is dropped there.
 * - The fastest of the trials are tested one after the other against the default. A test is that of
 *   verification/evidence.py on its blocks, word for word: whenever one looks, a candidate that gains no more than
 *   GAIN is taken with a chance of at most the alpha of the test. Test t of a process has alpha / (t (t + 1)), which
 *   add up to alpha however many tests there are: to be wrong once in the run has a chance of at most alpha.
 * - Nothing is tried while what it may cost exceeds what is left of the budget: a share of the time since the
 *   process began, less what trials have cost. A decided winner costs nothing of it.
 * - Nor while it would cost more than the calls of its cell did so far: that is as long as they may be expected to go
 *   on, and nobody saves more than all of it. So cells come first in which something is to be had.
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifndef API
#define API static
#endif

#define SETTINGS 16 /* the default is number 0; no collective has more algorithms */
#define SIDE 4 /* as verification/sequential.py's EACH: two blocks can tell what is clear */
#define PIECES (2 * SIDE)
#define MOST 12 /* blocks of a test: a gain of one robust standard deviation takes 6 (benchmarks/online.py) */
#define LEAST 2 /* blocks before a test is given up, where the candidate seems no faster */
#define TESTS 3 /* candidates of a cell that are tested: the trials are short, the fastest may not be their first */
#define TRIAL 4 /* calls of a trial, behind one that sets up connections and is not counted */
#define LONGEST_PIECE 16 /* calls; their median is what a piece took */
#define PIECE_S 1e-3 /* a piece or trial of slower calls has fewer: a thousand times what a small call takes */
#define SLOW 3.0
#define GAIN 0.01005033585350145 /* -ln 0.99: differences of a hundredth do not matter (sequential.py's max_loss) */
#define REST 64 /* calls before the first look, and the least between two in which nothing is tried */
#define SELDOM 1000 /* looks in the time of a rest, of slow calls that has fewer: all looks cost a thousandth */
#define LONGEST_REST 65536 /* a look is a small broadcast: among so many calls it does not count */
#define OTHER_MIX 0.5 /* a phase is another one when half of the communicator's calls are in other cells */
#define STRENGTHS 6
static const double strengths[STRENGTHS] = {0.15, 0.3, 0.6, 1.2, 2.4, 4.8}; /* evidence.py's */

enum what { CALLS, TRY, BLOCK }; /* untimed, timed of one setting, timed of two */
struct order {
    int32_t what, setting, pattern, calls; /* pattern: a bit for each piece, set where it is the candidate's; calls of
                                              a piece */
};

enum state { NEW, TRYING, TESTING, SETTLED };
struct cell {
    int32_t state, settings, best, tested, tests, blocks, rest, again; /* again: the default has its second trial */
    uint32_t tried, out; /* bits: had a trial; not to be tested (any more) */
    double seconds[SETTINGS]; /* of a call, as last seen */
    double period_s; /* from one call to the next, whatever the program does between; 0: not known */
    double spent_s; /* what trying has cost in it */
    double alpha, log_e[STRENGTHS], gain; /* of the test; gain: ln of the speed-up, over all its blocks */
    double y[MOST * PIECES], apart[MOST * PIECES]; /* ln seconds, and |distance from the median of the block| */
    double last[PIECES]; /* y of the last block */
    int32_t patterns[MOST];
};
struct process { /* what all cells share that have this process as their root */
    double alpha, share, elapsed_s, spent_s, look_s, make_s; /* look: of an order; make: of one more communicator */
    int64_t tests;
};

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
API double middle(const double *values, int n) {
    double sorted[MOST * PIECES];
    if (n < 1) return 0;
    memcpy(sorted, values, n * sizeof *values);
    qsort(sorted, n, sizeof *sorted, ascending);
    return (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
}

/* Ln of the evidence that the candidate gains more than GAIN, with the block that was added last. */
API double evidence(struct cell *c) {
    int from = (c->blocks - 1) * PIECES, pattern = c->patterns[c->blocks - 1];
    double y[PIECES], z[PIECES], most = -INFINITY, sum = 0;
    for (int i = 0; i < PIECES; i++) y[i] = c->y[from + i] + (pattern >> i & 1 ? GAIN : 0);
    double centre = middle(y, PIECES);
    for (int i = 0; i < PIECES; i++) c->apart[from + i] = fabs(y[i] - centre);
    double scale = fmax(1.4826 * middle(c->apart, from + PIECES), 1e-12), seen = 0;
    for (int i = 0; i < PIECES; i++) {
        z[i] = fmax(-1, fmin(1, (y[i] - centre) / scale));
        seen -= ((pattern >> i & 1) - 0.5) * z[i];
    }
    for (int k = 0; k < STRENGTHS; k++) {
        double others = 0;
        int drawable = 0;
        for (int order = 0; order < 1 << PIECES; order++) {
            if (__builtin_popcount(order) != SIDE) continue;
            double s = 0;
            for (int i = 0; i < PIECES; i++) s -= ((order >> i & 1) - 0.5) * z[i];
            others += exp(strengths[k] * (s - seen)), drawable++;
        }
        c->log_e[k] -= log(others / drawable);
        most = fmax(most, c->log_e[k]);
    }
    for (int k = 0; k < STRENGTHS; k++) sum += exp(c->log_e[k] - most);
    return most + log(sum / STRENGTHS);
}

/* An order of the pieces, each with the same chance, by a random number. */
API int32_t drawn(uint64_t random) {
    int pattern = 0;
    for (int left = SIDE, i = 0; i < PIECES; i++) {
        random = (random ^ (random >> 31)) * 0x9e3779b97f4a7c15; /* as splitmix64 stirs */
        if ((double)(random >> 11) * 0x1p-53 * (PIECES - i) < left) pattern |= 1 << i, left--;
    }
    return pattern;
}

/* A cell of so many settings; only those among `of` (bits) are tried: a former run has decided, or all. */
API void begin(struct cell *c, int settings, uint32_t of) {
    memset(c, 0, sizeof *c);
    c->settings = settings < SETTINGS ? settings : SETTINGS;
    c->out = ~of;
    c->rest = REST;
}

/* The fastest of the trials that may be tested is tested next; without one the cell is settled as it is. */
static void test_next(struct cell *c, struct process *p) {
    int next = 0;
    for (int i = 1; i < c->settings; i++)
        if (!(c->out >> i & 1) && (!next || c->seconds[i] < c->seconds[next])) next = i;
    c->state = next && c->tests < TESTS ? TESTING : SETTLED;
    if (c->state == SETTLED) return;
    c->tested = next, c->tests++, c->blocks = 0, c->gain = 0;
    memset(c->log_e, 0, sizeof c->log_e);
    p->tests++;
    c->alpha = p->alpha / ((double)p->tests * (p->tests + 1));
}

/* Calls of a piece or trial, at most so many. */
static int calls_within(const struct cell *c, int most) {
    double calls = PIECE_S / fmax(c->seconds[0], 1e-9);
    return calls < 1 ? 1 : calls > most ? most : (int)calls;
}

/* What the calls of the cell are to do next. `made`: bits of the settings whose communicator is there. */
API struct order next_order(struct cell *c, struct process *p, uint32_t made, uint64_t random) {
    struct order order = {CALLS, c->best, 0, c->rest};
    double costs_s = p->look_s;
    if (c->state == NEW) c->state = TRYING;
    if (c->state == TRYING) {
        int next = 0;
        if (c->tried & 1)
            while (next < c->settings && ((c->tried | c->out) >> next & 1)) next++;
        if (next == c->settings) next = 0, c->again = 1;
        order = (struct order){TRY, next, 0, 1 + (int)fmax(2, calls_within(c, TRIAL))};
        if (next) costs_s += order.calls * (SLOW - 1) * c->seconds[0];
    } else if (c->state == TESTING) {
        int calls = calls_within(c, LONGEST_PIECE);
        order = (struct order){BLOCK, c->tested, drawn(random), calls};
        costs_s += SIDE * calls * fmax(0, c->seconds[c->tested] - c->seconds[0]);
    }
    if (!(made >> order.setting & 1)) costs_s += p->make_s;
    double lacks_s = (p->spent_s + costs_s) / p->share - p->elapsed_s; /* until it may be tried */
    double worth = fmax(1, p->share) * fmax(c->seconds[0], 1e-9) / c->period_s; /* of a second */
    if (order.setting && c->period_s > 0) lacks_s = fmax(lacks_s, (c->spent_s + costs_s) / worth - p->elapsed_s);
    if (c->state != SETTLED && lacks_s <= 0) {
        c->rest = REST;
        return order;
    }
    double rest = c->rest;
    double least = fmax(1, fmin(REST, SELDOM * p->look_s / fmax(c->seconds[0], 1e-9)));
    if (c->state != SETTLED && c->period_s > 0) rest = fmax(least, fmin(LONGEST_REST, lacks_s / c->period_s));
    if (c->rest < LONGEST_REST) c->rest *= 2;
    return (struct order){CALLS, c->best, 0, (int32_t)rest};
}

static void paid(struct cell *c, struct process *p, double cost_s) { p->spent_s += cost_s, c->spent_s += cost_s; }

/* What an order's timed calls cost, each, and what it cost beside; 1 where the cell is settled by it. */
API int told(struct cell *c, struct process *p, struct order order, const double *costs_s, double beside_s) {
    double usual_s = c->seconds[0], took[PIECES];
    paid(c, p, beside_s);
    if (order.what == TRY) {
        double seen = order.calls > 3 ? middle(costs_s + 1, order.calls - 1) : fmin(costs_s[1], costs_s[2]);
        for (int i = 0; order.setting && i < order.calls; i++) paid(c, p, fmax(0, costs_s[i] - usual_s));
        int first = !(c->tried >> order.setting & 1);
        c->tried |= 1u << order.setting;
        if (order.setting) {
            c->seconds[order.setting] = seen;
            if (seen > SLOW * usual_s) c->out |= 1u << order.setting;
        } else
            c->seconds[0] = first ? seen : fmin(seen, usual_s);
        if (c->again) test_next(c, p);
    }
    if (order.what != BLOCK) return c->state == SETTLED && order.what == TRY;
    double sides[2][SIDE];
    int n[2] = {0, 0};
    for (int i = 0; i < PIECES; i++) {
        int side = order.pattern >> i & 1;
        const double *piece = costs_s + i * order.calls;
        took[i] = fmax(middle(piece, order.calls), 1e-9);
        for (int j = 0; side && j < order.calls; j++) paid(c, p, fmax(0, piece[j] - usual_s));
        c->last[i] = c->y[c->blocks * PIECES + i] = log(took[i]);
        sides[side][n[side]++] = took[i];
    }
    c->seconds[0] = middle(sides[0], SIDE), c->seconds[c->tested] = middle(sides[1], SIDE);
    c->patterns[c->blocks++] = order.pattern;
    c->gain += (log(c->seconds[0] / c->seconds[c->tested]) - c->gain) / c->blocks;
    if (evidence(c) >= -log(c->alpha)) {
        c->best = c->tested, c->state = SETTLED;
        return 1;
    }
    if (c->seconds[c->tested] > SLOW * c->seconds[0] || c->blocks == MOST || (c->blocks >= LEAST && c->gain <= GAIN)) {
        c->out |= 1u << c->tested;
        test_next(c, p);
    }
    return c->state == SETTLED;
}

/* Whether a communicator is in another phase: from its calls in each cell, when one was settled and since. */
API int other_mix(const double *then, const double *since, int cells) {
    double before = 0, after = 0, apart = 0;
    for (int i = 0; i < cells; i++) before += then[i], after += since[i];
    for (int i = 0; before > 0 && after > 0 && i < cells; i++) apart += fabs(then[i] / before - since[i] / after) / 2;
    return apart > OTHER_MIX;
}
