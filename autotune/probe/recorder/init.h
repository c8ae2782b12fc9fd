/* Where the application's MPI begins: `begun` of who includes it follows. */

int MPI_Init(int *n, char ***words) {
    check_mpi();
    int code = NEXT(Init)(n, words);
    if (code == MPI_SUCCESS) begun();
    return code;
}
int MPI_Init_thread(int *n, char ***words, int required, int *provided) {
    check_mpi();
    int code = NEXT(Init_thread)(n, words, required, provided);
    if (code == MPI_SUCCESS) begun();
    return code;
}
