/* Counting of calls: where a call is counted, and whether and how it is timed. */

static uint64_t hashed(uint64_t x) { /* splitmix64 of Steele, Lea, Flood 2014 */
    x += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
}

/* Return the world ranks of a group in allocated memory; NULL: there is no memory. */
static int *world_ranks(MPI_Group group, int n) {
    MPI_Group world;
    int *ranks = malloc(2 * n * sizeof *ranks);
    for (int i = 0; ranks && i < n; i++) ranks[n + i] = i;
    REAL(Comm_group)(WORLD, &world);
    if (ranks) REAL(Group_translate_ranks)(group, n, ranks + n, world, ranks);
    REAL(Group_free)(&world);
    return ranks;
}

/* Return the distance (an enum distance) of a world rank from this rank. */
static int distance_of(int rank) {
    if (rank < 0 || rank >= file->head.size) return NOWHERE; /* a rank of another world */
    int us = where[file->head.rank], it = where[rank];
    if (rank == file->head.rank) return SELF;
    if (us >> 8 != it >> 8) return NETWORK;
    return us == it && (us & 255) != 255 ? SOCKET : NODE;
}

static struct comm *introduced(MPI_Comm handle) {
    struct comm *k = calloc(1, sizeof *k);
    if (!k) return NULL;
    MPI_Group group;
    inside++;
    k->handle = handle;
    REAL(Comm_size)(handle, &k->ranks);
    REAL(Comm_rank)(handle, &k->rank);
    REAL(Comm_test_inter)(handle, &k->inter);
    k->peers = k->ranks;
    REAL(Comm_group)(handle, &group);
    k->world = world_ranks(group, k->ranks);
    REAL(Group_free)(&group);
    int *others = k->world;
    if (k->inter) {
        REAL(Comm_remote_size)(handle, &k->peers);
        REAL(Comm_remote_group)(handle, &group);
        others = world_ranks(group, k->peers);
        REAL(Group_free)(&group);
    }
    for (int i = 0; k->world && i < k->ranks; i++) k->members += hashed(k->world[i]);
    if (others && (k->far = malloc(k->peers)))
        for (int i = 0; i < k->peers; i++) k->far[i] = distance_of(others[i]);
    if (k->inter) free(others);
    if (k->ranks == file->head.size && !k->inter) k->nodes = file->head.nodes;
    REAL(Comm_set_attr)(handle, keyval, k);
    inside--;
    return k;
}

static __thread struct comm *last;
static __thread unsigned seen;

static struct comm *looked_up(MPI_Comm handle) {
    lock();
    seen = epoch;
    struct comm *k = comms[BUCKET(handle)];
    while (k && k->handle != handle) k = k->next;
    unlock();
    if (!k && (k = introduced(handle))) {
        lock();
        k->next = comms[BUCKET(handle)];
        comms[BUCKET(handle)] = k;
        unlock();
    }
    return last = k;
}

static inline struct comm *known(MPI_Comm handle) {
    return last && seen == epoch && last->handle == handle ? last : looked_up(handle);
}

/* Reserve disk space for a part of the file: on a full disk, a write to a page without space would end the program. */
static int room(const void *part, size_t size) {
    int descriptor = open(path, O_RDWR | O_CLOEXEC); /* if kept open, the program might close it and reuse its number */
    int error = descriptor < 0 ? errno : reserved(descriptor, (const char *)part - (const char *)file, size);
    if (descriptor >= 0) close(descriptor);
    return !error;
}

static struct cell *cell_of(const char *name, int family, int kind, int bin, int ranks, int distance) {
    struct head *head = &file->head;
    int i = 0;
    for (; i < head->cells; i++) {
        struct cell *c = &file->cells[i];
        if (c->kind == kind && c->bin == bin && c->ranks == ranks && c->distance == distance && !strcmp(c->name, name))
            return c;
    }
    if (i == CELLS || off) return NULL;
    struct cell *c = &file->cells[i];
    strcpy(c->name, name);
    c->kind = kind, c->bin = bin, c->ranks = ranks, c->family = family, c->distance = distance;
    head->cells++;
    return c;
}

