/* The note that the linker leaves in the file that holds this function: program or shared library. */
#include "base/build_id.h"

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct search {
    uintptr_t inside; /* an address in the file */
    char *text;
};

static size_t padded(size_t bytes) {
    return (bytes + 3) / 4 * 4;
}

static bool is_loaded_here(const struct dl_phdr_info *file, uintptr_t address) {
    for (int i = 0; i < file->dlpi_phnum; i++) {
        uintptr_t first = file->dlpi_addr + file->dlpi_phdr[i].p_vaddr;
        if (file->dlpi_phdr[i].p_type == PT_LOAD && address >= first &&
            address - first < file->dlpi_phdr[i].p_memsz) {
            return true;
        }
    }
    return false;
}

static void read_notes(const char *notes, size_t bytes, char *text) {
    ElfW(Nhdr) note;
    for (size_t at = 0; at + sizeof note <= bytes;) {
        memcpy(&note, notes + at, sizeof note);
        const char *name = notes + at + sizeof note;
        const unsigned char *value = (const unsigned char *)name + padded(note.n_namesz);
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof "GNU" && strcmp(name, "GNU") == 0) {
            for (size_t i = 0; i < note.n_descsz && 2 * i + 2 < BUILD_ID_TEXT_BYTES; i++) {
                snprintf(text + 2 * i, 3, "%02x", value[i]);
            }
            return;
        }
        at += sizeof note + padded(note.n_namesz) + padded(note.n_descsz);
    }
}

static int look_at_file(struct dl_phdr_info *file, size_t size, void *context) {
    struct search *search = context;
    (void)size;
    if (!is_loaded_here(file, search->inside)) {
        return 0;
    }
    for (int i = 0; i < file->dlpi_phnum; i++) {
        if (file->dlpi_phdr[i].p_type == PT_NOTE) {
            read_notes((const char *)(file->dlpi_addr + file->dlpi_phdr[i].p_vaddr),
                       file->dlpi_phdr[i].p_memsz, search->text);
        }
    }
    return 1;
}

void build_id_read(char text[BUILD_ID_TEXT_BYTES]) {
    struct search search = {.inside = (uintptr_t)look_at_file, .text = text};
    text[0] = '\0';
    dl_iterate_phdr(look_at_file, &search);
}
