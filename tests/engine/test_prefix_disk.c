/* The prefix cache on disk: what is written comes back, and nothing else does. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "engine/disk_fixture.h"
#include "support/temporary_directory.h"

enum { PLENTY = 1 << 20 };

static mode_t mode_of(const char *path) {
    struct stat info;
    assert_int_equal(lstat(path, &info), 0);
    return info.st_mode & 07777;
}

static bool is_there(const char *path) {
    struct stat info;
    return lstat(path, &info) == 0;
}

static void entries_come_back_after_a_restart(void **state) {
    (void)state;
    struct prefix_disk *disk = disk_open("cache", 1, PLENTY);
    struct disk_page first = disk_page_after(disk, NULL, 10);
    struct disk_page second = disk_page_after(disk, &first, 20);
    bool has_draft_rows = true;
    assert_false(disk_read(disk, &first, PREFIX_ENTRY_PAGE, &has_draft_rows));
    assert_true(disk_write(disk, &first, PREFIX_ENTRY_PAGE, false));
    assert_true(disk_write(disk, &second, PREFIX_ENTRY_PAGE, false));
    assert_true(disk_write(disk, &second, PREFIX_ENTRY_SNAPSHOT, true));
    prefix_disk_close(&disk);
    assert_null(disk);

    assert_int_equal(mode_of("cache"), 0700);
    assert_int_equal(mode_of(disk_path("cache", &first, PREFIX_ENTRY_PAGE)), 0600);
    disk = disk_open("cache", 1, PLENTY);
    assert_true(prefix_disk_has(disk, &second.key, PREFIX_ENTRY_SNAPSHOT));
    assert_false(prefix_disk_has(disk, &first.key, PREFIX_ENTRY_SNAPSHOT));
    assert_true(disk_read(disk, &first, PREFIX_ENTRY_PAGE, &has_draft_rows));
    assert_false(has_draft_rows);
    assert_true(disk_read(disk, &second, PREFIX_ENTRY_PAGE, &has_draft_rows));
    assert_true(disk_read(disk, &second, PREFIX_ENTRY_SNAPSHOT, &has_draft_rows));
    assert_true(has_draft_rows);
    assert_false(disk_read(disk, &first, PREFIX_ENTRY_SNAPSHOT, &has_draft_rows));
    struct prefix_disk_counters counters = prefix_disk_counters(disk);
    assert_int_equal(counters.reads, 4);
    assert_int_equal(counters.hits, 3);
    assert_int_equal(counters.read_bytes, 2 * DISK_PAGE_BYTES + DISK_SNAPSHOT_BYTES);
    assert_int_equal(counters.damaged, 0);
    prefix_disk_close(&disk);
}

/* Model, sizes, tokens and all tokens before them are in the key: nobody finds what is not his. */
static void every_part_of_a_prefix_counts(void **state) {
    (void)state;
    struct prefix_disk *disk = disk_open("cache", 1, PLENTY);
    struct prefix_disk *other_model = disk_open("cache", 2, PLENTY);
    const struct prefix_disk_options wider = {.directory = "cache",
                                              .model_key = {1},
                                              .page_tokens = DISK_PAGE_TOKENS,
                                              .page_bytes = DISK_PAGE_BYTES,
                                              .snapshot_bytes = DISK_SNAPSHOT_BYTES + 1,
                                              .limit_bytes = PLENTY,
                                              .buffer_count = 1};
    struct prefix_disk_options narrower = wider;
    narrower.snapshot_bytes--;
    struct prefix_disk *wide = NULL, *narrow = NULL;
    assert_int_equal(prefix_disk_open(&wider, &wide), STATUS_OK);
    assert_int_equal(prefix_disk_open(&narrower, &narrow), STATUS_OK);
    struct disk_page page = disk_page_after(disk, NULL, 1);
    struct disk_page middle = disk_page_after(disk, NULL, 2);
    const struct disk_page pages[] = {
        page,
        middle,
        disk_page_after(disk, &page, 1),
        disk_page_after(disk, &middle, 1),
        disk_page_after(other_model, NULL, 1),
        disk_page_after(wide, NULL, 1),
        disk_page_after(narrow, NULL, 1),
    };
    enum { COUNT = sizeof pages / sizeof pages[0] };
    for (int i = 0; i < COUNT; i++) {
        for (int j = 0; j < i; j++) {
            assert_memory_not_equal(pages[i].key.digest, pages[j].key.digest, PREFIX_KEY_BYTES);
        }
    }
    assert_int_equal(pages[2].key.page_index, 1);
    assert_memory_equal(pages[2].key.parent, page.key.digest, PREFIX_PARENT_BYTES);
    assert_true(disk_write(disk, &page, PREFIX_ENTRY_PAGE, false));
    prefix_disk_close(&disk);
    bool has_draft_rows;
    assert_false(disk_read(other_model, &pages[4], PREFIX_ENTRY_PAGE, &has_draft_rows));
    assert_int_equal(prefix_disk_counters(other_model).damaged, 0);
    prefix_disk_close(&other_model);
    prefix_disk_close(&wide);
    prefix_disk_close(&narrow);
}