static struct stream *stream_of(enum op op, int bin, const struct comm *k) {
    struct head *head = &file->head;
    int i = 0;
    for (; i < head->streams; i++) {
        struct stream *s = &file->streams[i];
        if (s->members == k->members && s->bin == bin && !strcmp(s->name, NAMES[op])) return s;
    }
    struct stream *s = &file->streams[i];
    if (i == STREAMS || off || !room(s, sizeof *s) || !room(file->samples[i], sizeof file->samples[i])) return NULL;
    strcpy(s->name, NAMES[op]);
    s->members = k->members, s->bin = bin, s->ranks = k->ranks, s->limit = UINT64_MAX;
    head->streams++;
    return s;
}

/* Return whether ranks can differ in the size of one call. */
static int uneven(enum op op) {
    return op == OP_gatherv || op == OP_scatterv || op == OP_alltoallv || op == OP_alltoallw;
}

static struct place *new_place(enum op op, enum kind kind, struct comm *k, int bin) {
    struct place *p = calloc(1, sizeof *p);
    if (!p) return NULL;
    p->bin = bin;
    p->cell = cell_of(NAMES[op], COLLECTIVE, kind, bin, k->ranks, NOWHERE);
    if (!p->cell) file->head.kept_out++;
    if (kind == BLOCKING && !k->inter && k->ranks > 1 && op < OP_neighbor_allgather)
        p->stream = stream_of(op, uneven(op) ? -1 : bin, k);
    p->next = k->places[op][kind];
    return k->places[op][kind] = p;
}

static inline int bin_of(double bytes) { return bytes >= 1 ? 64 - __builtin_clzll((unsigned long long)bytes) : 0; }

static inline struct place *place_of(enum op op, enum kind kind, struct comm *k, double bytes) {
    int bin = bin_of(bytes);
    struct place *p = k->places[op][kind];
    while (p && p->bin != bin) p = p->next;
    return p ? p : new_place(op, kind, k, bin);
}

static struct place *other_place(enum other other, int distance, double bytes) {
    int bin = bin_of(bytes);
    struct place **at = &places[other][distance][bin < 63 ? bin : 63], *p = *at;
    if (p || !(p = calloc(1, sizeof *p))) return p;
    p->cell = cell_of(OTHER_NAMES[other], OTHER_FAMILIES[other], BLOCKING, bin, 0, distance);
    if (!p->cell) file->head.kept_out++;
    return *at = p;
}

static AWAY struct place *place_for(enum other other, int distance, double bytes) {
    lock();
    struct place *p = other_place(other, distance, bytes);
    unlock();
    return p;
}

/* Counting before and after a call. */

/* Return the length of the block of a call; a block begins at a multiple of its length. */
static int64_t block(int64_t number) {
    return number < 256 ? 1 : number < 2048 ? 8 : number < 16384 ? 64 : number < 65536 ? 256 : 1024;
}

/* Begin a block. All of its calls are timed if calls take more than a microsecond, or if timing has taken less than
 * 1/1024 of the run plus 1/128 of the timed long calls, as long calls may come again. In any other block one call is
 * timed, and the duration of the block shows whether there may be a long call among the others. */
static void begin_block(struct place *p, int64_t number, int64_t length) {
    int64_t first = number & -length, t = length > 1 ? ticks() : 0;
    if (p->begun) {
        double span = t - p->begun - (timed_ticks - p->known); /* timed calls are known, and are left out */
        double usual = (p->period ? p->period : 2 * p->mean + microsecond / 8) * p->length;
        if (span < 2 * usual) p->period += p->period ? (span / p->length - p->period) / 8 : span / p->length;
        /* this may be time of the program between calls, so it allows no more timing */
        else p->cell->excess += span - usual;
        p->begun = 0;
    }
    /* the end is kept up to date, as the rank may be killed */
    if ((t - file->head.end) * tick_s > 1) both(&file->head.end_s, &file->head.end);
    p->until = first + length;
    p->drawn = first + (int64_t)(hashed(first ^ file->head.job) & (length - 1));
    p->all = length == 1 || p->mean > microsecond || spent < (t - file->head.begin) >> 10;
    if (p->all) spent += 8 * clock_ticks * length; /* as measured, with all that is stored about a call */
    else p->begun = t, p->length = length, p->known = timed_ticks;
}

static inline void derived(struct cell *c, int is) {
    if (__builtin_expect(is, 0) && c->derived < INT32_MAX) c->derived++;
}

