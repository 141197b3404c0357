/*
 * For LD_PRELOAD: a disk that stops in the middle of loading. The rank that SLOW_LOAD_RANK names maps its
 * SLOW_LOAD_CALL-th checkpoint file, counted from 1, after a minute; before that it makes the file
 * SLOW_LOAD_MARK, so that a test knows where it is.
 */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SECONDS = 60, PATH_BYTES = 4096 };

static int is_checkpoint_file(int descriptor) {
    char link[64];
    char path[PATH_BYTES];
    static const char ending[] = ".safetensors";
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, sizeof path);
    size_t tail = sizeof ending - 1;
    return length >= (ssize_t)tail && memcmp(path + (size_t)length - tail, ending, tail) == 0;
}

static int is_here(int call) {
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    const char *wanted_rank = getenv("SLOW_LOAD_RANK");
    const char *wanted_call = getenv("SLOW_LOAD_CALL");
    return rank != NULL && wanted_rank != NULL && wanted_call != NULL && strcmp(rank, wanted_rank) == 0 &&
           atoi(wanted_call) == call;
}

void *mmap(void *address, size_t length, int protection, int flags, int descriptor, off_t offset) {
    static atomic_int calls;
    if (descriptor >= 0 && is_checkpoint_file(descriptor) && is_here(atomic_fetch_add(&calls, 1) + 1)) {
        close(open(getenv("SLOW_LOAD_MARK"), O_WRONLY | O_CREAT, 0600));
        sleep(SECONDS);
    }
    /* The C library's own would be this function. */
    return (void *)syscall(SYS_mmap, address, length, protection, flags, descriptor, offset);
}
