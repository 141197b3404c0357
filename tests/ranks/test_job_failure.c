/*
 * A test that fails with an engine open ends the job at once: test_job_failure MODEL_DIR, by mpirun. What is
 * tested is support/job_fixture.h; CMakeLists.txt looks for the sentence, within a deadline.
 */
#include <stdio.h>

#include "sluice/engine.h"
#include "support/job_fixture.h"
#include "support/model_fixture.h"

static int lead(void *context, struct sluice_job *job) {
    struct sluice_engine_options options = sluice_engine_options_default();
    struct sluice_engine *engine;
    options.model_directory = context;
    options.thread_count = 1;
    options.parallel.job = job;
    options.parallel.pipeline = sluice_job_size(job);
    EXPECT_OK(sluice_engine_open(&options, &engine));
    puts("this test fails on purpose");
    return 1;
}

int main(int argument_count, char **arguments) {
    char *directory = argument_count > 1 ? arguments[1] : "";
    return job_fixture_main(directory, 10, lead, directory);
}