/* Puts these bytes in the entry's place: reading must find nothing and delete the file. */
static void expect_refused(struct prefix_disk *disk, const struct disk_page *page,
                           enum prefix_entry_kind kind, const void *bytes, size_t length) {
    const char *path = disk_path("cache", page, kind);
    disk_file_write(path, bytes, length);
    int64_t damaged = prefix_disk_counters(disk).damaged;
    bool has_draft_rows;
    assert_false(disk_read(disk, page, kind, &has_draft_rows));
    assert_int_equal(prefix_disk_counters(disk).damaged, damaged + 1);
    assert_false(is_there(path));
}

static void damage_is_found_in_every_byte(void **state) {
    (void)state;
    struct prefix_disk *disk = disk_open("cache", 1, PLENTY);
    struct disk_page page = disk_page_after(disk, NULL, 1);
    assert_true(disk_write(disk, &page, PREFIX_ENTRY_SNAPSHOT, true));
    prefix_disk_close(&disk);
    unsigned char bytes[DISK_SNAPSHOT_FILE_BYTES + 1] = {0};
    const char *path = disk_path("cache", &page, PREFIX_ENTRY_SNAPSHOT);
    assert_int_equal(disk_file_read(path, bytes, sizeof bytes), DISK_SNAPSHOT_FILE_BYTES);
    disk = disk_open("cache", 1, PLENTY);
    static const unsigned char changes[] = {0x01, 0x02, 0x80, 0xFF};
    for (size_t i = 0; i < DISK_SNAPSHOT_FILE_BYTES; i++) {
        for (size_t j = 0; j < sizeof changes; j++) {
            bytes[i] ^= changes[j];
            expect_refused(disk, &page, PREFIX_ENTRY_SNAPSHOT, bytes, DISK_SNAPSHOT_FILE_BYTES);
            bytes[i] ^= changes[j];
        }
    }
    for (size_t length = 0; length <= DISK_SNAPSHOT_FILE_BYTES + 1; length++) {
        if (length != DISK_SNAPSHOT_FILE_BYTES) {
            expect_refused(disk, &page, PREFIX_ENTRY_SNAPSHOT, bytes, length);
        }
    }
    bool has_draft_rows = false;
    disk_file_write(path, bytes, DISK_SNAPSHOT_FILE_BYTES);
    assert_true(disk_read(disk, &page, PREFIX_ENTRY_SNAPSHOT, &has_draft_rows));
    assert_true(has_draft_rows);
    prefix_disk_close(&disk);
}

