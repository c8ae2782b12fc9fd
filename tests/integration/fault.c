/* Preloaded under the probe: a library with a broken allreduce and an alltoall that swaps blocks. */
#include <mpi.h>
#include <string.h>

int MPI_Allreduce(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    int code = PMPI_Allreduce(send, recv, count, type, op, comm);
    if (count == 1024 && type == MPI_FLOAT)
        ((float *)recv)[1023] += 1;
    return code;
}

int MPI_Alltoall(const void *send, int n, MPI_Datatype type, void *recv, int m, MPI_Datatype into, MPI_Comm comm)
{
    int code = PMPI_Alltoall(send, n, type, recv, m, into, comm), size;
    char block[4096];
    MPI_Type_size(type, &size);
    if (n * size == sizeof block) {
        memcpy(block, recv, sizeof block);
        memmove(recv, (char *)recv + sizeof block, sizeof block);
        memcpy((char *)recv + sizeof block, block, sizeof block);
    }
    return code;
}

int MPI_Bcast(void *data, int count, MPI_Datatype type, int root, MPI_Comm comm)
{
    return count == 1024 && type == MPI_FLOAT ? MPI_ERR_ARG : PMPI_Bcast(data, count, type, root, comm);
}
