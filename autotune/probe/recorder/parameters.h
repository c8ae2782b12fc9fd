/* Parameters: by value in C, by address in Fortran. Types: N count, D displacement, W displacement in bytes, I integer,
 * T datatype, O operation, H communicator. */
#define VOID(x) void *x
#define CVOID(x) const void *x
#define NUM(x) N BY x
#define NUMS(x) const N x[]
#define AT(x) const D x[]
#define ATW(x) const W x[]
#define ATN(x) const MPI_Aint x[]
#define INT(x) I BY x
#define DT(x) T BY x
#define DTS(x) const T x[]
#define OP(x) O BY x
#define COMM(x) H BY x
#define GROUP(x) G BY x
#define WIN(x) MW BY x
#define FH(x) F_ BY x
#define INFO(x) J BY x
#define OFF(x) MPI_Offset BY x
#define AINT(x) MPI_Aint BY x
#define STATUS(x) S *x
#define NUMBER(x) I *x
#define MESSAGES(x) M *x
#define COMMS(x) H *x
#define WINS(x) MW *x
#define FHS(x) F_ *x
#define VAL(x) (BY x)
#define KEY(x) ((int64_t)(intptr_t)VAL(x))
#define ALIKE(n, t) (int64_t) VAL(n), KEY(t)
#define ALL_ALIKE 0, 0
#define UNALIKE -1, 0

/* Helpers of the preprocessor. */
#define OPEN(...) __VA_ARGS__
#define TEXT(x) TEXT_(x)
#define TEXT_(x) #x
