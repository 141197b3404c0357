#include "text/grammar/compile_work.h"

struct compile_work {
    uint64_t left;
    bool is_limited;
    bool is_over;
};

static _Thread_local struct compile_work work;

void compile_work_begin(uint64_t limit) {
    work = (struct compile_work){.left = limit, .is_limited = true};
}

void compile_work_end(void) {
    work.is_limited = false;
}

bool compile_work_spend(uint64_t units) {
    if (!work.is_limited) {
        return true;
    }
    work.is_over = work.is_over || units > work.left;
    work.left -= units > work.left ? work.left : units;
    return !work.is_over;
}

bool compile_work_is_over(void) {
    return work.is_over;
}
