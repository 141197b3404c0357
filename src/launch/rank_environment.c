/* What Open MPI's mpirun and Slurm's PMIx plug-in tell the processes that they start. */
#include "launch/rank_environment.h"

#include <stdlib.h>

struct rank_environment rank_environment_read(void) {
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    const char *count = getenv("OMPI_COMM_WORLD_SIZE");
    if (rank == NULL || count == NULL) {
        rank = getenv("PMIX_RANK");
        count = getenv("SLURM_NTASKS");
    }
    bool is_rank = rank != NULL && count != NULL;
    return (struct rank_environment){
        .is_rank = is_rank,
        .rank = is_rank ? atoi(rank) : 0,
        .rank_count = is_rank ? atoi(count) : 1,
        .control = getenv(RANK_ENVIRONMENT_CONTROL),
        .key = getenv(RANK_ENVIRONMENT_KEY),
    };
}
