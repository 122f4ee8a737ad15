/* SPDX-License-Identifier: MIT */
/* What json_parse() takes, cJSON can print, and json_parse() takes that again. */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

static void check(bool holds)
{
    if (!holds)
        abort();
}

static void use_members(const cJSON *json)
{
    int64_t integer = 0;
    const char *text = NULL;
    const cJSON *array = NULL;
    struct buffer buffer = BUFFER_INIT(1 << 20);
    if (!json_get_integer(json, "i", "input", &integer)) {
        char digits[32];
        cJSON *number = NULL;
        int64_t back = 0;
        snprintf(digits, sizeof(digits), "%" PRId64, integer);
        check(!json_parse(digits, strlen(digits), "again", &number));
        check(json_integer(number, &back) && back == integer);
        cJSON_Delete(number);
    }
    if (!json_get_array(json, "a", "input", &array))
        check(cJSON_IsArray(array));
    if (!json_get_text(json, "t", "input", &text) && !json_add_string(&buffer, text)) {
        cJSON *again = NULL;
        check(!json_parse(buffer.data, buffer.length, "again", &again));
        check(strcmp(again->valuestring, text) == 0);
        cJSON_Delete(again);
    }
    buffer_release(&buffer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    cJSON *json = NULL;
    cJSON *again = NULL;
    if (json_parse((const char *)data, length, "input", &json))
        return 0;
    use_members(json);
    char *printed = cJSON_PrintUnformatted(json);
    if (printed) {
        check(!json_parse(printed, strlen(printed), "again", &again));
        cJSON_Delete(again);
    }
    cJSON_free(printed);
    cJSON_Delete(json);
    return 0;
}