/* A whole entry under another's name, and things that are no files: nothing found, nothing followed. */
static void foreign_entries_are_refused(void **state) {
    (void)state;
    struct prefix_disk *disk = disk_open("cache", 1, PLENTY);
    struct disk_page page = disk_page_after(disk, NULL, 1);
    struct disk_page other = disk_page_after(disk, &page, 1); /* the same tokens elsewhere */
    assert_true(disk_write(disk, &other, PREFIX_ENTRY_PAGE, false));
    prefix_disk_close(&disk);
    unsigned char bytes[DISK_PAGE_FILE_BYTES];
    assert_int_equal(disk_file_read(disk_path("cache", &other, PREFIX_ENTRY_PAGE), bytes, sizeof bytes),
                     sizeof bytes);
    disk = disk_open("cache", 1, PLENTY);
    expect_refused(disk, &page, PREFIX_ENTRY_PAGE, bytes, sizeof bytes);
    disk_file_write("elsewhere", bytes, sizeof bytes);
    const char *path = disk_path("cache", &other, PREFIX_ENTRY_PAGE);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("../elsewhere", path), 0);
    bool has_draft_rows;
    assert_false(prefix_disk_has(disk, &other.key, PREFIX_ENTRY_PAGE));
    assert_false(disk_read(disk, &other, PREFIX_ENTRY_PAGE, &has_draft_rows));
    assert_false(is_there(path));
    assert_true(is_there("elsewhere"));
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_false(disk_read(disk, &other, PREFIX_ENTRY_PAGE, &has_draft_rows));
    assert_false(is_there(path));
    assert_int_equal(mkdir(path, 0700), 0);
    assert_false(disk_read(disk, &other, PREFIX_ENTRY_PAGE, &has_draft_rows));
    assert_true(is_there(path));
    assert_true(disk_write(disk, &other, PREFIX_ENTRY_PAGE, false));
    prefix_disk_close(&disk);
    assert_int_equal(rmdir(path), 0);
}

/* One line says what was deleted and why. */
static void a_deleted_entry_is_logged_once(void **state) {
    (void)state;
    struct prefix_disk *disk = disk_open("cache", 1, PLENTY);
    struct disk_page page = disk_page_after(disk, NULL, 77);
    const char *path = disk_path("cache", &page, PREFIX_ENTRY_PAGE);
    disk_file_write(path, "short", 5);
    fflush(stderr);
    int saved = dup(STDERR_FILENO);
    int log = open("log", O_RDWR | O_CREAT | O_TRUNC, 0600);
    log_set_level(LOG_WARNING);
    dup2(log, STDERR_FILENO);
    bool has_draft_rows;
    disk_read(disk, &page, PREFIX_ENTRY_PAGE, &has_draft_rows);
    disk_read(disk, &page, PREFIX_ENTRY_PAGE, &has_draft_rows);
    dup2(saved, STDERR_FILENO);
    log_set_level(LOG_ERROR);
    close(saved);
    close(log);
    prefix_disk_close(&disk);
    unsigned char text[1000] = {0};
    size_t length = disk_file_read("log", text, sizeof text - 1);
    char expected[1000];
    snprintf(expected, sizeof expected,
             "warning engine: the prefix cache has deleted %s: it is cut short or no file of this cache\n",
             path);
    assert_int_equal(length, strlen(expected));
    assert_string_equal((const char *)text, expected);
}

/* A new entry takes an old one's place: a snapshot that has the draft layer's rows now. */
static void entries_are_replaced(void **state) {
    (void)state;
    struct prefix_disk *disk = disk_open("cache", 1, PLENTY);
    struct disk_page page = disk_page_after(disk, NULL, 5);
    assert_true(disk_write(disk, &page, PREFIX_ENTRY_SNAPSHOT, false));
    assert_true(disk_write(disk, &page, PREFIX_ENTRY_SNAPSHOT, true));
    prefix_disk_close(&disk);
    disk = disk_open("cache", 1, PLENTY);
    bool has_draft_rows = false;
    assert_true(disk_read(disk, &page, PREFIX_ENTRY_SNAPSHOT, &has_draft_rows));
    assert_true(has_draft_rows);
    prefix_disk_close(&disk);
}

static void entries_are_dropped_when_all_buffers_are_taken(void **state) {
    (void)state;
    struct prefix_disk *disk = disk_open("cache", 1, PLENTY);
    struct prefix_disk_buffer *buffers[DISK_BUFFERS];
    for (int i = 0; i < DISK_BUFFERS; i++) {
        buffers[i] = prefix_disk_reserve(disk, i % 2 == 0 ? PREFIX_ENTRY_PAGE : PREFIX_ENTRY_SNAPSHOT);
        assert_non_null(buffers[i]);
        assert_int_equal(buffers[i]->payload_bytes, i % 2 == 0 ? DISK_PAGE_BYTES : DISK_SNAPSHOT_BYTES);
    }
    assert_null(prefix_disk_reserve(disk, PREFIX_ENTRY_PAGE));
    assert_int_equal(prefix_disk_counters(disk).dropped, 1);
    for (int i = 0; i < DISK_BUFFERS; i++) {
        prefix_disk_cancel(disk, buffers[i]);
    }
    struct disk_page page = disk_page_after(disk, NULL, 500);
    assert_true(disk_write(disk, &page, PREFIX_ENTRY_PAGE, false));
    while (prefix_disk_counters(disk).writes < 1) {
        usleep(1000);
    }
    assert_int_equal(prefix_disk_counters(disk).written_bytes, DISK_PAGE_FILE_BYTES);
    assert_int_equal(prefix_disk_counters(disk).dropped, 1);
    prefix_disk_close(&disk);
}

