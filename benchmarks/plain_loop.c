/* The loop that one would write by hand, for probe_fidelity.py: meet the other rank, read the clock, call. */
#include <mpi.h>

int plain_allreduce(MPI_Comm *comm, MPI_Comm *sync, void *send, void *recv, int floats, int calls, double *seconds)
{
    int rank;
    char told = 0, heard;
    MPI_Comm_rank(*sync, &rank);
    for (int i = 0; i < calls; i++) {
        MPI_Sendrecv(&told, 1, MPI_CHAR, 1 - rank, 0, &heard, 1, MPI_CHAR, 1 - rank, 0, *sync, MPI_STATUS_IGNORE);
        double begin = MPI_Wtime();
        int code = MPI_Allreduce(send, recv, floats, MPI_FLOAT, MPI_SUM, *comm);
        seconds[i] = MPI_Wtime() - begin;
        if (code != MPI_SUCCESS)
            return code;
    }
    return MPI_SUCCESS;
}
