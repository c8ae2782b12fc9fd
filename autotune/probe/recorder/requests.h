/* Requests of collectives: those that were begun, until they are waited for. */

static struct pending **at(MPI_Request request) {
    struct pending **at = &requests[BUCKET(request)];
    while (*at && (*at)->request != request) at = &(*at)->next;
    return at;
}

static void expect(MPI_Request request, struct place *p, struct comm *k, double bytes, int persistent) {
    struct pending *new = p && p->cell ? calloc(1, sizeof *new) : NULL;
    if (!new) return;
    *new = (struct pending){NULL, request, k, p, bytes, persistent};
    lock();
    struct pending **old = at(request);
    if (*old) { /* completed unseen, by MPI_Request_free say */
        new->next = (*old)->next;
        free(*old);
        *old = new;
    } else {
        *old = new;
        n_pending++;
    }
    unlock();
}

static void drop(MPI_Request request) {
    lock();
    struct pending **old = at(request), *gone = *old;
    if (gone) {
        *old = gone->next;
        free(gone);
        n_pending--;
    }
    unlock();
}

/* A wait or test of n requests took so long; those that are others now have completed. */
static void waited(int n, const MPI_Request *was, const MPI_Request *is, double seconds) {
    lock();
    int alike = 0;
    for (int i = 0; i < n; i++) alike += *at(was[i]) != NULL;
    for (int i = 0; i < n; i++) {
        struct pending **old = at(was[i]), *one = *old;
        if (!one) continue;
        one->place->cell->wait_s += seconds / alike;
        if (is[i] != was[i] && !one->persistent) {
            *old = one->next;
            free(one);
            n_pending--;
        }
    }
    unlock();
}

/* A call that completes requests: n of them, before and after as C knows them. */
#define WAITING(n, was_i, is_i, call)                                                                         \
    if (!n_pending || !usable() || (n) < 1) return call;                                                      \
    MPI_Request small_[64], *was_ = (n) > 32 ? malloc(2 * (n) * sizeof *was_) : small_, *is_ = was_ + (n);    \
    if (!was_) return call;                                                                                   \
    for (int i = 0; i < (n); i++) was_[i] = (was_i);                                                          \
    inside++;                                                                                                 \
    double began_ = now();                                                                                    \
    int code_ = call;                                                                                         \
    double took_ = since(began_);                                                                             \
    for (int i = 0; i < (n); i++) is_[i] = (is_i);                                                            \
    inside--;                                                                                                 \
    waited(n, was_, is_, took_);                                                                              \
    if (was_ != small_) free(was_);                                                                           \
    return code_

int MPI_Wait(MPI_Request *r, MPI_Status *s) { WAITING(1, *r, *r, REAL(Wait)(r, s)); }
int MPI_Waitall(int n, MPI_Request r[], MPI_Status s[]) { WAITING(n, r[i], r[i], REAL(Waitall)(n, r, s)); }
int MPI_Waitany(int n, MPI_Request r[], int *j, MPI_Status *s) {
    WAITING(n, r[i], r[i], REAL(Waitany)(n, r, j, s));
}
int MPI_Waitsome(int n, MPI_Request r[], int *m, int j[], MPI_Status s[]) {
    WAITING(n, r[i], r[i], REAL(Waitsome)(n, r, m, j, s));
}
int MPI_Test(MPI_Request *r, int *f, MPI_Status *s) { WAITING(1, *r, *r, REAL(Test)(r, f, s)); }
int MPI_Testall(int n, MPI_Request r[], int *f, MPI_Status s[]) {
    WAITING(n, r[i], r[i], REAL(Testall)(n, r, f, s));
}
int MPI_Testany(int n, MPI_Request r[], int *j, int *f, MPI_Status *s) {
    WAITING(n, r[i], r[i], REAL(Testany)(n, r, j, f, s));
}
int MPI_Testsome(int n, MPI_Request r[], int *m, int j[], MPI_Status s[]) {
    WAITING(n, r[i], r[i], REAL(Testsome)(n, r, m, j, s));
}

int MPI_Request_free(MPI_Request *r) {
    if (n_pending && usable()) drop(*r);
    return REAL(Request_free)(r);
}

/* Collectives among the requests are counted; all are started at once, so the time is shared by them. */
static void started(int n, const MPI_Request *r, double seconds) {
    lock();
    int alike = 0;
    for (int i = 0; i < n; i++) alike += *at(r[i]) != NULL;
    for (int i = 0; i < n; i++) {
        struct pending *one = *at(r[i]);
        if (!one) continue;
        struct cell *c = one->place->cell;
        c->calls++;
        c->bytes += one->bytes;
        c->timed++;
        c->weight += 1;
        c->weighted_s += seconds / alike;
    }
    unlock();
}

#define STARTING(n, list, call)                                                                               \
    if (!n_pending || !usable()) return call;                                                                 \
    inside++;                                                                                                 \
    double began_ = now();                                                                                    \
    int code_ = call;                                                                                         \
    started(n, list, since(began_));                                                                         \
    inside--;                                                                                                 \
    return code_

int MPI_Start(MPI_Request *r) { STARTING(1, r, REAL(Start)(r)); }
int MPI_Startall(int n, MPI_Request r[]) { STARTING(n, r, REAL(Startall)(n, r)); }
