/* Access to the MPI that the program has loaded: its functions are looked up, and nothing is linked to it. */

static int in_library(struct dl_phdr_info *info, size_t size, void *found) {
    const char *slash = strrchr(info->dlpi_name, '/'), *name = slash ? slash + 1 : info->dlpi_name;
    (void)size;
    if (strncmp(name, "libmpi", 6) && !strstr(name, "ccl")) return 0;
    void **ask = found, *library = dlopen(info->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
    if (library) ask[1] = dlsym(library, ask[0]);
    return ask[1] != NULL;
}

/* Return a symbol of the MPI in this process, even if only a Python module has loaded this MPI; NULL: no such symbol.
 */
static void *symbol(const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    if (found) return found;
    void *ask[2] = {(void *)name, NULL};
    dl_iterate_phdr(in_library, ask);
    return ask[1];
}

static void *needed(const char *name) {
    void *found = symbol(name);
    if (found) return found;
    fprintf(stderr, "autotune record: no %s in the MPI of this program\n", name);
    _exit(127);
}

/* Return the function that the program would call without this library: another preloaded tool's function, or MPI's. */
static void *following(const char *name, const char *profiled) {
    void *found = dlsym(RTLD_NEXT, name);
    return found ? found : needed(profiled);
}

/* A function that is looked up once, by whichever thread comes first. */
#define FOUND(real) __atomic_load_n(&real, __ATOMIC_RELAXED)
#define LOOKED_UP(real, name)                                                                                 \
    ({                                                                                                        \
        __typeof__(real) found_ = FOUND(real);                                                                \
        if (!found_) __atomic_store_n(&real, found_ = (__typeof__(real))needed(name), __ATOMIC_RELAXED);      \
        found_;                                                                                               \
    })
#define REAL(Name) CALLED(Name, "PMPI_" #Name)
/* Calls that other tools in this process must see too: begin and end of MPI, creation and freeing of communicators. */
#define NEXT(Name) CALLED(Name, "MPI_" #Name)
#define CALLED(Name, name)                                                                                    \
    ({                                                                                                        \
        static __typeof__(&MPI_##Name) real;                                                                  \
        LOOKED_UP(real, name);                                                                                \
    })

#ifdef OPEN_MPI
/* Constants are addresses of variables, in the library or copied from it into the program. */
static void *constant(const char *name) {
    void *found = dlsym(RTLD_DEFAULT, name);
    return found ? found : needed(name);
}
#define WORLD ((MPI_Comm)constant("ompi_mpi_comm_world"))
#define BYTE ((MPI_Datatype)constant("ompi_mpi_byte"))
#define NO_INFO ((MPI_Info)constant("ompi_mpi_info_null"))
#define NO_COMM ((MPI_Comm)constant("ompi_mpi_comm_null"))
#define MADE_FOR "Open MPI"
#else
#define WORLD MPI_COMM_WORLD
#define BYTE MPI_BYTE
#define NO_INFO MPI_INFO_NULL
#define NO_COMM MPI_COMM_NULL
#define MADE_FOR "MPICH"
#endif
