/* Choose the next trial in a cell, and decide: functions of measurements alone, without MPI, clock or random numbers.
 *
 * A cell is (communicator, collective, power of two of the message size). Its calls use the default until the root has
 * decided otherwise. The root gives orders: a number of untimed calls with one setting; a trial of a few timed calls;
 * or a block of SIDE pieces of a candidate and as many of the default in random order. After each order the root
 * learns the cost of every timed call, and the further cost of the order.
 *
 * - Every candidate has one trial. A candidate that is SLOW times as slow as the default is dropped after the trial.
 * - The fastest candidates of the trials are tested one after the other against the default. A test is exactly that of
 *   verification/evidence.py on its blocks: however often one looks, a candidate that gains no more than GAIN is
 *   accepted with a probability of at most the alpha of the test. Test t of a process has alpha / (t (t + 1)), which
 *   add up to alpha however many tests there are. So the probability of any wrong decision in the run is at most
 *   alpha.
 * - A setting is not tried while the possible cost of the trial exceeds the rest of the budget. The budget is a share
 *   of the time since the process began, less the cost of earlier trials. A winner that was decided costs no budget.
 * - A setting is not tried either while the trial would cost more than the calls of its cell have cost so far: the
 *   calls may be expected to go on for as long again, and no setting saves more than their whole time. So cells with
 *   the largest possible gain come first.
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifndef API
#define API static
#endif

#define SETTINGS 16 /* settings of a collective, of which the default is number 0; no collective has more algorithms */
/* pieces of each side in a block, as EACH of verification/sequential.py: two blocks can decide a clear case */
#define SIDE 4
#define PIECES (2 * SIDE)
#define MOST 12 /* blocks of a test at most: a gain of one robust standard deviation takes 6 (benchmarks/online.py) */
#define LEAST 2 /* blocks before a test is given up, where the candidate seems no faster */
#define TESTS 3 /* candidates of a cell that are tested: trials are short, so the fastest may not be the first */
#define TRIAL 4 /* calls of a trial, after one that sets up connections and is not counted */
#define LONGEST_PIECE 16 /* calls of a piece at most; their median is the duration of the piece */
/* seconds of a piece or trial, which has fewer calls where these are slow: a thousand times a small call */
#define PIECE_S 1e-3
#define SLOW 3.0
#define GAIN 0.01005033585350145 /* -ln 0.99: differences of one per cent do not matter (sequential.py's max_loss) */
#define REST 64 /* calls before the first look, and at least between two looks in which nothing is tried */
/* a rest, which has fewer slow calls, lasts as long as so many looks: all looks cost a thousandth */
#define SELDOM 1000
/* calls of a rest at most: among so many calls a look, a small broadcast, costs next to nothing */
#define LONGEST_REST 65536
#define OTHER_MIX 0.5 /* share of the communicator's calls that must be in other cells for another phase */
#define STRENGTHS 6
/* strengths of the bets, as in evidence.py */
static const double strengths[STRENGTHS] = {0.15, 0.3, 0.6, 1.2, 2.4, 4.8};

enum what { CALLS, TRY, BLOCK }; /* untimed calls; timed calls with one setting; timed calls with two settings */
struct order {
    /* pattern: a bit for each piece, set for the candidate's pieces; calls: number of calls in a piece */
    int32_t what, setting, pattern, calls;
};

enum state { NEW, TRYING, TESTING, SETTLED };
struct cell {
    /* again: whether the default has its second trial */
    int32_t state, settings, best, tested, tests, blocks, rest, again;
    uint32_t tried, out; /* bits: settings that had a trial; settings that are not, or no longer, to be tested */
    double seconds[SETTINGS]; /* duration of a call with each setting, as last measured */
    double period_s; /* seconds from one call to the next, including the program in between; 0: not known */
    double spent_s; /* cost of all trials in this cell */
    /* alpha and log evidence of the test; gain: mean over its blocks of ln of the speed-up */
    double alpha, log_e[STRENGTHS], gain;
    /* ln seconds of each piece, and |distance from the median of its block| */
    double y[MOST * PIECES], apart[MOST * PIECES];
    double last[PIECES]; /* y of the pieces of the last block */
    int32_t patterns[MOST];
};
struct process { /* state shared by all cells whose root is this process */
    /* look_s: duration of a look; make_s: duration of making one more communicator */
    double alpha, share, elapsed_s, spent_s, look_s, make_s;
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

/* Return ln of the evidence that the candidate gains more than GAIN, including the last block. */
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

/* Return a random order of the pieces, each order with the same probability. */
API int32_t drawn(uint64_t random) {
    int pattern = 0;
    for (int left = SIDE, i = 0; i < PIECES; i++) {
        random = (random ^ (random >> 31)) * 0x9e3779b97f4a7c15; /* mixing step of splitmix64 */
        if ((double)(random >> 11) * 0x1p-53 * (PIECES - i) < left) pattern |= 1 << i, left--;
    }
    return pattern;
}

/* Begin a cell with so many settings. Only settings whose bit is set in `of` are tried: the one that a former run
 * decided on, or all. */
API void begin(struct cell *c, int settings, uint32_t of) {
    memset(c, 0, sizeof *c);
    c->settings = settings < SETTINGS ? settings : SETTINGS;
    c->out = ~of;
    c->rest = REST;
}

/* Select the fastest candidate of the trials that may still be tested; if there is none, the cell is settled as it is.
 */
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

/* Return the number of calls in a piece or trial, with an upper limit. */
static int calls_within(const struct cell *c, int most) {
    double calls = PIECE_S / fmax(c->seconds[0], 1e-9);
    return calls < 1 ? 1 : calls > most ? most : (int)calls;
}

/* Return the next order for the calls of the cell. `made`: bits of the settings whose communicator exists. */
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
    double lacks_s = (p->spent_s + costs_s) / p->share - p->elapsed_s; /* seconds until it may be tried */
    double worth = fmax(1, p->share) * fmax(c->seconds[0], 1e-9) / c->period_s; /* value of a second */
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

/* Record the cost of each timed call of an order, and the further cost of the order; return 1 if this settles the
 * cell. */
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

/* Return whether a communicator is in another phase of the program, by its number of calls in each cell before a cell
 * was settled (`then`) and since. */
API int other_mix(const double *then, const double *since, int cells) {
    double before = 0, after = 0, apart = 0;
    for (int i = 0; i < cells; i++) before += then[i], after += since[i];
    for (int i = 0; before > 0 && after > 0 && i < cells; i++) apart += fabs(then[i] / before - since[i] / after) / 2;
    return apart > OTHER_MIX;
}
