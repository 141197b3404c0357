/*
 * Orders about prefixes on disk among the rounds of a leader: sent at once, carried out by every rank behind
 * the rounds that it has started before, and answered without anyone waiting for it.
 *
 * A rank's answer comes before its part in the round that is started next, on the same way. So all answers
 * are taken when that round is finished, where they have long been there; without such a round they are
 * waited for when nothing else is under way. At most one question is open.
 */
#ifndef SLUICE_ENGINE_ROUND_PREFIXES_H
#define SLUICE_ENGINE_ROUND_PREFIXES_H

#include "engine/plan_record.h"
#include "engine/round.h"

/* What all stages but the leader's own have said. */
struct prefix_answers {
    int32_t lowest_end; /* INT32_MAX: there are no others */
    int32_t highest_end;
    bool has_draft_rows; /* all of them */
};

/* Sends an order to all other ranks. FIND and LOAD open a question, if there are other stages. */
enum status round_order_prefixes(struct round_runner *runner, const struct plan_record *record);

/* Whether the last question has been answered; with nothing at all, if a rank was lost. */
bool round_has_prefix_answers(const struct round_runner *runner, struct prefix_answers *out);

/* Waits for the answers to the last question, if it is open; when no round is under way. */
enum status round_take_prefix_answers(struct round_runner *runner);

#endif
