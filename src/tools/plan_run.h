/* A whole planning job: files in, report out. */
#ifndef SLUICE_TOOLS_PLAN_RUN_H
#define SLUICE_TOOLS_PLAN_RUN_H

#include "base/string_buffer.h"
#include "tools/plan.h"

struct plan_job {
    const char *config_path;     /* or: */
    const char *model_directory; /* a checkpoint, whose headers are checked too */
    struct plan_machine_request machine;
    struct plan_request request; /* context_tokens 0: 4096, or the model's limit if that is less */
    bool has_layout;             /* the request's mesh; without it the best ones are searched for */
    const char *scale;           /* numbers of ranks; NULL: none */
    bool is_json;
};

/* Appends the report. OUT_OF_MEMORY with the ledger if no layout fits. */
enum status plan_run(const struct plan_job *job, struct string_buffer *out);

#endif