static inline void before(struct call *v, struct place *p, double bytes, struct comm *k, int root) {
    struct cell *c = p ? p->cell : NULL;
    v->place = NULL;
    if (!c) return;
    struct stream *s = p->stream;
    int64_t number = c->calls++;
    c->bytes += bytes;
    c->counted++;
    derived(c, !named);
    if (s) number = s->calls++;
    if (number >= p->until) begin_block(p, number, block(number));
    if (!p->all && number != p->drawn) {
        if (s) last_collective.end = -1;
        return;
    }
    int length = block(number);
    *v = (struct call){p, k, number, s && number == p->drawn && hashed(number) <= s->limit, root, length,
                       p->all ? 1 : length, 0, 0};
}

/* Count a call that is no collective, as before() does. */
static AWAY struct call noticed(enum other other, int distance, double bytes) {
    struct call v;
    lock();
    before(&v, other_place(other, distance, bytes), bytes, NULL, NONE);
    unlock();
    return v;
}

/* Start a run when a call is repeated: until the drawn call or the end of this block, equal calls are only counted. */
static inline void repeat(struct repeated *q, struct place *p, double bytes, int64_t handle, int64_t count,
                          int64_t type) {
    if (threaded || !named || !p || !p->cell || count < 0) return;
    if (q->handle != handle || q->count != count || q->type != type) {
        q->handle = handle, q->count = count, q->type = type;
        return;
    }
    struct stream *s = p->stream;
    int64_t next = s ? s->calls : p->cell->calls, limit = (next <= p->drawn ? p->drawn : p->until) - next;
    if (p->all || limit <= 0) return;
    struct run *run = &file->runs[q - last_calls];
    *run = (struct run){0, bytes, p->cell - file->cells, s ? s - file->streams : -1};
    q->limit = limit, q->calls = &run->calls;
}

static inline int repeated(struct repeated *q, int64_t handle, int64_t count, int64_t type) {
    return __builtin_expect(q->handle == handle && q->count == count && q->type == type && ++*q->calls <= q->limit, 1);
}

static void thin(struct stream *s) {
    struct sample *list = file->samples[s - file->streams];
    int n = 0;
    while (s->n == kept) {
        s->limit >>= 1;
        for (int i = n = 0; i < s->n; i++)
            if (hashed(list[i].call) <= s->limit) list[n++] = list[i];
        s->n = n;
    }
}

/* Remove the shorter half of the longest calls. */
static void shorten(struct stream *s) {
    struct sample *list = file->samples[s - file->streams] + KEPT;
    while (s->longest == longest) {
        int64_t least = INT64_MAX, sum = 0;
        for (int i = 0; i < s->longest; i++) {
            int64_t took = list[i].end - list[i].begin;
            sum += took;
            if (took < least) least = took;
        }
        s->cut = sum / s->longest > least ? sum / s->longest : least + 1;
        int n = 0;
        for (int i = 0; i < s->longest; i++)
            if (list[i].end - list[i].begin >= s->cut) list[n++] = list[i];
        s->longest = n;
    }
}

static int class_of(int64_t took) {
    double ns = took * tick_s * 1e9;
    /* the exponent of the square gives two classes for each power of two */
    union { double value; uint64_t bits; } square = {ns * ns};
    int class = (int)(square.bits >> 52) - 1023 - 8;
    return class < 0 ? 0 : class < CLASSES ? class : CLASSES - 1;
}

/* Add the time of a family to the slices of the timeline in which it was spent. */
static void spread_out(int family, int64_t begin, int64_t end, double weight) {
    struct head *head = &file->head;
    begin -= head->begin, end -= head->begin;
    if (begin < 0 || end < begin) return;
    while (end >> head->shift >= SLICES) { /* double the length of the slices */
        for (int f = 0; f < FAMILIES; f++) {
            double *line = head->timeline[f];
            for (int i = 0; i < SLICES; i++)
                line[i] = i < SLICES / 2 ? line[2 * i] + line[2 * i + 1] : 0;
        }
        head->shift++;
    }
    for (int64_t i = begin >> head->shift; i <= end >> head->shift; i++) {
        int64_t from = i << head->shift, to = (i + 1) << head->shift;
        head->timeline[family][i] += weight * ((end < to ? end : to) - (begin > from ? begin : from));
    }
}

