/* decide.h for whoever drives it without MPI (benchmarks/online.py, tests). */
#define API
#include "decide.h"
