/* Beginning of the application's MPI; the including file defines `begun`. */

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
