/* Where a call is counted, and whether and how it is timed. */

#define LONG_S 10e-6 /* mean of calls of which all are timed */

static uint64_t hashed(uint64_t x) { /* splitmix64 of Steele, Lea, Flood 2014 */
    x += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
}

static struct comm *introduced(MPI_Comm handle) {
    struct comm *k = calloc(1, sizeof *k);
    if (!k) return NULL;
    MPI_Group world;
    inside++;
    k->handle = handle;
    REAL(Comm_size)(handle, &k->ranks);
    REAL(Comm_rank)(handle, &k->rank);
    REAL(Comm_test_inter)(handle, &k->inter);
    k->peers = k->ranks;
    if (k->inter) REAL(Comm_remote_size)(handle, &k->peers);
    REAL(Comm_group)(handle, &k->group);
    REAL(Comm_group)(WORLD, &world);
    int *local = malloc(2 * k->ranks * sizeof *local);
    for (int i = 0; local && i < k->ranks; i++) local[i] = i;
    if (local) REAL(Group_translate_ranks)(k->group, k->ranks, local, world, local + k->ranks);
    for (int i = 0; local && i < k->ranks; i++) k->members += hashed(local[k->ranks + i]);
    free(local);
    REAL(Group_free)(&world);
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

static struct cell *cell_of(enum op op, enum kind kind, int bin, int ranks) {
    struct head *head = &file->head;
    int i = 0;
    for (; i < head->cells; i++) {
        struct cell *c = &file->cells[i];
        if (c->kind == (int)kind && c->bin == bin && c->ranks == ranks && !strcmp(c->name, NAMES[op])) return c;
    }
    if (i == CELLS) return NULL;
    struct cell *c = &file->cells[i];
    strcpy(c->name, NAMES[op]);
    c->kind = kind, c->bin = bin, c->ranks = ranks;
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
    if (i == STREAMS) return NULL;
    struct stream *s = &file->streams[i];
    strcpy(s->name, NAMES[op]);
    s->members = k->members, s->bin = bin, s->ranks = k->ranks, s->limit = UINT64_MAX;
    head->streams++;
    return s;
}

/* Whether ranks can differ in the size of one call. */
static int uneven(enum op op) {
    return op == OP_gatherv || op == OP_scatterv || op == OP_alltoallv || op == OP_alltoallw;
}

static struct place *new_place(enum op op, enum kind kind, struct comm *k, int bin) {
    struct place *p = calloc(1, sizeof *p);
    if (!p) return NULL;
    p->bin = bin;
    p->cell = cell_of(op, kind, bin, k->ranks);
    if (!p->cell) file->head.kept_out++;
    if (kind == BLOCKING && !k->inter && k->ranks > 1 && op < OP_neighbor_allgather)
        p->stream = stream_of(op, uneven(op) ? -1 : bin, k);
    p->next = k->places[op][kind];
    return k->places[op][kind] = p;
}

static inline struct place *place_of(enum op op, enum kind kind, struct comm *k, double bytes) {
    int bin = bytes >= 1 ? 64 - __builtin_clzll((unsigned long long)bytes) : 0;
    struct place *p = k->places[op][kind];
    while (p && p->bin != bin) p = p->next;
    return p ? p : new_place(op, kind, k, bin);
}

/* Before and after a call. */

/* Calls with numbers from here on come in blocks so long; each begins at a multiple of its length. */
static int64_t block(int64_t number) {
    return number < 256 ? 1 : number < 2048 ? 8 : number < 16384 ? 64 : number < 65536 ? 256 : 1024;
}

static inline void before(struct call *v, struct place *p, double bytes, struct comm *k, int root) {
    struct cell *c = p ? p->cell : NULL;
    v->place = NULL;
    if (!c) return;
    struct stream *s = p->stream;
    int64_t number = c->calls++, length = block(number);
    c->bytes += bytes;
    if (s) length = block(number = s->calls++);
    if (number >= p->until) {
        int64_t first = number & -length;
        p->until = first + length;
        p->drawn = first + (int64_t)(hashed(first ^ file->head.job) & (length - 1));
        p->all = p->mean_s > LONG_S;
    }
    if (!p->all && number != p->drawn) return;
    *v = (struct call){p, k, number, s && number == p->drawn && hashed(number) <= s->limit, root, length,
                       p->all ? 1 : length, 0};
}

/* A call was made the second time: until this block's drawn one, or its end, such calls need only be counted. */
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
    while (s->n == KEPT) {
        s->limit >>= 1;
        for (int i = n = 0; i < s->n; i++)
            if (hashed(list[i].call) <= s->limit) list[n++] = list[i];
        s->n = n;
    }
}

static void after(struct call *v) {
    double end_s = now() - clock_s;
    struct cell *c = v->place->cell;
    struct stream *s = v->place->stream;
    int root = v->root;
    if (v->kept && root >= 0) {
        MPI_Group world;
        REAL(Comm_group)(WORLD, &world);
        REAL(Group_translate_ranks)(v->comm->group, 1, &v->root, world, &root);
        REAL(Group_free)(&world);
    }
    lock();
    double took_s = end_s - v->begin_s, extra = v->weight * (v->weight - 1), *mean_s = &v->place->mean_s;
    c->timed++;
    c->weight += v->weight;
    c->weighted_s += v->weight * took_s;
    for (int i = 0; i < 3; i++, extra *= took_s) c->spread[i] += extra;
    *mean_s += *mean_s ? (took_s - *mean_s) / 64 : took_s;
    if (v->kept && hashed(v->number) <= s->limit) {
        file->samples[s - file->streams][s->n++] = (struct sample){v->number, v->begin_s, end_s, root, v->drawn_of};
        if (s->n == KEPT) thin(s);
    }
    unlock();
}

static int usable(void) {
    if (inside || off) return 0;
    return file != NULL && !file->head.ended;
}

#define TIMED(code, call, v)                                                                                  \
    inside++;                                                                                                 \
    if (__builtin_expect((v).place != NULL, 0)) {                                                             \
        (v).begin_s = now();                                                                                  \
        code = call;                                                                                          \
        after(&(v));                                                                                          \
    } else                                                                                                    \
        code = call;                                                                                          \
    inside--
