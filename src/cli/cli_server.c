#include "cli/cli_server.h"

#include <stdlib.h>
#include <string.h>

#include "lib/secret_file.h"

static const char DEFAULT_URL[] = "http://127.0.0.1:8000";

enum status cli_server_read(const struct cli_options *options, struct string_buffer *key,
                            struct api_client_options *out) {
    CHECK(options->api_key.count <= 1, STATUS_USAGE, "a client sends one --api-key");
    const char *api_key = options->api_key.count == 1 ? options->api_key.items[0] : getenv("OPENAI_API_KEY");
    if (options->api_key.count == 0 && options->api_key_file != NULL) {
        TRY(secret_file_read(options->api_key_file, key));
        size_t line_length = strcspn(string_buffer_text(key), "\r\n");
        string_buffer_drop_back(key, key->length - line_length);
        api_key = string_buffer_text(key);
    }
    *out = (struct api_client_options){
        .base_url = options->base_url != NULL ? options->base_url : DEFAULT_URL,
        .model = options->model,
        .api_key = api_key != NULL && api_key[0] != '\0' ? api_key : NULL,
        .timeout_seconds = options->request_timeout,
    };
    return STATUS_OK;
}
