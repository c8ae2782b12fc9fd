/* Requests: what was begun, until it is waited for. */

static struct pending **at(MPI_Request request) {
    struct pending **at = &requests[BUCKET(request)];
    while (*at && (*at)->request != request) at = &(*at)->next;
    return at;
}

static void expect(MPI_Request request, struct place *p, double bytes, int persistent) {
    if (!p || !p->cell) return;
    lock();
    struct pending **old = at(request), *one = *old; /* if there is one, it completed unseen */
    if (!one && (one = spare)) spare = one->next;
    else if (!one) one = malloc(sizeof *one);
    if (one) {
        struct pending *next = *old ? one->next : NULL;
        n_pending += !*old;
        *one = (struct pending){next, request, p, bytes, persistent};
        *old = one;
    }
    unlock();
}

/* It is waited for no more. */
static void done(struct pending **old) {
    struct pending *gone = *old;
    *old = gone->next;
    gone->next = spare;
    spare = gone;
    n_pending--;
}

static void drop(MPI_Request request) {
    lock();
    struct pending **old = at(request);
    if (*old) done(old);
    unlock();
}

/* A wait or test of n requests, which took so many ticks if it was timed; those that are others now have completed.
 * What it took is shared by those that it was for. */
static void waited(int n, const MPI_Request *was, const MPI_Request *is, struct call *v, int64_t took) {
    if (!n && !v->place) return;
    lock();
    int alike = 0;
    double weight = v->place ? v->weight : 0;
    for (int i = 0; i < n && v->place; i++) alike += *at(was[i]) != NULL;
    for (int i = 0; i < n; i++) {
        if (!alike && is[i] == was[i]) continue;
        struct pending **old = at(was[i]), *one = *old;
        if (!one) continue;
        if (alike) {
            struct cell *c = one->place->cell;
            c->wait += weight * took / alike;
            spread_out(c->family, v->begin, v->begin + took, weight / alike);
        }
        if (is[i] != was[i] && !one->persistent) done(old);
    }
    if (alike) v->place->cell->wait += weight * took;
    else if (v->place) spread_out(COMPLETION, v->begin, v->begin + took, weight);
    unlock();
}

/* A wait for them has the size of the largest: those alike are timed alike, or many short ones would hide a few long. */
static AWAY struct call awaited(enum other other, int n, const MPI_Request *all) {
    struct call v;
    double bytes = 0;
    lock();
    for (int i = 0; i < n; i++) {
        struct pending *one = *at(all[i]);
        if (one && one->bytes > bytes) bytes = one->bytes;
    }
    before(&v, other_place(other, NOWHERE, bytes), bytes, NULL, NONE);
    unlock();
    return v;
}

/* A call that completes requests: n of them, before and after as C knows them. */
#define WAITING(other, n, was_i, is_i, made)                                                                  \
    int64_t entered_ = ticks();                                                                               \
    if (!usable()) return made;                                                                               \
    int n_ = n_pending && (n) > 0 ? (n) : 0;                                                                  \
    MPI_Request small_[64], *was_ = n_ > 32 ? malloc(2 * n_ * sizeof *was_) : small_, *is_ = was_ + n_;       \
    if (!was_) return made;                                                                                   \
    for (int i = 0; i < n_; i++) was_[i] = (was_i);                                                           \
    struct call v_ = awaited(OTHER_##other, n_, was_);                                                        \
    int64_t took_ = 0;                                                                                        \
    inside++;                                                                                                 \
    if (v_.place) v_.begin = ticks();                                                                         \
    int code_ = made;                                                                                         \
    if (v_.place) took_ = after(&v_, ticks());                                                                \
    for (int i = 0; i < n_; i++) is_[i] = (is_i);                                                             \
    inside--;                                                                                                 \
    waited(n_, was_, is_, &v_, took_);                                                                        \
    if (was_ != small_) free(was_);                                                                           \
    LEFT                                                                                                      \
    return code_

int MPI_Wait(MPI_Request *r, MPI_Status *s) { WAITING(wait, 1, *r, *r, REAL(Wait)(r, s)); }
int MPI_Waitall(int n, MPI_Request r[], MPI_Status s[]) { WAITING(waitall, n, r[i], r[i], REAL(Waitall)(n, r, s)); }
int MPI_Waitany(int n, MPI_Request r[], int *j, MPI_Status *s) {
    WAITING(waitany, n, r[i], r[i], REAL(Waitany)(n, r, j, s));
}
int MPI_Waitsome(int n, MPI_Request r[], int *m, int j[], MPI_Status s[]) {
    WAITING(waitsome, n, r[i], r[i], REAL(Waitsome)(n, r, m, j, s));
}
int MPI_Test(MPI_Request *r, int *f, MPI_Status *s) { WAITING(test, 1, *r, *r, REAL(Test)(r, f, s)); }
int MPI_Testall(int n, MPI_Request r[], int *f, MPI_Status s[]) {
    WAITING(testall, n, r[i], r[i], REAL(Testall)(n, r, f, s));
}
int MPI_Testany(int n, MPI_Request r[], int *j, int *f, MPI_Status *s) {
    WAITING(testany, n, r[i], r[i], REAL(Testany)(n, r, j, f, s));
}
int MPI_Testsome(int n, MPI_Request r[], int *m, int j[], MPI_Status s[]) {
    WAITING(testsome, n, r[i], r[i], REAL(Testsome)(n, r, m, j, s));
}

int MPI_Request_free(MPI_Request *r) {
    if (n_pending && usable()) drop(*r);
    return REAL(Request_free)(r);
}

/* All are started at once, so the time is shared by them. */
static void started(int n, const MPI_Request *r, int64_t entered, int64_t begin, int64_t end) {
    lock();
    int alike = 0;
    for (int i = 0; i < n; i++) alike += *at(r[i]) != NULL;
    for (int i = 0; i < n; i++) {
        struct pending *one = *at(r[i]);
        if (!one) continue;
        struct cell *c = one->place->cell;
        c->calls++;
        c->bytes += one->bytes;
        c->counted++;
        add(c, (end - begin) / alike, 1, 1);
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

int MPI_Start(MPI_Request *r) { STARTING(1, r, REAL(Start)(r)); }
int MPI_Startall(int n, MPI_Request r[]) { STARTING(n, r, REAL(Startall)(n, r)); }
