/* The limit of the prefix cache on disk, and two processes in one directory. */
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "engine/disk_fixture.h"
#include "support/temporary_directory.h"

/* Bytes of all files in the directory, and how many there are. */
static uint64_t directory_bytes(const char *path, int *count) {
    DIR *stream = opendir(path);
    assert_non_null(stream);
    uint64_t bytes = 0;
    *count = 0;
    const struct dirent *entry;
    while ((entry = readdir(stream)) != NULL) {
        struct stat info;
        if (entry->d_name[0] != '.' &&
            fstatat(dirfd(stream), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0) {
            bytes += (uint64_t)info.st_size;
            (*count)++;
        }
    }
    closedir(stream);
    return bytes;
}

static void set_age(const char *path, time_t seconds) {
    const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = time(NULL) - seconds}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static bool is_there(const char *path) {
    struct stat info;
    return lstat(path, &info) == 0;
}

/* A hundred pages through a directory with room for ten: never more, and the last one is there. */
static void the_directory_stays_below_its_limit(void **state) {
    (void)state;
    enum { PAGES = 100, LIMIT = 10 * DISK_PAGE_FILE_BYTES + 8 };
    struct prefix_disk *disk = disk_open("limited", 1, LIMIT);
    struct disk_page page = {0};
    int count;
    for (int32_t i = 0; i < PAGES; i++) {
        page = disk_page_after(disk, NULL, 10 * i);
        while (!disk_write(disk, &page, PREFIX_ENTRY_PAGE, false)) {
            usleep(500);
        }
        assert_true(directory_bytes("limited", &count) <= LIMIT + DISK_PAGE_FILE_BYTES);
    }
    struct prefix_disk_counters counters;
    do {
        counters = prefix_disk_counters(disk);
    } while (counters.writes < PAGES);
    bool has_draft_rows;
    assert_true(disk_read(disk, &page, PREFIX_ENTRY_PAGE, &has_draft_rows));
    prefix_disk_close(&disk);
    assert_true(directory_bytes("limited", &count) <= LIMIT);
    assert_true(count >= 8);
    assert_int_equal(counters.evicted, PAGES - count);
}

struct tree {
    struct prefix_disk *disk;
    struct disk_page root, left, left_end, right, other;
    int directory;
};

/* root - left - left_end (with a snapshot), root - right, other; each older than those named after it. */
static void make_tree(struct tree *tree, const char *path) {
    tree->disk = disk_open(path, 1, 1 << 20);
    tree->root = disk_page_after(tree->disk, NULL, 0);
    tree->left = disk_page_after(tree->disk, &tree->root, 10);
    tree->left_end = disk_page_after(tree->disk, &tree->left, 20);
    tree->right = disk_page_after(tree->disk, &tree->root, 30);
    tree->other = disk_page_after(tree->disk, NULL, 40);
    const struct disk_page *pages[] = {&tree->root, &tree->left, &tree->left_end, &tree->right, &tree->other};
    for (int i = 0; i < 5; i++) {
        while (!disk_write(tree->disk, pages[i], PREFIX_ENTRY_PAGE, false)) {
            usleep(500);
        }
    }
    while (!disk_write(tree->disk, &tree->left_end, PREFIX_ENTRY_SNAPSHOT, true)) {
        usleep(500);
    }
    while (prefix_disk_counters(tree->disk).writes < 6) {
        usleep(500);
    }
    for (int i = 0; i < 5; i++) {
        set_age(disk_path(path, pages[i], PREFIX_ENTRY_PAGE), 1000 - 100 * i);
    }
    set_age(disk_path(path, &tree->left_end, PREFIX_ENTRY_SNAPSHOT), 750);
    tree->directory = open(path, O_RDONLY | O_DIRECTORY);
    assert_true(tree->directory >= 0);
}

static void tear_down_tree(struct tree *tree) {
    close(tree->directory);
    prefix_disk_close(&tree->disk);
}

/* Beginnings outlive what builds on them, though they are older: else the rest would be of no use. */
static void ends_go_before_beginnings(void **state) {
    (void)state;
    struct tree tree;
    make_tree(&tree, "tree");
    struct {
        const struct disk_page *page;
        enum prefix_entry_kind kind;
    } const order[] = {{&tree.left_end, PREFIX_ENTRY_SNAPSHOT}, {&tree.left_end, PREFIX_ENTRY_PAGE},
                       {&tree.left, PREFIX_ENTRY_PAGE},         {&tree.right, PREFIX_ENTRY_PAGE},
                       {&tree.root, PREFIX_ENTRY_PAGE},         {&tree.other, PREFIX_ENTRY_PAGE}};
    enum { COUNT = sizeof order / sizeof order[0] };
    for (int i = 0; i < COUNT; i++) {
        int count;
        uint64_t bytes = directory_bytes("tree", &count);
        assert_int_equal(count, COUNT - i);
        struct prefix_files_usage usage;
        assert_int_equal(prefix_files_trim(tree.directory, bytes, bytes - 1, &usage), 0);
        assert_int_equal(usage.deleted, 0);
        assert_int_equal(usage.bytes, bytes);
        assert_int_equal(prefix_files_trim(tree.directory, bytes - 1, bytes - 1, &usage), 0);
        assert_int_equal(usage.deleted, 1);
        assert_false(is_there(disk_path("tree", order[i].page, order[i].kind)));
    }
    tear_down_tree(&tree);
}

/* A read is a use: the branch that was read stays, with all before it. */
static void what_was_read_stays(void **state) {
    (void)state;
    struct tree tree;
    make_tree(&tree, "used");
    bool has_draft_rows;
    assert_true(disk_read(tree.disk, &tree.left_end, PREFIX_ENTRY_SNAPSHOT, &has_draft_rows));
    struct prefix_files_usage usage;
    uint64_t left_bytes = 3 * DISK_PAGE_FILE_BYTES + DISK_SNAPSHOT_FILE_BYTES;
    assert_int_equal(prefix_files_trim(tree.directory, left_bytes, left_bytes, &usage), 0);
    assert_int_equal(usage.bytes, left_bytes);
    assert_int_equal(usage.deleted, 2);
    assert_false(prefix_disk_has(tree.disk, &tree.right.key, PREFIX_ENTRY_PAGE));
    assert_false(prefix_disk_has(tree.disk, &tree.other.key, PREFIX_ENTRY_PAGE));
    tear_down_tree(&tree);
}

/* Files of other names are neither counted nor deleted, but for what a writer left an hour ago. */
static void strange_files_are_left_alone(void **state) {
    (void)state;
    struct tree tree;
    make_tree(&tree, "strange");
    static const char *const names[] = {"notes.txt", "1.2.tmp", "a.page", "new.tmp"};
    for (int i = 0; i < 4; i++) {
        char path[64];
        snprintf(path, sizeof path, "strange/%s", names[i]);
        disk_file_write(path, "text", 4);
        set_age(path, i == 3 ? 60 : 7200);
    }
    struct prefix_files_usage usage;
    assert_int_equal(prefix_files_trim(tree.directory, 0, 0, &usage), 0);
    assert_int_equal(usage.deleted, 6);
    assert_int_equal(usage.bytes, 0);
    assert_true(is_there("strange/notes.txt"));
    assert_true(is_there("strange/a.page"));
    assert_true(is_there("strange/new.tmp"));
    assert_false(is_there("strange/1.2.tmp"));
    tear_down_tree(&tree);
}

static void names_are_read_back(void **state) {
    (void)state;
    struct prefix_key key = {.page_index = INT32_MAX};
    for (int i = 0; i < PREFIX_KEY_BYTES; i++) {
        key.digest[i] = (uint8_t)(i * 37 + 11);
        key.parent[i % PREFIX_PARENT_BYTES] = (uint8_t)(i * 91 + 160);
    }
    for (int kind = PREFIX_ENTRY_PAGE; kind <= PREFIX_ENTRY_SNAPSHOT; kind++) {
        struct prefix_file_name name = prefix_file_name_make(&key, (enum prefix_entry_kind)kind);
        assert_int_equal(strspn(name.text, "0123456789abcdef"), 2 * PREFIX_KEY_BYTES);
        struct prefix_key read;
        enum prefix_entry_kind read_kind;
        assert_true(prefix_file_name_parse(name.text, &read, &read_kind));
        assert_int_equal(read_kind, kind);
        assert_memory_equal(&read, &key, sizeof key);
        size_t length = strlen(name.text);
        for (size_t i = 0; i < length; i++) {
            struct prefix_file_name wrong = name;
            wrong.text[i] = 'X';
            assert_false(prefix_file_name_parse(wrong.text, &read, &read_kind));
            wrong.text[i] = '\0';
            assert_false(prefix_file_name_parse(wrong.text, &read, &read_kind));
        }
    }
}

/* Writes and reads its way through a directory that others use and that is too small for all. */
static int hammer(int process) {
    enum { PAGES = 40, WRITES = 1000 };
    struct prefix_disk *disk = disk_open("shared", 1, 20 * DISK_PAGE_FILE_BYTES);
    struct disk_page pages[PAGES];
    for (int32_t i = 0; i < PAGES; i++) {
        pages[i] = disk_page_after(disk, i % 4 == 0 ? NULL : &pages[i - 1], 100 * i);
    }
    uint32_t random = (uint32_t)process + 1;
    struct prefix_disk_counters counters = {0};
    while (counters.writes < WRITES && counters.failed_writes == 0) {
        counters = prefix_disk_counters(disk);
        random = random * 1664525u + 1013904223u;
        const struct disk_page *page = &pages[(random >> 8) % PAGES];
        enum prefix_entry_kind kind = random >> 31 == 0 ? PREFIX_ENTRY_PAGE : PREFIX_ENTRY_SNAPSHOT;
        bool has_draft_rows;
        if (!disk_read(disk, page, kind, &has_draft_rows)) {
            disk_write(disk, page, kind, kind == PREFIX_ENTRY_SNAPSHOT);
        } else if (has_draft_rows != (kind == PREFIX_ENTRY_SNAPSHOT)) {
            return 3;
        }
    }
    prefix_disk_close(&disk);
    return counters.hits == 0 ? 4 : counters.damaged != 0 ? 5 : counters.failed_writes != 0 ? 6 : 0;
}

/* Nobody ever reads half an entry or fails to write one; the limit holds but for what is under way. */
static void two_processes_share_a_directory(void **state) {
    (void)state;
    enum { PROCESSES = 2 };
    pid_t children[PROCESSES];
    for (int i = 0; i < PROCESSES; i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] == 0) {
            _exit(hammer(i));
        }
    }
    for (int i = 0; i < PROCESSES; i++) {
        int result;
        assert_int_equal(waitpid(children[i], &result, 0), children[i]);
        assert_true(WIFEXITED(result));
        assert_int_equal(WEXITSTATUS(result), 0);
    }
    int count;
    uint64_t limit = 20 * DISK_PAGE_FILE_BYTES;
    assert_true(directory_bytes("shared", &count) <=
                limit + PROCESSES * (limit / 8 + DISK_SNAPSHOT_FILE_BYTES));
}

int main(void) {
    log_set_level(LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_directory_stays_below_its_limit),
        cmocka_unit_test(ends_go_before_beginnings),
        cmocka_unit_test(what_was_read_stays),
        cmocka_unit_test(strange_files_are_left_alone),
        cmocka_unit_test(names_are_read_back),
        cmocka_unit_test(two_processes_share_a_directory),
    };
    return cmocka_run_group_tests_name("prefix_disk_limit", tests, enter_temporary_directory,
                                       leave_temporary_directory);
}