/* Add the duration of a call with its weight. */
static void add(struct cell *c, int64_t took, double weight, int all) {
    double extra = weight * (weight - 1);
    c->timed++;
    c->classes[class_of(took)] += (int64_t)weight;
    if (took > c->longest) c->longest = took;
    if (all) {
        c->all++, c->ticks += took;
        return;
    }
    c->weight += weight;
    c->weighted += weight * took;
    for (int i = 0; i < 3; i++, extra *= took) c->spread[i] += extra;
}

/* Return how long a rank that enters a collective was outside of MPI since its last collective. This shows whether the
 * program or MPI made the rank late. Calls in between that are too short to be timed count as time outside of MPI. */
static int64_t outside(const struct call *v) {
    if (file->head.callers > 1 || last_collective.end < 0) return -1;
    for (int op = 0; op < OPS; op++)
        if (last_calls[op].limit >= 0 && *last_calls[op].calls > 0) return -1;
    int64_t ticks = v->begin - last_collective.end - (timed_ticks - last_collective.ticks);
    return ticks > 0 ? ticks : 0;
}

/* Record the end of a timed call, and return its duration in ticks. */
static AWAY int64_t after(struct call *v, int64_t end) {
    struct place *p = v->place;
    struct cell *c = p->cell;
    struct stream *s = p->stream;
    int64_t took = (v->end = end) - v->begin - clock_ticks;
    if (took < 0) took = 0;
    lock();
    /* A long drawn call has weight 1: if there were others, the duration of the block would show them. */
    double most = 16 * p->mean + microsecond; /* so a single longer call does not make all others long */
    int alone = p->all || took > most;
    if (alone) v->weight = 1;
    if (took > most) spent -= took / 128;
    file->head.squares += added_squared, added_squared = 0;
    add(c, took, v->weight, alone);
    if (c->family != COMPLETION) spread_out(c->family, v->begin, v->begin + took, v->weight);
    p->mean += p->mean ? ((took < most ? took : most) - p->mean) / 64 : took;
    int64_t before = s ? outside(v) : -1;
    timed_ticks += took;
    if (s) last_collective.end = v->end, last_collective.ticks = timed_ticks;
    if (s && (v->kept || took >= s->cut)) {
        struct sample *list = file->samples[s - file->streams];
        int root = v->root < 0 || !v->comm->world || v->root >= v->comm->ranks ? -1 : v->comm->world[v->root];
        struct sample one = {v->number, v->begin, v->begin + took, root, v->drawn_of, before};
        if (v->kept && hashed(v->number) <= s->limit) {
            list[s->n++] = one;
            if (s->n == kept) thin(s);
        }
        if (took >= s->cut) {
            list[KEPT + s->longest++] = one;
            if (s->longest == longest) shorten(s);
        }
    }
    unlock();
    return took;
}

/* Record, at the very end of a wrapper, the time that the wrapper added to a timed call as the caller observes it. The
 * remaining time between the caller's clock and our first and last stamps is similar, with the same caches, and
 * shorter. */
static AWAY void left(const struct call *v, int64_t entered) {
    int64_t *sum = &v->place->cell->added, added = v->begin - entered + ticks() - v->end;
    if (threaded) __atomic_fetch_add(sum, added, __ATOMIC_RELAXED);
    else *sum += added;
    added_squared = (double)added * added;
}

static int usable(void) {
    if (inside || off || file == NULL || file->head.ended) return 0;
    if (__builtin_expect(!called, 0)) called = __atomic_add_fetch(&file->head.callers, 1, __ATOMIC_RELAXED);
    return 1;
}

/* First statement of a wrapper, except for calls that repeat the last call. */
#define ENTERED                                                                                               \
    if (!entered_) entered_ = ticks();
#define TIMED(code, call, v)                                                                                  \
    inside++;                                                                                                 \
    if (__builtin_expect((v).place != NULL, 0)) {                                                             \
        (v).begin = ticks();                                                                                  \
        code = call;                                                                                          \
        after(&(v), ticks());                                                                                 \
    } else                                                                                                    \
        code = call;                                                                                          \
    inside--
#define LEFT                                                                                                  \
    if (v_.place) left(&v_, entered_);
