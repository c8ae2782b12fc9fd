/* Requests, from their beginning until they are waited for. */

/* Find the entry of a handle. One handle may stand for several operations: for every message that was sent at once MPI
 * returns the same completed request (ompi_request_empty, MPICH's lightweight requests). */
static struct pending **at(MPI_Request request) {
    struct pending **at = &requests[BUCKET(request)];
    while (*at && (*at)->request != request) at = &(*at)->next;
    return at;
}

/* Take the last operation that was begun under a handle and is not taken yet; NULL: there is no such operation. */
static struct pending *take(MPI_Request request) {
    struct pending *one = *at(request);
    while (one && (one->request != request || one->taken == one->times)) one = one->next;
    if (one) one->taken++;
    return one;
}

static void forgotten(struct pending **old) {
    struct pending *gone = *old;
    *old = gone->next;
    gone->next = spare;
    spare = gone;
    n_pending--;
}

static void expect(MPI_Request request, struct place *p, double bytes, int persistent) {
    if (!p || !p->cell) return;
    lock();
    struct pending **old = at(request), *one;
    /* persistent handles are unique, so the old request was freed unnoticed */
    if (*old && ((*old)->persistent || persistent)) forgotten(old);
    for (one = *at(request); one; one = one->next)
        if (one->request == request && one->place == p) break;
    if (one) {
        one->times++, one->bytes = bytes;
    } else {
        if ((one = spare)) spare = one->next;
        else one = malloc(sizeof *one);
        if (one) {
            struct pending **first = &requests[BUCKET(request)];
            *one = (struct pending){*first, request, p, bytes, persistent, !named, 1, 0};
            *first = one;
            n_pending++;
        }
    }
    unlock();
}

/* End the wait for one of the operations of a handle. */
static void done(struct pending *one) {
    if (--one->times) return;
    struct pending **old = &requests[BUCKET(one->request)];
    while (*old != one) old = &(*old)->next;
    forgotten(old);
}

static void drop(MPI_Request request) {
    lock();
    struct pending *one = *at(request);
    if (one) done(one);
    unlock();
}

/* A request that a wait or test is for: its handle before and after the call, and its operation. */
struct awaited {
    MPI_Request was, is;
    struct pending *whose;
};

/* Attribute a wait or test of n requests, with its ticks if it was timed. Requests whose handle has changed are
 * complete. The whole duration is shared equally by the operations of the requests. */
static void waited(int n, struct awaited *all, struct call *v, int64_t took) {
    if (!n && !v->place) return;
    lock();
    int alike = 0;
    double weight = v->place ? v->weight : 0;
    for (int i = 0; i < n; i++) {
        all[i].whose = v->place || all[i].is != all[i].was ? take(all[i].was) : NULL;
        alike += all[i].whose != NULL;
    }
    for (int i = 0; i < n; i++) {
        struct pending *one = all[i].whose;
        if (!one) continue;
        one->taken--;
        if (!v->place) continue;
        one->place->cell->wait += weight * took / alike;
        spread_out(one->place->cell->family, v->begin, v->begin + took, weight / alike);
    }
    for (int i = 0; i < n; i++)
        if (all[i].whose && all[i].is != all[i].was && !all[i].whose->persistent) done(all[i].whose);
    if (v->place && alike) v->place->cell->wait += weight * took;
    else if (v->place) spread_out(COMPLETION, v->begin, v->begin + took, weight);
    unlock();
}

/* Begin a wait. It counts as having the size of its largest request, so that similar waits are timed together:
 * otherwise many short waits would hide a few long ones. */
static AWAY struct call begins_to_wait(enum other other, int n, const struct awaited *all) {
    struct call v;
    double bytes = 0;
    named = 1;
    lock();
    for (int i = 0; i < n; i++) {
        struct pending *one = *at(all[i].was);
        if (one && one->bytes > bytes) bytes = one->bytes;
    }
    before(&v, other_place(other, NOWHERE, bytes), bytes, NULL, NONE);
    unlock();
    return v;
}

