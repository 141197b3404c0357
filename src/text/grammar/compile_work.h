/*
 * How much work it takes to compile a grammar, counted where it can blow up, and the limit that a thread has
 * set itself: what is refused does not depend on how fast a machine is. A unit is a visit of an edge or a
 * state, of which a processor makes some hundred million in a second. One count for each thread.
 */
#ifndef SLUICE_TEXT_GRAMMAR_COMPILE_WORK_H
#define SLUICE_TEXT_GRAMMAR_COMPILE_WORK_H

#include <stdbool.h>
#include <stdint.h>

/* Counts from 0 on; nothing is limited before, and behind compile_work_end. */
void compile_work_begin(uint64_t limit);
void compile_work_end(void);

/* False: the limit is crossed, and there is no point in going on. */
bool compile_work_spend(uint64_t units);

/* Whether it was, since the last beginning. */
bool compile_work_is_over(void);

#endif
