/* The api's inside, for the files that make it up. */
#ifndef SLUICE_SERVER_API_INTERNAL_H
#define SLUICE_SERVER_API_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "server/answer.h"
#include "server/api.h"
#include "server/generation_config.h"
#include "server/request_chat.h"
#include "server/response_store.h"
#include "server/task_queue.h"

enum { API_ID_BYTES = 33 };

struct api {
    struct api_options options;
    struct generation_config recommended;
    struct request_chat chat_defaults;
    struct task_queue *queue;
    pthread_mutex_t mutex; /* guards the list of answers, and that they live while one holds it */
    pthread_cond_t emptied;
    struct answer *answers;
    atomic_size_t generation_count;
    atomic_size_t unknown_field_count;
    struct response_store *responses;
};

/* Replies with this thread's last error; `parameter` NULL or "": none. */
void api_reply_failure(struct reply *reply, const char *path, enum status status, const char *parameter);

/* The HTTP status of a failure. */
int api_http_status(enum status status);

/* Appends the error object of the path's API. */
void api_append_error(struct string_buffer *out, const char *path, int status, const char *message,
                      const char *parameter);

/* Sends a whole JSON body, or an error if the buffer has failed. */
void api_reply_json(struct reply *reply, const char *path, const struct string_buffer *body);

/* Reads "model": NOT_FOUND if it is none of those served. */
enum status api_read_model(const struct api *api, struct request_reader *reader);

/* Parses a body as JSON and checks its declared type. Owned: json_free. */
enum status api_parse_body(const struct api_request *request, struct json **out);

/* Bits that nobody can guess. */
uint64_t api_random(void);

/* 32 hexadecimal digits. */
void api_random_id(char out[API_ID_BYTES]);

void api_count_unknown_fields(struct api *api, const struct request_reader *reader);

/* The handlers of api_routes. */
void api_handle_chat(struct api *api, const struct api_request *request, struct reply *reply);
void api_handle_completions(struct api *api, const struct api_request *request, struct reply *reply);
void api_handle_models(struct api *api, const struct api_request *request, struct reply *reply);
void api_handle_model(struct api *api, const struct api_request *request, struct reply *reply);
void api_handle_tokenize(struct api *api, const struct api_request *request, struct reply *reply);
void api_handle_detokenize(struct api *api, const struct api_request *request, struct reply *reply);
void api_handle_tokenizer_info(struct api *api, const struct api_request *request, struct reply *reply);
void api_handle_messages(struct api *api, const struct api_request *request, struct reply *reply);
void api_handle_count_tokens(struct api *api, const struct api_request *request, struct reply *reply);
void api_handle_responses(struct api *api, const struct api_request *request, struct reply *reply);
void api_handle_response_get(struct api *api, const struct api_request *request, struct reply *reply);
void api_handle_response_cancel(struct api *api, const struct api_request *request, struct reply *reply);
void api_handle_response_delete(struct api *api, const struct api_request *request, struct reply *reply);

#endif
