/* Heat in a ring of ranks. Each rank has ROWS rows of WIDTH doubles, and in each step sends its outer rows to its neighbours.
   WIDTH, ROWS, STEPS. Rank 0 prints the heat of all, which no step changes. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, size, width = atoi(argv[1]), rows = atoi(argv[2]), steps = atoi(argv[3]);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int before = (rank + size - 1) % size, after = (rank + 1) % size;
    double *now = calloc((rows + 2) * width, sizeof *now), *next = calloc((rows + 2) * width, sizeof *next);
    now[width + rank] = 1.0;
    for (int step = 0; step < steps; step++) {
        MPI_Request requests[4];
        MPI_Irecv(now, width, MPI_DOUBLE, before, 1, MPI_COMM_WORLD, &requests[0]);
        MPI_Irecv(now + (rows + 1) * width, width, MPI_DOUBLE, after, 0, MPI_COMM_WORLD, &requests[1]);
        MPI_Isend(now + width, width, MPI_DOUBLE, before, 0, MPI_COMM_WORLD, &requests[2]);
        MPI_Isend(now + rows * width, width, MPI_DOUBLE, after, 1, MPI_COMM_WORLD, &requests[3]);
        MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
        for (int i = 1; i <= rows; i++)
            for (int j = 0; j < width; j++)
                next[i * width + j] =
                    0.5 * now[i * width + j] + 0.25 * (now[(i - 1) * width + j] + now[(i + 1) * width + j]);
        double *swap = now;
        now = next;
        next = swap;
    }
    double mine = 0.0, all;
    for (int i = width; i < (rows + 1) * width; i++)
        mine += now[i];
    MPI_Reduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("heat %.12f\n", all);
    MPI_Finalize();
    return 0;
}
