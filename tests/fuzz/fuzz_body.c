/* SPDX-License-Identifier: MIT */
/* The body of a POST, read as /ack reads it; and, behind a first byte of 'T', a Content-Type. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sampler/api/json_body.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

static void check(bool holds)
{
    if (!holds)
        abort();
}

static void use_body(struct body *body)
{
    const char *text = NULL;
    int64_t *list = NULL;
    size_t count = 0;
    int64_t integer;
    double real;
    bool truth;
    if (!body_text(body, "stream", "default", &text))
        check(text != NULL);
    if (!body_integer(body, "position", 0, 100, 7, &integer))
        check(integer >= 0 && integer <= 100);
    if (!body_real(body, "lease_s", 0, 1, 0.5, &real))
        check(real >= 0 && real <= 1);
    if (body_boolean(body, "replacement", true, &truth))
        check(!body_require(body, "replacement"));
    if (!body_integers(body, "seqs", 0, INT64_MAX, &list, &count)) {
        for (size_t i = 0; i < count; i++)
            check(list[i] >= 0);
        free(list);
    }
    if (!body_finish(body)) {
        body_drop_known(body);
        check(body->json->child == NULL);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    struct body body;
    char *text = malloc(length + 1);
    if (!text)
        return 0;
    memcpy(text, data, length);
    text[length] = '\0';
    if (text[0] == 'T') {
        if (body_type_is_right(text + 1))
            check(strcasestr(text, "json") || strcasestr(text, "form"));
    } else if (!body_open(text, length, length % 2 == 0, &body)) {
        use_body(&body);
        body_close(&body);
    } else {
        check(strlen(error_message()) > 0);
    }
    free(text);
    return 0;
}
