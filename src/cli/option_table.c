/* Groups in the order in which --help shows them. Spellings follow vLLM where it has the option. */
#include "cli/option_table.h"

#include "cli/option_groups.h"

const struct option_table *cli_option_table(void) {
    static const struct option_group *const groups[] = {
        &cli_file_options,         &cli_prompt_options, &cli_answer_options,     &cli_output_options,
        &cli_bench_options,        &cli_load_options,   &cli_evaluation_options, &cli_check_options,
        &cli_conversation_options, &cli_layout_options, &cli_server_options,     &cli_engine_options,
        &cli_general_options};
    static const struct option_table table = {groups, sizeof groups / sizeof groups[0]};
    return &table;
}

bool cli_replicas_share_experts(const struct cli_options *options) {
    return options->data_parallel_size > 1 && options->enable_expert_parallel_given &&
           options->enable_expert_parallel;
}