/* A call that completes n requests; was_i and is_i are the C handles of request i before and after the call. */
#define WAITING(other, n, was_i, is_i, made)                                                                  \
    int64_t entered_ = ticks();                                                                               \
    if (!usable()) return made;                                                                               \
    int n_ = n_pending && (n) > 0 ? (n) : 0;                                                                  \
    struct awaited few_[32], *all_ = n_ > 32 ? malloc(n_ * sizeof *all_) : few_;                              \
    if (!all_) return made;                                                                                   \
    for (int i = 0; i < n_; i++) all_[i].was = (was_i);                                                       \
    struct call v_ = begins_to_wait(OTHER_##other, n_, all_);                                                 \
    int64_t took_ = 0;                                                                                        \
    inside++;                                                                                                 \
    if (v_.place) v_.begin = ticks();                                                                         \
    int code_ = made;                                                                                         \
    if (v_.place) took_ = after(&v_, ticks());                                                                \
    for (int i = 0; i < n_; i++) all_[i].is = (is_i);                                                         \
    inside--;                                                                                                 \
    waited(n_, all_, &v_, took_);                                                                             \
    if (all_ != few_) free(all_);                                                                             \
    LEFT                                                                                                      \
    return code_

int MPI_Wait(MPI_Request *r, MPI_Status *s) { WAITING(wait, 1, *r, *r, NEXT(Wait)(r, s)); }
int MPI_Waitall(int n, MPI_Request r[], MPI_Status s[]) { WAITING(waitall, n, r[i], r[i], NEXT(Waitall)(n, r, s)); }
int MPI_Waitany(int n, MPI_Request r[], int *j, MPI_Status *s) {
    WAITING(waitany, n, r[i], r[i], NEXT(Waitany)(n, r, j, s));
}
int MPI_Waitsome(int n, MPI_Request r[], int *m, int j[], MPI_Status s[]) {
    WAITING(waitsome, n, r[i], r[i], NEXT(Waitsome)(n, r, m, j, s));
}
int MPI_Test(MPI_Request *r, int *f, MPI_Status *s) { WAITING(test, 1, *r, *r, NEXT(Test)(r, f, s)); }
int MPI_Testall(int n, MPI_Request r[], int *f, MPI_Status s[]) {
    WAITING(testall, n, r[i], r[i], NEXT(Testall)(n, r, f, s));
}
int MPI_Testany(int n, MPI_Request r[], int *j, int *f, MPI_Status *s) {
    WAITING(testany, n, r[i], r[i], NEXT(Testany)(n, r, j, f, s));
}
int MPI_Testsome(int n, MPI_Request r[], int *m, int j[], MPI_Status s[]) {
    WAITING(testsome, n, r[i], r[i], NEXT(Testsome)(n, r, m, j, s));
}

int MPI_Request_free(MPI_Request *r) {
    if (n_pending && usable()) drop(*r);
    return NEXT(Request_free)(r);
}

/* Count requests that are started together; they share the time equally. */
static void started(int n, const MPI_Request *r, int64_t entered, int64_t begin, int64_t end) {
    lock();
    timed_ticks += end - begin;
    int alike = 0, at_ = 0;
    for (int i = 0; i < n; i++) alike += *at(r[i]) != NULL;
    for (int i = 0; i < n; i++) {
        struct pending *one = *at(r[i]);
        if (!one) continue;
        int64_t from = (end - begin) * at_ / alike; /* rounding loses no tick between them */
        at_++;
        struct cell *c = one->place->cell;
        c->calls++;
        c->bytes += one->bytes;
        c->counted++;
        derived(c, one->derived);
        add(c, (end - begin) * at_ / alike - from, 1, 1);
        c->added += (begin - entered + ticks() - end) / alike;
        spread_out(c->family, begin, end, 1. / alike);
    }
    unlock();
}

#define STARTING(n, list, call)                                                                               \
    int64_t entered_ = ticks();                                                                               \
    if (!n_pending || !usable()) return call;                                                                 \
    inside++;                                                                                                 \
    int64_t began_ = ticks();                                                                                 \
    int code_ = call;                                                                                         \
    started(n, list, entered_, began_, ticks());                                                                        \
    inside--;                                                                                                 \
    return code_

int MPI_Start(MPI_Request *r) { STARTING(1, r, NEXT(Start)(r)); }
int MPI_Startall(int n, MPI_Request r[]) { STARTING(n, r, NEXT(Startall)(n, r)); }
