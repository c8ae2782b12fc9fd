/* decide.h as a library for users without MPI (benchmarks/online.py, tests). */
#define API
#include "decide.h"
