/* Turns: several jobs are alive on the same cores, and one of them runs.
 *
 * Such a group of jobs is a heat. Its jobs share one small file on each node. The word `turn` of the file counts turns;
 * `order` gives the job of each turn. Ranks of all other jobs sleep in a futex. On each node, the last rank of a job to
 * leave its turn passes the turn to the next job. So no message between nodes is needed, and on a node no rank of the
 * next job wakes while a rank of the last job still runs.
 *
 * A job that ends early must not stop the others. Each rank holds a lock on a byte of the file, which the kernel
 * releases however the rank ends. One sleeping rank of each job checks now and then whether the ranks of the running
 * job still hold their locks, and whether their turn has lasted for too long. Then that job is taken out: its ranks are
 * killed, and the turn passes.
 *
 * References:
 *     U. Drepper: Futexes are tricky (2011), section 2; fcntl(2), "Open file description locks". */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MOST_JOBS = 16, MOST_MEMBERS = 1024 }; /* as in turns.py */
enum job_state { ABSENT, IN, DONE, DIED, STUCK };
enum { TAKEN_OUT = -1, NOBODY_PASSES = -2 };

struct turns {
    int turn;
    int64_t since_ns; /* start of the turn, on CLOCK_MONOTONIC */
    int64_t end_ns; /* time at which the last round begins; 0: nothing was timed yet */
    struct job {
        int state, members, joined, left;
        uint64_t namespace; /* the PID namespace of the job's processes on this node */
        int pids[MOST_MEMBERS];
    } jobs[MOST_JOBS];
};

size_t autotune_turns_bytes(void)
{
    return sizeof(struct turns);
}

int autotune_turns_state(const struct turns *t, int job)
{
    return __atomic_load_n(&t->jobs[job].state, __ATOMIC_ACQUIRE);
}

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static long futex(int *word, int operation, int value, const struct timespec *limit)
{
    return syscall(SYS_futex, word, operation, value, limit, NULL, 0);
}

static struct flock lock_of(int job, int member, short type)
{
    return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = job * MOST_MEMBERS + member, .l_len = 1};
}

/* Return the PID namespace of this process; in another namespace (container) a number means another process. */
static uint64_t pid_namespace(void)
{
    struct stat about;
    return stat("/proc/self/ns/pid", &about) ? 0 : about.st_ino;
}

static int change(struct job *j, int from, int to)
{
    return __atomic_compare_exchange_n(&j->state, &from, to, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

/* Become a member of a job that has `members` on this node; return 0 or the number of the error. */
int autotune_turns_join(struct turns *t, int file, int job, int member, int members)
{
    struct flock lock = lock_of(job, member, F_WRLCK);
    if (fcntl(file, F_OFD_SETLK, &lock))
        return errno;
    struct job *j = &t->jobs[job];
    j->pids[member] = getpid();
    j->namespace = pid_namespace();
    __atomic_store_n(&j->members, members, __ATOMIC_RELEASE);
    if (__atomic_add_fetch(&j->joined, 1, __ATOMIC_ACQ_REL) == members) {
        __atomic_store_n(&t->since_ns, now_ns(), __ATOMIC_RELEASE);
        change(j, ABSENT, IN);
    }
    return 0;
}

/* Mark a job that has not joined as dead, so that the other jobs start without it. */
void autotune_turns_without(struct turns *t, int job)
{
    change(&t->jobs[job], ABSENT, DIED);
}

/* Return whether a member of a job is still alive, by its lock. */
static int lives(int file, int job, int member)
{
    struct flock lock = lock_of(job, member, F_WRLCK);
    return fcntl(file, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

static void pass(struct turns *t, int turn)
{
    int expected = turn;
    __atomic_store_n(&t->since_ns, now_ns(), __ATOMIC_RELEASE);
    if (__atomic_compare_exchange_n(&t->turn, &expected, turn + 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        futex(&t->turn, FUTEX_WAKE, INT_MAX, NULL);
}

/* Take a job out of the heat if a rank of it has died or its turn began more than `limit_s` ago, and kill its ranks. */
static void look_after(struct turns *t, int file, int job, double limit_s)
{
    struct job *j = &t->jobs[job];
    int found = IN;
    for (int m = 0; m < j->members && found == IN; m++)
        if (!lives(file, job, m))
            found = DIED;
    if (found == IN && (double)(now_ns() - __atomic_load_n(&t->since_ns, __ATOMIC_ACQUIRE)) > 1e9 * limit_s)
        found = STUCK;
    if (found == IN || !change(j, IN, found) || !j->namespace || j->namespace != pid_namespace())
        return;
    for (int m = 0; m < j->members; m++)
        if (lives(file, job, m))
            kill(j->pids[m], SIGKILL);
}

/* Return the seconds until the last round, which begins `seconds` after the first call of this function on the node. */
double autotune_turns_left(struct turns *t, double seconds)
{
    int64_t end_ns = 0, now = now_ns();
    int64_t wanted_ns = now + (int64_t)(1e9 * seconds);
    if (__atomic_compare_exchange_n(&t->end_ns, &end_ns, wanted_ns, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        end_ns = wanted_ns;
    return 1e-9 * (double)(end_ns - now);
}

/* Sleep until it is this job's turn, and return the turn's number; below 0: the reason why the turn never comes.
 *
 * Job -1 - j is job j after its last turn; it sleeps until no job measures any more. `after` is the turn that this rank
 * has left, while other ranks of its job may still be in that turn. `order` gives the job of each turn of a period.
 * `looks`: whether this rank checks that other jobs are alive. With `comm`, messages make progress meanwhile, since a
 * rank of the same job on another node may wait for a message. */
int autotune_turns_wait(struct turns *t, int file, int job, int after, const int *order, int period, int looks,
                        double limit_s, MPI_Comm *comm)
{
    const struct timespec often = {0, 20000000};
    int64_t patience_ns = (int64_t)(2e9 * limit_s) + 10000000000, begun_ns = now_ns();
    int before = -1, own = job < 0 ? -1 - job : job;
    for (;;) {
        int turn = __atomic_load_n(&t->turn, __ATOMIC_ACQUIRE), holder = order[turn % period];
        if (job >= 0 && autotune_turns_state(t, job) != IN)
            return TAKEN_OUT;
        if (job < 0) {
            int in = 0;
            for (int other = 0; other < MOST_JOBS; other++)
                in += autotune_turns_state(t, other) == IN;
            if (!in)
                return turn;
        }
        if (holder == job && turn > after)
            return turn;
        if (autotune_turns_state(t, holder) != IN) {
            pass(t, turn);
            continue;
        }
        if (turn != before) {
            before = turn;
            begun_ns = now_ns();
        }
        if (futex(&t->turn, FUTEX_WAIT, turn, &often) == 0 || errno != ETIMEDOUT)
            continue;
        if (looks && holder != own) /* a rank does not see its own lock */
            look_after(t, file, holder, limit_s);
        if (comm) {
            int flag;
            MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, *comm, &flag, MPI_STATUS_IGNORE);
        }
        if (now_ns() - begun_ns > patience_ns)
            return NOBODY_PASSES;
    }
}

/* Leave the turn; the job's last rank on this node to leave it passes it on. `done`: the job needs no more turns. */
void autotune_turns_leave(struct turns *t, int job, int turn, int done)
{
    struct job *j = &t->jobs[job];
    if (__atomic_add_fetch(&j->left, 1, __ATOMIC_ACQ_REL) < j->members)
        return;
    __atomic_store_n(&j->left, 0, __ATOMIC_RELEASE);
    if (done)
        change(j, IN, DONE);
    pass(t, turn);
}
