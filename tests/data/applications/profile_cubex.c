/* Writes profile.cubex of known calls by CubeW, the library by which Score-P writes its profiles.
 *
 *     cc -I$CUBEW/include profile_cubex.c -L$CUBEW/lib -lcube4w -lz -o profile_cubex && ./profile_cubex
 *
 * Four ranks on two nodes, the second with a thread that calls no MPI. Bytes are counted as Score-P does: what a
 * flat algorithm would move, a rank's own block included. */
#include <stdint.h>
#include <string.h>

#include "cubew_cube.h"

enum { RANKS = 4, PLACES = 5, CALLS = 15 };

/* Name, ranks that come through it, calls of each, seconds of each call, bytes of a block; what rank r of n sends
 * and receives, with rank 0 the root. */
static const struct {
    const char *name;
    int first, ranks, calls;
    double seconds;
    uint64_t block;
} KNOWN[CALLS] = {
    {"MPI_Allreduce", 0, 4, 100, 1e-3, 64}, {"MPI_Allreduce", 0, 4, 50, 2e-3, 4096},
    {"MPI_Allreduce", 2, 2, 10, 1e-3, 64},  {"MPI_Bcast", 0, 4, 30, 1e-4, 256},
    {"MPI_Gather", 0, 4, 20, 1e-4, 32},     {"MPI_Alltoall", 0, 4, 40, 5e-4, 1024},
    {"MPI_Scan", 0, 4, 5, 1e-5, 8},         {"MPI_Barrier", 0, 4, 25, 1e-5, 0},
    {"MPI_Iallreduce", 0, 4, 15, 1e-6, 0},  {"MPI_Send", 0, 4, 1000, 1e-6, 1 << 20},
    {"MPI_Reduce_c", 0, 4, 8, 1e-4, 128},   {"MPI_Scatter", 0, 4, 12, 1e-4, 512},
    {"MPI_Exscan", 0, 4, 6, 1e-5, 16},      {"MPI_Allgather", 0, 4, 9, 1e-4, 2048},
    {"MPI_Allreduce_init", 0, 4, 1, 1e-6, 0},
};

static void moved(const char *name, int rank, int ranks, uint64_t block, uint64_t *sent, uint64_t *received) {
    uint64_t all = ranks * block;
    *sent = *received = all;
    if (!strcmp(name, "MPI_Bcast")) *sent = rank ? 0 : all, *received = block;
    if (!strcmp(name, "MPI_Scatter")) *sent = rank ? 0 : all, *received = block;
    if (!strcmp(name, "MPI_Exscan")) *sent = (ranks - rank - 1) * block, *received = rank * block;
    if (!strcmp(name, "MPI_Gather") || !strcmp(name, "MPI_Reduce_c")) *sent = block, *received = rank ? 0 : all;
    if (!strcmp(name, "MPI_Scan")) *sent = (ranks - rank) * block, *received = (rank + 1) * block;
    if (!strcmp(name, "MPI_Send")) *sent = block, *received = 0;
}

int main(void) {
    cube_t *cube = cube_create("profile", CUBE_MASTER, CUBE_FALSE);
    cube_def_attr(cube, "Creator", "profile_cubex.c");
    cube_metric *visits = cube_def_met(cube, "Visits", "visits", "UINT64", "occ", "", "", "", NULL, CUBE_METRIC_EXCLUSIVE);
    cube_metric *time = cube_def_met(cube, "Time", "time", "DOUBLE", "sec", "", "", "", NULL, CUBE_METRIC_INCLUSIVE);
    cube_metric *bytes[2] = {
        cube_def_met(cube, "Bytes sent", "bytes_sent", "UINT64", "bytes", "", "", "", NULL, CUBE_METRIC_EXCLUSIVE),
        cube_def_met(cube, "Bytes received", "bytes_received", "UINT64", "bytes", "", "", "", NULL, CUBE_METRIC_EXCLUSIVE)};
    cube_region *program = cube_def_region(cube, "main", "main", "compiler", "function", 1, 99, "", "", "app.c");
    cube_cnode *top = cube_def_cnode(cube, program, NULL), *nodes[CALLS];
    for (int i = 0; i < CALLS; i++) {
        const char *name = KNOWN[i].name;
        cube_region *region = cube_def_region(cube, name, name, "mpi", "coll_other", -1, -1, "", "", "MPI");
        nodes[i] = cube_def_cnode(cube, region, top);
    }
    cube_system_tree_node *machine = cube_def_system_tree_node(cube, "machine", "", "machine", NULL), *node = NULL;
    for (int rank = 0; rank < RANKS; rank++) {
        if (rank % 2 == 0) node = cube_def_system_tree_node(cube, rank ? "node1" : "node0", "", "node", machine);
        cube_location_group *group = cube_def_location_group(cube, "MPI Rank", rank, CUBE_LOCATION_GROUP_TYPE_PROCESS, node);
        cube_def_location(cube, "Master thread", 0, CUBE_LOCATION_TYPE_CPU_THREAD, group);
        if (rank == RANKS - 1) cube_def_location(cube, "OMP thread 1", 1, CUBE_LOCATION_TYPE_CPU_THREAD, group);
    }
    char all[(CALLS + 1) / 8]; /* of the call paths have values */
    memset(all, 0xff, sizeof all);
    cube_metric *metrics[] = {visits, time, bytes[0], bytes[1]};
    for (int i = 0; i < 4; i++) cube_set_known_cnodes_for_metric(cube, metrics[i], all);
    uint64_t row[PLACES];
    double seconds[PLACES] = {10.0, 9.5, 9.5, 9.0, 8.0}, mpi[PLACES];
    for (int i = -1; i < CALLS; i++) {
        memset(row, 0, sizeof row);
        for (int r = 0; r < RANKS; r++)
            row[r] = i < 0 ? 1 : r >= KNOWN[i].first && r < KNOWN[i].first + KNOWN[i].ranks ? KNOWN[i].calls : 0;
        cube_write_sev_row_of_uint64(cube, visits, i < 0 ? top : nodes[i], row);
    }
    cube_write_sev_row_of_doubles(cube, time, top, seconds);
    for (int i = 0; i < CALLS; i++) {
        for (int r = 0; r < PLACES; r++)
            mpi[r] = r < RANKS && r >= KNOWN[i].first ? KNOWN[i].calls * KNOWN[i].seconds : 0;
        cube_write_sev_row_of_doubles(cube, time, nodes[i], mpi);
    }
    for (int way = 0; way < 2; way++)
        for (int i = 0; i < CALLS; i++) {
            memset(row, 0, sizeof row);
            for (int r = KNOWN[i].first; r < KNOWN[i].first + KNOWN[i].ranks; r++) {
                uint64_t one[2];
                moved(KNOWN[i].name, r - KNOWN[i].first, KNOWN[i].ranks, KNOWN[i].block, one, one + 1);
                row[r] = KNOWN[i].calls * one[way];
            }
            cube_write_sev_row_of_uint64(cube, bytes[way], nodes[i], row);
        }
    cube_free(cube);
    return 0;
}