/* A directory that vanishes costs what would be written, nothing else. */
static void failed_writes_are_counted(void **state) {
    (void)state;
    struct prefix_disk *disk = disk_open("vanishing", 1, PLENTY);
    assert_int_equal(rmdir("vanishing"), 0);
    struct disk_page page = disk_page_after(disk, NULL, 5);
    for (int i = 0; i < 2; i++) {
        assert_true(disk_write(disk, &page, PREFIX_ENTRY_PAGE, false));
        while (prefix_disk_counters(disk).failed_writes < i + 1) {
            usleep(1000);
        }
    }
    bool has_draft_rows;
    assert_false(disk_read(disk, &page, PREFIX_ENTRY_PAGE, &has_draft_rows));
    assert_int_equal(prefix_disk_counters(disk).writes, 0);
    prefix_disk_close(&disk);
}

static void expect_open_fails(const char *directory, uint64_t limit_bytes, enum status status,
                              const char *message) {
    const struct prefix_disk_options options = {.directory = directory,
                                                .page_tokens = DISK_PAGE_TOKENS,
                                                .page_bytes = DISK_PAGE_BYTES,
                                                .snapshot_bytes = DISK_SNAPSHOT_BYTES,
                                                .limit_bytes = limit_bytes,
                                                .buffer_count = 1};
    struct prefix_disk *disk = NULL;
    assert_int_equal(prefix_disk_open(&options, &disk), status);
    assert_null(disk);
    assert_string_equal(error_last()->message, message);
}

static void a_useless_directory_is_refused(void **state) {
    (void)state;
    disk_file_write("file", "", 0);
    expect_open_fails("file", PLENTY, STATUS_IO,
                      "the prefix cache's directory file cannot be opened: Not a directory");
    expect_open_fails("missing/cache", PLENTY, STATUS_NOT_FOUND,
                      "the prefix cache's directory missing/cache cannot be made: No such file or directory; "
                      "make the folder around it, or choose another");
    expect_open_fails(
        "cache", DISK_PAGE_FILE_BYTES, STATUS_BAD_ARGUMENT,
        "the prefix cache's directory is limited to 136 bytes, but one page and one snapshot of "
        "this model take 288; raise the limit");
}

/* In a process without the rights of root, which may write anywhere. */
static void a_read_only_directory_is_refused(void **state) {
    (void)state;
    assert_int_equal(mkdir("locked", 0555), 0);
    int directory = open("locked", O_RDONLY | O_DIRECTORY);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (fchdir(directory) != 0 || (geteuid() == 0 && setuid(65534) != 0)) {
            _exit(2);
        }
        int out;
        bool is_refused = prefix_files_open(".", &out) == STATUS_IO;
        _exit(is_refused && strcmp(error_last()->message,
                                   "no file can be made in the prefix cache's directory .: Permission "
                                   "denied; allow this user to write there, or choose another") == 0
                  ? 0
                  : 1);
    }
    close(directory);
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_true(WIFEXITED(result));
    assert_int_equal(WEXITSTATUS(result), 0);
}

int main(void) {
    log_set_level(LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_come_back_after_a_restart),
        cmocka_unit_test(every_part_of_a_prefix_counts),
        cmocka_unit_test(damage_is_found_in_every_byte),
        cmocka_unit_test(foreign_entries_are_refused),
        cmocka_unit_test(a_deleted_entry_is_logged_once),
        cmocka_unit_test(entries_are_replaced),
        cmocka_unit_test(entries_are_dropped_when_all_buffers_are_taken),
        cmocka_unit_test(failed_writes_are_counted),
        cmocka_unit_test(a_useless_directory_is_refused),
        cmocka_unit_test(a_read_only_directory_is_refused),
    };
    return cmocka_run_group_tests_name("prefix_disk", tests, enter_temporary_directory,
                                       leave_temporary_directory);
}
