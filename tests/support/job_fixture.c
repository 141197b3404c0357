/* Open MPI says in the environment which process this is. */
#include "support/job_fixture.h"

#include <stdlib.h>

#include "support/model_fixture.h"

int job_fixture_rank(void) {
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    return rank == NULL ? -1 : atoi(rank);
}

int job_fixture_main(const char *directory, double deadline_seconds,
                     int (*lead)(void *context, struct sluice_job *job), void *context) {
    struct sluice_job *job;
    if (job_fixture_rank() < 0) {
        return lead(context, NULL);
    }
    EXPECT_OK(sluice_job_join(&(struct sluice_job_options){.deadline_seconds = deadline_seconds}, &job));
    if (sluice_job_rank(job) == 0) {
        int failures = lead(context, job);
        if (failures != 0) {
            return failures;
        }
    } else {
        struct sluice_engine_options own = sluice_engine_options_default();
        own.model_directory = directory;
        EXPECT_OK(sluice_job_follow(job, &own));
    }
    sluice_job_leave(&job);
    return EXIT_SUCCESS;
}
