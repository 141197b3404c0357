/* Batching only; what the texts mean is the parser's business. */
#include "text/output_writer.h"

void output_writer_deinit(struct output_writer *writer) {
    string_buffer_deinit(&writer->text);
}

enum status output_writer_append(struct output_writer *writer, enum output_event_kind kind, size_t call_index,
                                 const char *bytes, size_t length) {
    if (writer->text.length > 0 && (kind != writer->kind || call_index != writer->call_index)) {
        TRY(output_writer_flush(writer));
    }
    writer->kind = kind;
    writer->call_index = call_index;
    string_buffer_append(&writer->text, bytes, length);
    return STATUS_OK;
}

enum status output_writer_emit(struct output_writer *writer, const struct output_event *event) {
    TRY(output_writer_flush(writer));
    return writer->sink->emit(writer->sink->context, event);
}

enum status output_writer_flush(struct output_writer *writer) {
    TRY(string_buffer_check(&writer->text));
    if (writer->text.length == 0) {
        return STATUS_OK;
    }
    struct output_event event = {.kind = writer->kind,
                                 .text = writer->text.data,
                                 .length = writer->text.length,
                                 .call_index = writer->call_index};
    enum status status = writer->sink->emit(writer->sink->context, &event);
    string_buffer_clear(&writer->text);
    return status;
}
